"""A session and its turns, as a program drives them.

Owns the iteration over a turn, and what becomes of one that is left before its end. Knows neither how sessions are
opened nor what else the process holds.
"""

import warnings
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import anyio

from acp_bridge.agent import Job, OpenSession, Outcome
from acp_bridge.content import Failure, PromptBlock, Text, mend_block
from acp_bridge.effects import shielded_cleanup
from acp_bridge.errors import ConfigError
from acp_bridge.session import Record, Recovery

from .router import Subscription, TurnEvent, TurnRouter

CLOSE_S = 5.0
"""How long leaving may take, in seconds."""


class Turn:
    """One prompt under way: iterate over what happens, then read `outcome`.

    Leaving the block before the end cancels the turn, and waits until it is closed and on disk.

    Attributes:
        outcome: how it ended; None until it has.
    """

    def __init__(self, session: OpenSession[TurnRouter], start: Callable[[], Job]) -> None:
        self.outcome: Outcome | None = None
        self._agent = session.agent
        self._router = session.front
        self._jobs = session.jobs
        self._start = start
        self._job: Job | None = None
        self._subscription: Subscription | None = None

    async def __aenter__(self) -> Self:
        """Send the prompt."""
        subscription = self._subscription = self._router.subscribe()
        try:
            job = self._job = self._start()
        except BaseException:
            self._router.unsubscribe(subscription)
            raise

        def ended() -> None:
            self._jobs.discard(job)
            self._router.unsubscribe(subscription)

        self._jobs.add(job)
        job.then = ended
        if job.outcome is not None:  # the session takes no more
            ended()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Cancel the turn if it was not read to its end."""
        if self._job is not None and self.outcome is None:
            self._agent.cancel_job(self._job, "client")
            with shielded_cleanup(CLOSE_S):
                self.outcome = await self._outcome_of(self._job)
        if self._subscription is not None:
            self._subscription.receive.close()

    def __aiter__(self) -> Self:
        """Iterate over pieces and records, in order."""
        return self

    async def __anext__(self) -> TurnEvent:
        """Return what happens next; the iteration ends once the turn has ended and is on disk."""
        if self._job is None or self._subscription is None:
            raise RuntimeError("iterate inside `async with session.prompt(…) as turn`")
        try:
            return await self._subscription.receive.receive()
        except anyio.EndOfStream:
            self.outcome = await self._outcome_of(self._job)
            raise StopAsyncIteration from None

    async def _outcome_of(self, job: Job) -> Outcome:
        """Wait for the outcome; after the end of the session there will be none."""
        if self._router.closed and job.outcome is None:
            message = "the session was ended before this turn could be closed"
            return Outcome(reason="error", failure=Failure(kind="not_saved", message=message))
        return await self._agent.settled(job)


class Session:
    """A session that is open in this process.

    Attributes:
        recovery: what an earlier process left, as the log tells it.
        notices: what its user should know of how it was opened, such as notes for agents that were left out.
    """

    def __init__(
        self, session: OpenSession[TurnRouter], recovery: Recovery, close: Callable[[], Awaitable[None]]
    ) -> None:
        self._session = session
        self._agent = session.agent
        self._close = close
        self.recovery = recovery
        self.notices = session.notices

    @property
    def id(self) -> str:
        """The session's id."""
        return self._agent.journal.session_id

    @property
    def records(self) -> tuple[Record, ...]:
        """The log so far; streamed text that a message holds whole is left out."""
        return tuple(self._agent.journal.log.records)

    def prompt(self, content: str | tuple[PromptBlock, ...]) -> Turn:
        """Return a turn of this prompt; entering it sends it. What no JSON can carry in it is mended."""
        blocks = tuple(map(mend_block, (Text(text=content),) if isinstance(content, str) else content))
        return Turn(self._session, lambda: self._agent.submit(blocks))

    def resume(self) -> Turn:
        """Return a turn that goes on with the interrupted one, without a new message.

        Raises:
            ConfigError: there is none to go on with.
        """

        def start() -> Job:
            job = self._agent.submit_continuation()
            if job is None:
                raise ConfigError(f"session {self.id} has no interrupted turn to go on with")
            return job

        return Turn(self._session, start)

    def proceed(self) -> Turn:
        """Do as `resume`, whose name this was before 0.2."""
        warnings.warn("Session.proceed is called Session.resume, and goes with 0.2", DeprecationWarning, stacklevel=2)
        return self.resume()

    async def configure(self, key: str, value: str) -> None:
        """Set an option, `mode` or `model`, durably.

        Raises:
            ConfigError: there is no such option, it does not take this value, or the model cannot be used.
            BarrierFailed: it is not confirmed on disk.
        """
        await self._agent.configure(key, value)

    async def close(self) -> None:
        """Stop what runs, save the rest and let the session go. Closing twice does nothing."""
        await self._close()
