"""What stands in front of a session that a program drives: it routes what happens to the turn that it happens to.

Owns who reads what, and how far a reader may be behind. Knows no configuration and no other session.
"""

import contextlib
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from acp_bridge.agent import Severity
from acp_bridge.effects import no_stray_cancellation
from acp_bridge.session import DeltaKind, InputDropped, InputQueued, Journal, Record
from acp_bridge.tools import Choice, Question, UserAnswer

logger = logging.getLogger(__name__)

_LEVELS: dict[Severity, int] = {"info": logging.INFO, "warning": logging.WARNING}

_MAX_WAITING = 10_000
"""Events that a turn's reader may be behind before the model waits for it."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """A piece of an answer, as it arrives; the whole follows as a record."""

    message_id: str
    kind: DeltaKind
    text: str


TurnEvent: TypeAlias = Streamed | Record
PermitFunction: TypeAlias = Callable[[Question], Awaitable[Choice]]


async def allow_nothing(question: Question) -> Choice:
    """Answer every permission question with a rejection."""
    del question
    return Choice("reject_once")


@dataclass(slots=True, eq=False)
class Subscription:
    """The two ends of what one turn is told.

    Attributes:
        input_id: its prompt's, once that is logged.
    """

    send: MemoryObjectSendStream[TurnEvent]
    receive: MemoryObjectReceiveStream[TurnEvent]
    input_id: str = ""


class TurnRouter:
    """The frontend of one session.

    Turns run in the order in which they were sent, so what no prompt of its own names belongs to the first of them.
    """

    def __init__(self, permit: PermitFunction, journal: Journal) -> None:
        self._permit = permit
        self._session_id = journal.session_id
        self._undo = journal.observe(self)
        self._turns: deque[Subscription] = deque()
        self.closed = False

    # --- for the turns ---

    def subscribe(self) -> Subscription:
        """Return the ends for a turn that is about to be sent."""
        # no bound here: a record must reach its turn; the model is what waits, by `congested`
        subscription = Subscription(*anyio.create_memory_object_stream[TurnEvent](math.inf))
        self._turns.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Let a turn's reader come to its end: nothing more will happen to it."""
        subscription.send.close()
        if subscription in self._turns:
            self._turns.remove(subscription)

    @property
    def _running(self) -> Subscription | None:
        return self._turns[0] if self._turns else None

    def _pass_on(self, event: TurnEvent, to: Subscription | None) -> None:
        if to is not None:
            with contextlib.suppress(anyio.BrokenResourceError):  # nobody reads this turn any more
                to.send.send_nowait(event)

    # --- what a front is told, by the ports `Front`, `Observer` and `Watcher` ---

    def close(self) -> None:
        """End all readers, and be told of nothing any more."""
        self._undo()
        for subscription in tuple(self._turns):
            self.unsubscribe(subscription)
        self.closed = True

    def tell(self, severity: Severity, title: str, description: str) -> None:
        """Log what an editor's user would be shown."""
        logger.log(_LEVELS[severity], "session %s: %s. %s", self._session_id, title, description)

    def recorded(self, record: Record) -> None:
        match record.event:
            case InputQueued(id=input_id) if self._turns:
                self._turns[-1].input_id = input_id
                self._pass_on(record, self._turns[-1])
            case InputDropped(id=input_id):
                for subscription in self._turns:
                    if subscription.input_id == input_id:
                        self._pass_on(record, subscription)
            case _:
                self._pass_on(record, self._running)

    def streamed(self, message_id: str, kind: DeltaKind, text: str) -> None:
        self._pass_on(Streamed(message_id, kind, text), self._running)

    def durable(self, seq: int) -> None:
        del seq

    def progress(self, call_id: str, output: str) -> None:
        del call_id, output

    @property
    def congested(self) -> bool:
        return self._running is not None and self._running.send.statistics().current_buffer_used > _MAX_WAITING

    async def ready(self) -> None:
        while self.congested:  # noqa: ASYNC110  the stream tells nobody when its buffer shrinks
            await anyio.sleep(0.01)

    async def ask(self, question: Question) -> Choice:
        async with no_stray_cancellation():  # else the call would vanish from its batch without a result
            return await self._permit(question)

    async def inquire(self, call_id: str, question: str, options: tuple[str, ...]) -> UserAnswer:
        del call_id, question, options
        return UserAnswer("unable")
