"""A session's log as a conversation to read: prompts, answers, thoughts, tool cards, and in words what went wrong.

Pure. Owns which event makes which entry, once for all renderings. Knows no terminal, no Markdown and no HTML.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

from acp_bridge.content import JsonObject, Text, Thought, ToolRequest
from acp_bridge.errors import IllegalEvent
from acp_bridge.session import (
    NEVER_RAN,
    AssistantDelta,
    AssistantMessage,
    ContextCompacted,
    InputDropped,
    InputQueued,
    Interruption,
    Loaded,
    Log,
    PermissionAsked,
    PermissionDecided,
    PermissionRevoked,
    PlanUpdated,
    Record,
    Recovery,
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
    interruption_text,
    interruptions,
    plans_shown,
    recovery_of,
)
from acp_bridge.text import quantity

from .entries import Answer, Entry, Level, Note, Plan, Prompt, Thinking, Timeline, TurnStart, block_text
from .tool_calls import ToolCalls

_WAY_ON = "This turn can be gone on with: load the session in an editor and say /continue."
_ENDS: Mapping[str, str] = {
    "max_tokens": "The answer was cut at the model's output limit.",
    "max_requests": "The turn ended at the limit of requests for one turn.",
    "refused": "The model refused to go on.",
}


def timeline_of(loaded: Loaded) -> Timeline:
    """Return the conversation that a log holds."""
    records, header = loaded.records, loaded.header
    builder = _Builder(ToolCalls.of(records), _Context.of(records))
    for record in records:
        builder.add(record)
    builder.end(loaded.dropped_bytes)
    if recovery_in(loaded).continuable is not None:
        builder.note(_WAY_ON, "warning")
    return Timeline(
        session_id=header.session_id,
        title=next((r.event.title for r in reversed(records) if isinstance(r.event, SessionTitled)), ""),
        cwd=next((r.event.cwd for r in reversed(records) if isinstance(r.event, SessionOpened)), header.cwd),
        created=header.created,
        updated=records[-1].time if records else header.created,
        turns=sum(isinstance(record.event, TurnStarted) for record in records),
        models=tuple(dict.fromkeys(r.event.route for r in records if isinstance(r.event, RequestHeader))),
        entries=tuple(builder.entries),
        forked_from=header.forked_from or "",
    )


def recovery_in(loaded: Loaded) -> Recovery:
    """Return what a load would tell the user of a log; nothing if its order is one that this version does not know."""
    try:
        log = Log(loaded.header, loaded.records, clock=lambda: 0)
    except IllegalEvent:
        return Recovery(dropped_bytes=loaded.dropped_bytes)
    return recovery_of(log.records, log.state, dropped_bytes=loaded.dropped_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context:
    """What must be known of the whole log to read one event of it.

    Attributes:
        closed: ids of messages that are committed or discarded, whose streamed text is in no entry of its own.
        queued: prompts by the id under which they were queued.
        plans: the seqs of the plans that are shown: one a turn.
        interruptions: how each turn that was cut off is told.
    """

    closed: frozenset[str]
    queued: Mapping[str, InputQueued]
    plans: frozenset[int]
    interruptions: Mapping[int, Interruption]

    @classmethod
    def of(cls, records: Sequence[Record]) -> "_Context":
        closed: set[str] = set()
        queued: dict[str, InputQueued] = {}
        for record in records:
            match record.event:
                case AssistantMessage() as event:
                    closed.add(event.id)
                case RequestFailed() as event:
                    closed.add(event.message_id)
                case InputQueued() as event:
                    queued[event.id] = event
                case _:
                    pass
        return cls(
            closed=frozenset(closed),
            queued=queued,
            plans=plans_shown(records),
            interruptions=interruptions(records),
        )


_Aside: TypeAlias = (
    RequestHeader
    | RequestFailed
    | SessionConfigured
    | SessionSalvaged
    | ContextCompacted
    | PermissionRevoked
    | SessionOpened
    | StepStarted
    | StepEnded
    | PermissionAsked
    | PermissionDecided
    | ToolCalled
    | ToolResult
    | SessionTitled
    | UsageReported
)
"""Events that nobody says or does: they make a note, or nothing."""


@dataclass(slots=True)
class _Builder:
    """Adds entry to entry, in the order of the log."""

    calls: ToolCalls
    context: _Context
    entries: list[Entry] = field(default_factory=list[Entry])
    _waiting: dict[str, Record] = field(default_factory=dict[str, Record])
    _open_turn: bool = False
    _route: str = ""
    _settings: JsonObject | None = None

    def add(self, record: Record) -> None:
        """Add what an event is told as."""
        match record.event:
            case InputQueued() as event:
                self._waiting[event.id] = record
            case InputDropped() as event:
                self._drop_prompt(event, record)
            case TurnStarted() as event:
                self._open_turn = True
                self.entries.append(TurnStart(turn=event.turn, time=record.time, continues=event.continues is not None))
            case UserMessage() as event:
                self._add_user_message(event, record)
            case AssistantDelta() as event:
                self._add_delta(event)
            case AssistantMessage() as event:
                self._add_answer(event)
            case TurnEnded() as event:
                self._end_turn(event)
            case PlanUpdated() as event:
                if record.seq in self.context.plans and event.entries:
                    self.entries.append(Plan(items=event.entries))
            case event:
                self._add_aside(event)

    def _add_aside(self, event: _Aside) -> None:
        match event:
            case RequestHeader():
                self._note_route(event)
            case RequestFailed():
                self.note(_failure_text(event), "warning")
            case SessionConfigured():
                self._note_settings(event)
            case SessionSalvaged():
                self.note(_salvage_text(event), "error")
            case ContextCompacted():
                self.note(f"What came before was summed up for the model:\n{event.summary}")
            case PermissionRevoked():
                self.note(f"A lasting permission was taken back ({event.grant_id}).")
            case (
                SessionOpened()
                | StepStarted()
                | StepEnded()
                | PermissionAsked()
                | PermissionDecided()
                | ToolCalled()
                | ToolResult()
                | SessionTitled()
                | UsageReported()
            ):
                pass
            case _:
                assert_never(event)

    def end(self, dropped_bytes: int) -> None:
        """Tell what is open where the log ends."""
        for record in self._waiting.values():
            if isinstance(record.event, InputQueued):
                self.entries.append(Prompt(blocks=record.event.content, time=record.time, fate="waits, not begun yet"))
        if self._open_turn:
            self.note(
                "This turn has no end: it runs in another process just now, or was cut off. Loading the session in an "
                "editor closes it, and so does `acp-bridge sessions repair`.",
                "warning",
            )
        if dropped_bytes:
            self.note(
                f"{quantity(dropped_bytes, 'byte')} at the end of the log are incomplete and left out.", "warning"
            )

    def note(self, text: str, level: Level = "info") -> None:
        """Tell a sentence of the program's own."""
        self.entries.append(Note(text=text, level=level))

    def _drop_prompt(self, event: InputDropped, record: Record) -> None:
        self._waiting.pop(event.id, None)
        if (queued := self.context.queued.get(event.id)) is not None:
            self.entries.append(Prompt(blocks=queued.content, time=record.time, fate=NEVER_RAN[event.reason]))

    def _add_user_message(self, event: UserMessage, record: Record) -> None:
        self._waiting.pop(event.id, None)
        if event.source == "program":
            self.note("\n".join(block_text(block) for block in event.content))
        else:
            self.entries.append(Prompt(blocks=event.content, time=record.time))

    def _add_delta(self, event: AssistantDelta) -> None:
        """Tell streamed text that no message holds; a failed attempt's belongs to no answer."""
        if event.message_id in self.context.closed or event.kind == "arguments":
            return
        last = self.entries[-1] if self.entries else None
        match event.kind, last:
            case "text", Answer(message_id=event.message_id):
                self.entries[-1] = replace(last, text=last.text + event.text)
            case "text", _:
                self.entries.append(Answer(text=event.text, partial=True, message_id=event.message_id))
            case "thought", Thinking(message_id=event.message_id):
                self.entries[-1] = replace(last, text=last.text + event.text)
            case "thought", _:
                self.entries.append(Thinking(text=event.text, message_id=event.message_id))
            case _:
                assert_never(event.kind)

    def _add_answer(self, event: AssistantMessage) -> None:
        for block in event.content:
            match block:
                case Text():
                    if block.text.strip():
                        self.entries.append(Answer(text=block.text, partial=event.interrupted))
                case Thought():
                    if block.text.strip():
                        self.entries.append(Thinking(text=block.text))
                case ToolRequest(name="update_plan") if self.calls.is_done(block.call_id):
                    pass  # the plan itself stands there
                case ToolRequest():
                    self.entries.append(self.calls.card(block))
                case _:
                    assert_never(block)

    def _end_turn(self, event: TurnEnded) -> None:
        self._open_turn = False
        if event.turn in self.context.interruptions:
            self.note(interruption_text(self.context.interruptions[event.turn]), "warning")
            return
        match event.reason:
            case "completed" | "interrupted":
                pass
            case "cancelled":
                self.note("Cancelled." if event.by in (None, "client") else f"Cancelled by {event.by}.", "warning")
            case "error":
                self.note(f"The turn ended with an error: {event.failure.message if event.failure else '?'}", "error")
            case "max_tokens" | "max_requests" | "refused":
                self.note(_ENDS[event.reason], "warning")
            case _:
                assert_never(event.reason)

    def _note_route(self, event: RequestHeader) -> None:
        if self._route and event.route != self._route:
            self.note(f"From here on the model is {event.route}.")
        self._route = event.route

    def _note_settings(self, event: SessionConfigured) -> None:
        changed = {key: value for key, value in event.values.items() if (self._settings or {}).get(key) != value}
        if self._settings is not None and changed:
            self.note("Set: " + ", ".join(f"{key} = {value}" for key, value in changed.items()) + ".")
        self._settings = event.values


def _failure_text(event: RequestFailed) -> str:
    then = f"; tried again after {event.retry_after_s:g} s" if event.retry_after_s is not None else ""
    return f"Request {event.attempt} failed ({event.failure.kind}): {event.failure.message}{then}"


def _salvage_text(event: SessionSalvaged) -> str:
    return (
        f"The log was damaged here. What came after was lost ({quantity(event.lost_bytes, 'byte')}, from record "
        f"{event.first_lost_seq} on) and may have changed things; the damaged file is kept as {event.kept_file}."
    )
