"""Events, and logs as a program may have left them: for whoever wants to be shown that something holds for all.

`events` gives any event with any content; `logs` gives logs whose nesting is legal, by a random walk over all that a
program may do next: turns, steps, retries, streamed text, tool calls side by side, questions, drops, continuations,
compactions, reopenings after a crash. Every text of a walk is its own, so that a loss can be seen.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, get_type_hints

from hypothesis import strategies as st

from acp_bridge.content import (
    AnswerBlock,
    Diff,
    Effect,
    Failure,
    Image,
    JsonObject,
    Location,
    Resource,
    ResourceLink,
    Text,
    Thought,
    ToolRequest,
    Usage,
)
from acp_bridge.session import (
    AssistantDelta,
    AssistantMessage,
    ContextCompacted,
    DeltaKind,
    Event,
    Header,
    InputDropped,
    InputQueued,
    Log,
    PermissionAsked,
    PermissionDecided,
    PermissionRevoked,
    PlanUpdated,
    Record,
    RequestFailed,
    RequestHeader,
    ResultCode,
    SessionConfigured,
    SessionOpened,
    SessionSalvaged,
    SessionTitled,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolResult,
    TurnEnded,
    TurnReason,
    TurnStarted,
    UsageReported,
    UserMessage,
    closers,
)

HEADER = Header(session_id="s1", created=1_000, version="1", cwd="/w", roots=("/w",))
ALL_BARRIERS = ("step", "request", "tool", "result", "turn", "open", "answer")

# --- any event ---

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
numbers = st.integers(-(2**53), 2**53)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects: st.SearchStrategy[JsonObject] = st.dictionaries(texts, values, max_size=3)


def _of(cls: type[Any], **special: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Build `cls` with a strategy for each member by its annotation."""
    by_type: dict[Any, st.SearchStrategy[Any]] = {str: texts, int: numbers, int | None: st.none() | numbers}
    members: dict[str, st.SearchStrategy[Any]] = {}
    for name, hint in _hints(cls).items():
        members[name] = special[name] if name in special else by_type[hint] if hint in by_type else st.from_type(hint)
    return st.builds(cls, **members)


def _hints(cls: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {member.name: hints[member.name] for member in fields(cls)}


_texts = _of(Text)
_images = _of(Image)
_links = _of(ResourceLink, size=st.none() | numbers)
_locations = _of(Location, line=st.none() | numbers)
_extras = st.none() | objects
_requests = _of(ToolRequest, locations=st.lists(_locations, max_size=2).map(tuple), extra=_extras)
_lines = st.none() | numbers
_diffs = _of(Diff, old_text=st.none() | texts, line=_lines, old_line=_lines)
_usages = st.none() | _of(Usage)
_failures = _of(Failure, status=st.none() | numbers)


def _tuples(*of: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(st.one_of(*of), max_size=3).map(tuple)


_prompts = _tuples(_texts, _images, _links, _of(Resource))
_names = _tuples(texts)
_objects = _tuples(objects)

EVENTS: dict[type[Any], st.SearchStrategy[Any]] = {
    SessionOpened: _of(SessionOpened, barriers=_names, roots=_names),
    SessionSalvaged: _of(SessionSalvaged),
    InputQueued: _of(InputQueued, content=_prompts),
    InputDropped: _of(InputDropped),
    TurnStarted: _of(TurnStarted, continues=st.none() | numbers),
    UserMessage: _of(UserMessage, content=_prompts),
    StepStarted: _of(StepStarted),
    RequestHeader: _of(RequestHeader, tools=_objects, options=objects),
    RequestFailed: _of(RequestFailed, failure=_failures, retry_after_s=st.none() | st.floats(0, 1e6, allow_nan=False)),
    AssistantDelta: _of(AssistantDelta),
    AssistantMessage: _of(
        AssistantMessage, content=_tuples(_texts, _of(Thought), _requests), usage=_usages, extra=_extras
    ),
    PermissionAsked: _of(PermissionAsked, options=_objects),
    PermissionDecided: _of(PermissionDecided, grant=st.none() | objects),
    PermissionRevoked: _of(PermissionRevoked),
    ToolCalled: _of(ToolCalled, arguments=objects, evidence=st.none() | objects),
    ToolResult: _of(
        ToolResult, content=_tuples(_texts, _images), shown=_tuples(_texts, _diffs), digests=st.none() | objects
    ),
    StepEnded: _of(StepEnded),
    TurnEnded: _of(TurnEnded, by=st.none() | texts, failure=st.none() | _failures),
    ContextCompacted: _of(ContextCompacted, header=objects, usage=_usages),
    SessionConfigured: _of(SessionConfigured, values=objects),
    SessionTitled: _of(SessionTitled),
    PlanUpdated: _of(PlanUpdated, entries=_objects),
    UsageReported: _of(UsageReported, size=st.none() | numbers),
}
events: st.SearchStrategy[Event] = st.one_of(*EVENTS.values())
records: st.SearchStrategy[Record] = st.builds(
    Record, st.integers(0, 2**53), st.integers(0, 2**53), events, st.booleans()
)

# --- legal logs ---


@dataclass
class Walk:
    """A program at work on a log, one event at a time."""

    log: Log
    barriers: tuple[str, ...] = ALL_BARRIERS
    answered: bool = False
    attempt: int = 1
    texts: int = 0
    turn_is_over: bool = False
    effects: dict[str, Effect] = field(default_factory=dict[str, Effect])

    def text(self) -> str:
        """A text that occurs nowhere else."""
        self.texts += 1
        return f"<{self.texts}>"

    @property
    def message_id(self) -> str:
        state = self.log.state
        return f"msg_{state.turn}_{state.step}_{self.attempt}"

    def moves(self) -> list[Callable[[], list[Event]]]:
        """All that may happen next; what happens often stands more than once."""
        state = self.log.state
        moves: list[Callable[[], list[Event]]] = [self.queue, self.configure, self.reopen]
        if state.queued:
            moves.append(self.drop)
        if state.turn is None:
            moves += [self.start] * 6
            if (last := state.last_end) is not None and last.reason == "interrupted" and state.due:
                moves += [self.go_on] * 6
            if state.last_end is not None:
                moves.append(self.compact)
        elif state.step is None:
            moves += [self.end] * 4 if self.turn_is_over else [self.step] * 6
        elif not self.answered:
            moves += [self.stream] * 6 + [self.answer] * 4 + [self.fail]
        elif state.requests:
            moves += [self.tool] * 12
        else:
            moves += [self.end_step] * 6
        return moves

    def queue(self) -> list[Event]:
        return [InputQueued(id=f"in_{self.log.next_seq}", content=(Text(text=self.text()),), source="client")]

    def drop(self) -> list[Event]:
        return [InputDropped(id=next(iter(self.log.state.queued)), reason="cancelled")]

    def configure(self) -> list[Event]:
        return [SessionConfigured(values={"mode": "edit"}) if self.texts % 2 else SessionTitled(title=self.text())]

    def reopen(self) -> list[Event]:
        """The process was killed, and another one opens the session."""
        self.answered, self.attempt, self.turn_is_over = False, 1, False
        opened = SessionOpened(version="1", barriers=self.barriers, cwd="/w", roots=("/w",))
        return [*closers(self.log), opened]

    def start(self) -> list[Event]:
        self.turn_is_over = False
        turn = TurnStarted(turn=self.log.state.turns + 1)
        queued = next(iter(self.log.state.queued.values()), None)
        if queued is None:
            return [turn, UserMessage(id=self.text(), content=(Text(text=self.text()),), source="program")]
        return [turn, UserMessage(id=queued.id, content=queued.content, source=queued.source)]

    def go_on(self) -> list[Event]:
        self.turn_is_over = False
        return [TurnStarted(turn=self.log.state.turns + 1, continues=self.log.state.turns)]

    def compact(self) -> list[Event]:
        last = max(r.seq for r in self.log.records if isinstance(r.event, TurnEnded))
        return [ContextCompacted(first_seq=0, last_seq=last, summary=self.text(), header={})]

    def step(self) -> list[Event]:
        self.answered, self.attempt = False, 1
        state = self.log.state
        started = StepStarted(turn=state.turn or 0, step=state.steps + 1)
        if state.header is not None:
            return [started]
        return [started, RequestHeader(route="m", options={}, system="", tools=(), reason="initial")]

    def stream(self) -> list[Event]:
        kinds: tuple[DeltaKind, ...] = ("text", "text", "thought", "arguments")
        return [
            AssistantDelta(
                turn=self.log.state.turn or 0,
                step=self.log.state.step or 0,
                message_id=self.message_id,
                kind=kinds[self.texts % 4],
                text=self.text(),
            )
        ]

    def fail(self) -> list[Event]:
        failed = RequestFailed(
            turn=self.log.state.turn or 0,
            step=self.log.state.step or 0,
            attempt=self.attempt,
            message_id=self.message_id,
            failure=Failure(kind="rate_limit", message="slow down", status=429),
            retry_after_s=1.0,
        )
        self.attempt += 1
        return [failed]

    def answer(self) -> list[Event]:
        state = self.log.state
        self.answered = True
        wanted = self.texts % 4
        self.turn_is_over = wanted == 0
        content: list[AnswerBlock] = [Text(text=self.text())] if wanted != 3 else []
        for place in range(1, wanted + 1):
            call_id = f"call_{state.turn}_{state.step}_{place}"
            self.effects[call_id] = ("read", "idempotent", "write")[place % 3]
            content.append(ToolRequest(call_id=call_id, name="tool", arguments="{}", title=self.text()))
        return [
            AssistantMessage(turn=state.turn or 0, step=state.step or 0, id=self.message_id, content=tuple(content))
        ]

    def tool(self) -> list[Event]:
        """Move one of the open calls on: not always the first."""
        state = self.log.state
        call_ids = list(state.requests)
        call_id = call_ids[self.texts % len(call_ids)]
        self.texts += 1
        where: Any = {"turn": state.turn, "step": state.step, "call_id": call_id}
        if call_id in state.called:
            return [ToolResult(**where, content=(Text(text=self.text()),), digests={"/w/f": "00"})]
        if call_id in state.asked:
            outcomes: list[PermissionDecided] = [
                PermissionDecided(call_id=call_id, outcome="allowed", grant={"id": f"grant_{call_id}"}),
                PermissionDecided(call_id=call_id, outcome="denied"),
            ]
            return [outcomes[self.texts % 2]]
        match self.texts % 3:
            case 0:
                return [PermissionAsked(call_id=call_id, options=({"optionId": "allow_once"},))]
            case 1:
                code: ResultCode = "DENIED"
                return [ToolResult(**where, content=(Text(text=self.text()),), is_error=True, code=code)]
            case _:
                return [ToolCalled(**where, name="tool", arguments={}, effect=self.effects[call_id])]

    def end_step(self) -> list[Event]:
        return [StepEnded(turn=self.log.state.turn or 0, step=self.log.state.step or 0)]

    def end(self) -> list[Event]:
        reasons: tuple[TurnReason, ...] = ("completed", "cancelled", "error", "max_tokens")
        return [TurnEnded(turn=self.log.state.turn or 0, reason=reasons[self.texts % 4])]


def walked(choices: list[int], *, barriers: tuple[str, ...] = ALL_BARRIERS) -> Log:
    """The log that a program makes which takes `choices` at its crossroads."""
    clock = iter(range(2_000, 10**9, 7))
    walk = Walk(Log(HEADER, clock=lambda: next(clock)), barriers)
    walk.log.append(SessionOpened(version="1", barriers=barriers, cwd="/w", roots=("/w",)))
    for choice in choices:
        moves = walk.moves()
        synthetic = (move := moves[choice % len(moves)]) == walk.reopen
        for event in move():
            walk.log.append(event, synthetic=synthetic and not isinstance(event, SessionOpened))
    return walk.log


choices = st.lists(st.integers(0, 2**16), min_size=1, max_size=60)
