"""A session's log as a conversation to read: prompts, answers, thoughts, tool cards, and in words what went wrong.

Pure. Owns which fact is told how, once for all renderings. Knows no terminal, no Markdown and no HTML.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from acp_bridge.cli.words import counted
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
    TurnStarted,
    UsageReported,
    UserMessage,
    interruption_text,
    interruptions,
    plans_shown,
    recovery_of,
)

from .pieces import Answer, Begun, Card, Level, Note, Piece, Plan, Prompt, Story, Thinking, block_text

_STATUS: Mapping[ResultCode, tuple[str, Level]] = {
    "DENIED": ("denied, not run", "warning"),
    "INVALID_ARGUMENTS": ("not run: its arguments were wrong", "error"),
    "UNKNOWN_TOOL": ("not run: there is no such tool", "error"),
    "ABORTED_BEFORE_DISPATCH": ("cancelled before it began", "warning"),
    "ABORTED": ("stopped on the way; it may have run in part", "warning"),
    "TIMED_OUT": ("took too long and was stopped; it may have run in part", "error"),
    "FAILED": ("failed", "error"),
    "NOT_SAVED": ("not run: it could not be saved first", "error"),
    "TOOL_NOT_STARTED": ("never started: the program stopped before it", "warning"),
    "TOOL_OUTCOME_UNKNOWN": ("outcome unknown: the program stopped after it began; it may have run", "warning"),
}
_WAY_ON = "This turn can be gone on with: load the session in an editor and say /continue."
_ENDS: Mapping[str, str] = {
    "max_tokens": "The answer was cut at the model's output limit.",
    "max_requests": "The turn ended at the limit of requests for one turn.",
    "refused": "The model refused to go on.",
}


def story_of(loaded: Loaded) -> Story:
    """Return what a log tells."""
    records, header = loaded.records, loaded.header
    teller = _Teller(_Facts.of(records))
    for record in records:
        teller.tell(record)
    teller.end(loaded.dropped_bytes)
    news = news_of(loaded)
    if news.continuable is not None:
        teller.note(_WAY_ON, "warning")
    return Story(
        session_id=header.session_id,
        title=next((r.event.title for r in reversed(records) if isinstance(r.event, SessionTitled)), ""),
        cwd=next((r.event.cwd for r in reversed(records) if isinstance(r.event, SessionOpened)), header.cwd),
        created=header.created,
        updated=records[-1].time if records else header.created,
        turns=sum(isinstance(record.event, TurnStarted) for record in records),
        models=tuple(dict.fromkeys(r.event.route for r in records if isinstance(r.event, RequestHeader))),
        pieces=tuple(teller.pieces),
        forked_from=header.forked_from or "",
    )


def news_of(loaded: Loaded) -> Recovery:
    """Return what is news in a log that nobody holds; nothing in one whose order this version does not know."""
    try:
        log = Log(loaded.header, loaded.records, clock=lambda: 0)
    except IllegalEvent:
        return Recovery(dropped_bytes=loaded.dropped_bytes)
    return recovery_of(log.records, log.state, dropped_bytes=loaded.dropped_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What a record is told by, beside itself."""

    results: Mapping[str, ToolResult]
    begun: frozenset[str]
    permissions: Mapping[str, PermissionDecided | None]
    closed: frozenset[str]
    queued: Mapping[str, InputQueued]
    plans: frozenset[int]
    interruptions: Mapping[int, Interruption]

    @classmethod
    def of(cls, records: Sequence[Record]) -> "_Facts":
        results: dict[str, ToolResult] = {}
        begun: set[str] = set()
        permissions: dict[str, PermissionDecided | None] = {}
        closed: set[str] = set()
        queued: dict[str, InputQueued] = {}
        for record in records:
            match record.event:
                case ToolResult() as event:
                    results[event.call_id] = event
                case ToolCalled() as event:
                    begun.add(event.call_id)
                case PermissionAsked() as event:
                    permissions[event.call_id] = None
                case PermissionDecided() as event:
                    permissions[event.call_id] = event
                case AssistantMessage() as event:
                    closed.add(event.id)
                case RequestFailed() as event:
                    closed.add(event.message_id)
                case InputQueued() as event:
                    queued[event.id] = event
                case _:
                    pass
        return cls(
            results=results,
            begun=frozenset(begun),
            permissions=permissions,
            closed=frozenset(closed),
            queued=queued,
            plans=plans_shown(records),
            interruptions=interruptions(records),
        )


@dataclass(slots=True)
class _Teller:
    """Adds piece to piece."""

    facts: _Facts
    pieces: list[Piece] = field(default_factory=list[Piece])
    _waiting: dict[str, Record] = field(default_factory=dict[str, Record])
    _open_turn: bool = False
    _route: str = ""
    _settings: JsonObject | None = None

    def tell(self, record: Record) -> None:  # noqa: C901  one line a variant, closed by assert_never
        """Tell a fact."""
        match record.event:
            case InputQueued() as event:
                self._waiting[event.id] = record
            case InputDropped() as event:
                self._dropped(event, record)
            case TurnStarted() as event:
                self._open_turn = True
                self.pieces.append(Begun(turn=event.turn, time=record.time, continues=event.continues is not None))
            case UserMessage() as event:
                self._said(event, record)
            case AssistantDelta() as event:
                self._streamed(event)
            case AssistantMessage() as event:
                self._answered(event)
            case TurnEnded() as event:
                self._ended(event)
            case RequestHeader() as event:
                self._requested(event)
            case RequestFailed() as event:
                self.note(_failed_request(event), "warning")
            case SessionConfigured() as event:
                self._configured(event)
            case SessionSalvaged() as event:
                self.note(_salvaged(event), "error")
            case ContextCompacted() as event:
                self.note(f"What came before was summed up for the model:\n{event.summary}")
            case PermissionRevoked() as event:
                self.note(f"A lasting permission was taken back ({event.grant_id}).")
            case PlanUpdated() as event:
                if record.seq in self.facts.plans and event.entries:
                    self.pieces.append(Plan(entries=event.entries))
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
                assert_never(record.event)

    def end(self, dropped_bytes: int) -> None:
        """Tell what is open where the log ends."""
        for record in self._waiting.values():
            if isinstance(record.event, InputQueued):
                self.pieces.append(Prompt(blocks=record.event.content, time=record.time, fate="waits, not begun yet"))
        if self._open_turn:
            self.note(
                "This turn has no end: it runs in another process just now, or was cut off. Loading the session in an "
                "editor closes it, and so does `acp-bridge sessions repair`.",
                "warning",
            )
        if dropped_bytes:
            self.note(f"{counted(dropped_bytes, 'byte')} at the end of the log are incomplete and left out.", "warning")

    def note(self, text: str, level: Level = "info") -> None:
        """Tell a sentence of the program's own."""
        self.pieces.append(Note(text=text, level=level))

    def _dropped(self, event: InputDropped, record: Record) -> None:
        self._waiting.pop(event.id, None)
        if (queued := self.facts.queued.get(event.id)) is not None:
            self.pieces.append(Prompt(blocks=queued.content, time=record.time, fate=NEVER_RAN[event.reason]))

    def _said(self, event: UserMessage, record: Record) -> None:
        self._waiting.pop(event.id, None)
        if event.source == "program":
            self.note("\n".join(block_text(block) for block in event.content))
        else:
            self.pieces.append(Prompt(blocks=event.content, time=record.time))

    def _streamed(self, event: AssistantDelta) -> None:
        """Tell streamed text that no message holds; a failed attempt's belongs to no answer."""
        if event.message_id in self.facts.closed or event.kind == "arguments":
            return
        last = self.pieces[-1] if self.pieces else None
        match event.kind, last:
            case "text", Answer(message_id=event.message_id):
                self.pieces[-1] = replace(last, text=last.text + event.text)
            case "text", _:
                self.pieces.append(Answer(text=event.text, partial=True, message_id=event.message_id))
            case "thought", Thinking(message_id=event.message_id):
                self.pieces[-1] = replace(last, text=last.text + event.text)
            case "thought", _:
                self.pieces.append(Thinking(text=event.text, message_id=event.message_id))
            case _:
                assert_never(event.kind)

    def _answered(self, event: AssistantMessage) -> None:
        for block in event.content:
            match block:
                case Text():
                    if block.text.strip():
                        self.pieces.append(Answer(text=block.text, partial=event.interrupted))
                case Thought():
                    if block.text.strip():
                        self.pieces.append(Thinking(text=block.text))
                case ToolRequest(name="update_plan") if self._is_done(block.call_id):
                    pass  # the plan itself stands there
                case ToolRequest():
                    self.pieces.append(self._card(block))
                case _:
                    assert_never(block)

    def _card(self, request: ToolRequest) -> Card:
        result = self.facts.results.get(request.call_id)
        if result is None:
            status, level = self._unsettled(request.call_id), "warning"
        elif result.code is not None:
            status, level = _STATUS[result.code]
        else:
            status, level = ("failed", "error") if result.is_error else ("done", "info")
        recovered = result is not None and result.code in ("TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN")
        return Card(
            title=request.title or request.name,
            name=request.name,
            arguments=request.arguments,
            status=status,
            level=level,
            permission=_permission(self.facts.permissions.get(request.call_id)),
            shown=() if result is None or recovered else result.shown or result.content,
        )

    def _is_done(self, call_id: str) -> bool:
        result = self.facts.results.get(call_id)
        return result is not None and not result.is_error

    def _unsettled(self, call_id: str) -> str:
        if call_id in self.facts.begun:
            return "begun, no result yet"
        waits = call_id in self.facts.permissions and self.facts.permissions[call_id] is None
        return "waits for permission" if waits else "not begun"

    def _ended(self, event: TurnEnded) -> None:
        self._open_turn = False
        if event.turn in self.facts.interruptions:
            self.note(interruption_text(self.facts.interruptions[event.turn]), "warning")
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

    def _requested(self, event: RequestHeader) -> None:
        if self._route and event.route != self._route:
            self.note(f"From here on the model is {event.route}.")
        self._route = event.route

    def _configured(self, event: SessionConfigured) -> None:
        changed = {key: value for key, value in event.values.items() if (self._settings or {}).get(key) != value}
        if self._settings is not None and changed:
            self.note("Set: " + ", ".join(f"{key} = {value}" for key, value in changed.items()) + ".")
        self._settings = event.values


def _permission(decided: PermissionDecided | None) -> str:
    if decided is None:
        return ""
    if decided.grant is not None:
        return f"always allowed: {decided.grant.get('scope') or decided.grant.get('tool')}"
    return {"allowed": "allowed", "denied": "denied by you", "cancelled": "not decided"}[decided.outcome]


def _failed_request(event: RequestFailed) -> str:
    then = f"; tried again after {event.retry_after_s:g} s" if event.retry_after_s is not None else ""
    return f"Request {event.attempt} failed ({event.failure.kind}): {event.failure.message}{then}"


def _salvaged(event: SessionSalvaged) -> str:
    return (
        f"The log was damaged here. What came after was lost ({counted(event.lost_bytes, 'byte')}, from record "
        f"{event.first_lost_seq} on) and may have changed things; the damaged file is kept as {event.kept_file}."
    )
