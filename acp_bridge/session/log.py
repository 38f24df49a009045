"""A session's log in memory: it numbers events, refuses those that its nesting forbids, and folds them into a state.

Owns order and nesting (D1 to D5 of ARCHITECTURE.md) and whatever is true of a session now. Pure: knows no disk and no
clock but the one it is given. Deltas that an answer has superseded are forgotten here; the journal keeps what is
unsaved.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import assert_never

from acp_bridge.content import JsonObject, ToolRequest
from acp_bridge.errors import IllegalEvent

from .events import (
    AssistantDelta,
    AssistantMessage,
    ContextCompacted,
    Event,
    Header,
    InputDropped,
    InputQueued,
    PermissionAsked,
    PermissionDecided,
    PermissionRevoked,
    PlanUpdated,
    Record,
    RequestFailed,
    RequestHeader,
    SessionConfigured,
    SessionOpened,
    SessionSalvaged,
    SessionTitled,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UsageReported,
    UserMessage,
)
from .transcript import ModelRequest, Transcript


@dataclass(slots=True)
class State:
    """What the log says is true now. Written by `Log` alone.

    Attributes:
        turn, step: the open ones, else None.
        turns: the number of the last turn.
        steps: how many steps the last turn has had.
        due: whether the last turn wants one more request: its prompt, or its calls' results, have no whole answer.
        last_end: how the last turn ended.
        requests: tool requests of the open step without a result, by call id, in the order of asking.
        called: the `tool/call` of those of them that have one.
        asked: those whose permission question is open.
        queued: inputs that neither ran nor were dropped, oldest first.
        header: the last request header that was not for a compaction.
        digests: SHA-256 by path, of each file as the session last saw it.
        opened: the last `session/opened`; None where a salvage may have lost what came after it.
        barriers: those in force by the last `session/opened`; none where a salvage may have lost their evidence.
        turn_barriers: those that were in force when the last turn began.
    """

    turn: int | None = None
    step: int | None = None
    turns: int = 0
    steps: int = 0
    due: bool = False
    last_end: TurnEnded | None = None
    requests: dict[str, ToolRequest] = field(default_factory=dict[str, ToolRequest])
    called: dict[str, ToolCalled] = field(default_factory=dict[str, ToolCalled])
    asked: set[str] = field(default_factory=set[str])
    queued: dict[str, InputQueued] = field(default_factory=dict[str, InputQueued])
    header: RequestHeader | None = None
    config: JsonObject = field(default_factory=dict[str, object])
    title: str = ""
    plan: tuple[JsonObject, ...] = ()
    usage: UsageReported | None = None
    grants: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    digests: dict[str, str] = field(default_factory=dict[str, str])
    opened: SessionOpened | None = None
    barriers: tuple[str, ...] = ()
    turn_barriers: tuple[str, ...] = ()
    cwd: str = ""
    roots: tuple[str, ...] = ()


class Log:
    """The events of one session, in order.

    Attributes:
        records: all of them but superseded deltas.
        state, transcript: the folds.
    """

    def __init__(
        self, header: Header, records: Iterable[Record] = (), *, clock: Callable[[], int], next_seq: int = 0
    ) -> None:
        """Fold `records` of an existing log, which goes on at `next_seq`. `clock` gives milliseconds since the epoch.

        Raises:
            IllegalEvent: the records do not follow each other, or break the nesting.
        """
        self.header = header
        self.records: list[Record] = []
        self.state = State(cwd=header.cwd, roots=header.roots)
        self.transcript = Transcript()
        self.next_seq = 0
        self._clock = clock
        for record in records:
            if record.seq < self.next_seq:
                raise IllegalEvent(f"seq {record.seq} follows {self.next_seq - 1}")
            self._take(record)
        self.next_seq = max(self.next_seq, next_seq)

    @property
    def last_seq(self) -> int:
        """Seq of the last event, -1 if there is none."""
        return self.next_seq - 1

    def append(self, event: Event, *, synthetic: bool = False, time: int | None = None) -> Record:
        """Number `event`, fold it in and return its record.

        Raises:
            IllegalEvent: the nesting forbids it here; the log is unchanged.
        """
        record = Record(self.next_seq, self._clock() if time is None else time, event, synthetic)
        self._take(record)
        return record

    def request(self) -> ModelRequest:
        """Return the model request that the log makes now.

        Raises:
            IllegalEvent: no header was logged.
        """
        header = self.state.header
        if header is None:
            raise IllegalEvent("a request needs a request/header before it")
        return ModelRequest(
            route=header.route,
            system=header.system,
            messages=self.transcript.messages,
            tools=header.tools,
            options=header.options,
        )

    def _take(self, record: Record) -> None:
        check(self.state, record.event)
        if not isinstance(record.event, AssistantDelta):  # nine in ten of a long log, and no fold looks at one
            advance(self.state, record.event)
            self.transcript.add(record)
            if isinstance(record.event, AssistantMessage):
                self._forget_deltas(record.event.id)
        self.records.append(record)
        self.next_seq = record.seq + 1

    def _forget_deltas(self, message_id: str) -> None:
        kept: list[Record] = []
        while self.records:
            last = self.records[-1]
            if isinstance(last.event, StepStarted | TurnStarted):
                break
            self.records.pop()
            if not (isinstance(last.event, AssistantDelta) and last.event.message_id == message_id):
                kept.append(last)
        self.records.extend(reversed(kept))


def check(state: State, event: Event) -> None:
    """Raise `IllegalEvent` if `event` may not follow in `state`."""
    match event:
        case AssistantDelta() if (state.turn, state.step) == (event.turn, event.step):
            pass
        case TurnStarted():
            _require(state.turn is None, event, "while a turn is open")
            _require(event.turn == state.turns + 1, event, f"after turn {state.turns}")
            _require(event.continues in (None, state.turns), event, "for a turn that is not the last one")
        case StepStarted():
            _require(state.turn == event.turn, event, f"while turn {state.turn} is open")
            _require(state.step is None, event, "while a step is open")
            _require(event.step == state.steps + 1, event, f"after step {state.steps}")
        case AssistantDelta() | RequestFailed() | ToolCalled() | AssistantMessage() | ToolResult():
            _require_step(state, event)
        case StepEnded():
            _require((state.turn, state.step) == (event.turn, event.step), event, "for a step that is not open")
            _require(not state.requests, event, f"while {sorted(state.requests)} have no result")
        case TurnEnded():
            _require(state.turn == event.turn, event, f"while turn {state.turn} is open")
            _require(state.step is None, event, "while a step is open")
        case PermissionAsked() | PermissionDecided():
            _require(event.call_id in state.requests, event, f"for {event.call_id!r}, which is not open")
        case ContextCompacted():
            _require(not state.requests, event, f"while {sorted(state.requests)} have no result")
        case InputDropped():
            _require(event.id in state.queued, event, f"for {event.id!r}, which is not queued")
        case _:
            pass


def _require_step(
    state: State, event: AssistantDelta | RequestFailed | ToolCalled | AssistantMessage | ToolResult
) -> None:
    _require((state.turn, state.step) == (event.turn, event.step), event, "outside its step")
    match event:
        case ToolCalled():
            _require(event.call_id in state.requests, event, f"for {event.call_id!r}, which was not asked for")
            _require(event.call_id not in state.called, event, f"twice for {event.call_id!r}")
        case ToolResult():
            _require(event.call_id in state.requests, event, f"for {event.call_id!r}, which is not open")
        case AssistantMessage():
            _require(not state.requests, event, f"while {sorted(state.requests)} have no result")
        case _:
            pass


def _require(holds: bool, event: Event, what: str) -> None:
    if not holds:
        raise IllegalEvent(f"{event.type} is not legal {what}")


def advance(state: State, event: Event) -> None:  # noqa: C901  one line a variant, closed by assert_never
    """Fold a legal `event` into `state`."""
    match event:
        case SessionOpened():
            state.opened = event
            state.barriers, state.cwd, state.roots = event.barriers, event.cwd, event.roots
        case InputQueued():
            state.queued[event.id] = event
        case InputDropped():
            del state.queued[event.id]
        case TurnStarted():
            state.turn = state.turns = event.turn
            state.turn_barriers = state.barriers
            state.steps, state.due = 0, event.continues is not None
        case UserMessage():
            state.queued.pop(event.id, None)
            state.due = True
        case StepStarted():
            state.step = state.steps = event.step
        case RequestHeader():
            if event.reason != "compaction":
                state.header = event
        case AssistantMessage():
            state.requests = {b.call_id: b for b in event.content if isinstance(b, ToolRequest)}
            state.called, state.asked = {}, set()
            state.due = event.interrupted or bool(state.requests)
        case PermissionAsked():
            state.asked.add(event.call_id)
        case PermissionDecided():
            state.asked.discard(event.call_id)
            if event.grant is not None:
                state.grants[event.grant["id"]] = event.grant
        case PermissionRevoked():
            state.grants.pop(event.grant_id, None)
        case ToolCalled():
            state.called[event.call_id] = event
        case ToolResult():
            del state.requests[event.call_id]
            state.called.pop(event.call_id, None)
            state.asked.discard(event.call_id)
            state.digests.update(event.digests or {})
        case StepEnded():
            state.step = None
        case TurnEnded():
            state.turn, state.last_end = None, event
        case SessionConfigured():
            state.config = event.values
        case SessionTitled():
            state.title = event.title
        case PlanUpdated():
            state.plan = event.entries
        case UsageReported():
            state.usage = event
        case SessionSalvaged():
            state.opened, state.barriers = None, ()
        case RequestFailed() | AssistantDelta() | ContextCompacted():
            pass
        case _:
            assert_never(event)
