"""The past facts of a session: a closed union of frozen events, and the record that carries one in the log.

Owns what happened and in which words. Knows neither how a fact reaches the disk nor who is told.
The types and their members are all here from the first release: a later type makes older programs refuse new logs.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from acp_bridge.content import (
    AnswerBlock,
    Effect,
    Failure,
    Image,
    JsonObject,
    PromptBlock,
    ResultBlock,
    ShownBlock,
    Usage,
)

ResultCode: TypeAlias = Literal[
    "DENIED",
    "INVALID_ARGUMENTS",
    "UNKNOWN_TOOL",
    "ABORTED_BEFORE_DISPATCH",
    "ABORTED",
    "TIMED_OUT",
    "FAILED",
    "NOT_SAVED",
    "TOOL_NOT_STARTED",
    "TOOL_OUTCOME_UNKNOWN",
]
TurnReason: TypeAlias = Literal[
    "completed", "max_tokens", "max_requests", "refused", "cancelled", "error", "interrupted"
]
DropReason: TypeAlias = Literal["cancelled", "interrupted", "refused"]
HeaderReason: TypeAlias = Literal["initial", "resume", "change", "compaction"]
DeltaKind: TypeAlias = Literal["text", "thought", "arguments"]
PermissionOutcome: TypeAlias = Literal["allowed", "denied", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened:
    """Logged at each taking of the lock, after repair's closers.

    Attributes:
        version: the program's.
        barriers: the kinds of barrier in force, e.g. `("step", "request", "tool")`; repair reads them.
        cwd, roots: absolute paths; they may differ from the header's.
    """

    type: ClassVar[str] = "session/opened"
    version: str
    barriers: tuple[str, ...]
    cwd: str
    roots: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSalvaged:
    """What an explicit salvage had to leave out: bytes, and the seqs from `first_lost_seq` on."""

    type: ClassVar[str] = "session/salvaged"
    lost_bytes: int
    first_lost_seq: int
    kept_file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InputQueued:
    """A prompt was read."""

    type: ClassVar[str] = "input/queued"
    id: str
    content: tuple[PromptBlock, ...]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InputDropped:
    """A queued prompt will never run; logged before it is answered."""

    type: ClassVar[str] = "input/dropped"
    id: str
    reason: DropReason


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    """Turns are numbered from 1, across restarts. `continues` names an interrupted turn, at most once."""

    type: ClassVar[str] = "turn/start"
    turn: int
    continues: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """The prompt, or text that the program injected, told apart by `source`."""

    type: ClassVar[str] = "user/message"
    id: str
    content: tuple[PromptBlock, ...]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """Steps count from 1 in each turn."""

    type: ClassVar[str] = "step/start"
    turn: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader:
    """All of a model request that is not the transcript; a full snapshot, logged only when it differs from the last."""

    type: ClassVar[str] = "request/header"
    route: str
    options: JsonObject
    system: str
    tools: tuple[JsonObject, ...]
    reason: HeaderReason


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailed:
    """Closes an attempt: the deltas of `message_id` belong to no answer.

    Attributes:
        retry_after_s: set if a retry follows.
        attempts: how many attempts there may be in all; None in logs of earlier versions.
        discarded: whether some of its answer had been shown.
    """

    type: ClassVar[str] = "request/failed"
    turn: int
    step: int
    attempt: int
    message_id: str
    failure: Failure
    retry_after_s: float | None = None
    attempts: int | None = None
    discarded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantDelta:
    """Streamed text, coalesced."""

    type: ClassVar[str] = "assistant/delta"
    turn: int
    step: int
    message_id: str
    kind: DeltaKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """The committed answer of a step, or, `interrupted`, as much of it as had arrived.

    `extra` is what else came with it and means nothing to us; it goes back to the route that made it, which the last
    `request/header` before it names, and to no other.
    """

    type: ClassVar[str] = "assistant/message"
    turn: int
    step: int
    id: str
    content: tuple[AnswerBlock, ...]
    usage: Usage | None = None
    interrupted: bool = False
    extra: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionAsked:
    """The client was asked; `options` are `{optionId, name, kind}` as it was shown them."""

    type: ClassVar[str] = "permission/asked"
    call_id: str
    options: tuple[JsonObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionDecided:
    """The answer. `grant`, if lasting, is `{id, tool, scope}`; lasting grants live in the log alone."""

    type: ClassVar[str] = "permission/decided"
    call_id: str
    outcome: PermissionOutcome
    option_id: str = ""
    grant: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRevoked:
    """A lasting grant was taken back."""

    type: ClassVar[str] = "permission/revoked"
    grant_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled:
    """The program is about to run a tool: logged after permission was given and before the body starts."""

    type: ClassVar[str] = "tool/call"
    turn: int
    step: int
    call_id: str
    name: str
    arguments: JsonObject
    effect: Effect
    evidence: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """How a tool request ended.

    Attributes:
        content: what the model reads.
        shown: what the client draws, if it is more than the content.
        digests: SHA-256 in hex by absolute path, of each file read or written; empty text for a file that is gone.
    """

    type: ClassVar[str] = "tool/result"
    turn: int
    step: int
    call_id: str
    content: tuple[ResultBlock, ...]
    is_error: bool = False
    code: ResultCode | None = None
    shown: tuple[ShownBlock, ...] = ()
    digests: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnded:
    """Closes a step."""

    type: ClassVar[str] = "step/end"
    turn: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """Closes a turn. `by` says who cancelled, `failure` what went wrong."""

    type: ClassVar[str] = "turn/end"
    turn: int
    reason: TurnReason
    by: str | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompacted:
    """`summary` stands in the fold for the records `first_seq` to `last_seq`, both included."""

    type: ClassVar[str] = "context/compacted"
    first_seq: int
    last_seq: int
    summary: str
    header: JsonObject
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfigured:
    """The whole of what the user set, by option id; the last one wins."""

    type: ClassVar[str] = "session/config"
    values: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTitled:
    """The last one wins."""

    type: ClassVar[str] = "session/title"
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanUpdated:
    """The whole plan, entries `{content, priority, status}`; the last one wins."""

    type: ClassVar[str] = "plan/updated"
    entries: tuple[JsonObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReported:
    """Tokens in the model's window now, and its size, if known; the last one wins."""

    type: ClassVar[str] = "usage"
    used: int
    size: int | None = None


Event: TypeAlias = (
    SessionOpened
    | SessionSalvaged
    | InputQueued
    | InputDropped
    | TurnStarted
    | UserMessage
    | StepStarted
    | RequestHeader
    | RequestFailed
    | AssistantDelta
    | AssistantMessage
    | PermissionAsked
    | PermissionDecided
    | PermissionRevoked
    | ToolCalled
    | ToolResult
    | StepEnded
    | TurnEnded
    | ContextCompacted
    | SessionConfigured
    | SessionTitled
    | PlanUpdated
    | UsageReported
)


@dataclass(frozen=True, slots=True)
class Record:
    """An event and what only the log may assign.

    Attributes:
        seq: 0-based, without gaps.
        time: milliseconds since the epoch; it may step back when the clock does.
        synthetic: repair wrote it.
        encoded: the event's `data` as JSON bytes, on a record's way from journal to store, if it was made already.
    """

    seq: int
    time: int
    event: Event
    synthetic: bool = False
    encoded: bytes = field(default=b"", compare=False, repr=False)


def contents_named(event: Event) -> set[str]:
    """Return the names of the content files that an event needs."""
    match event:
        case InputQueued() | UserMessage() | ToolResult():
            return {block.file for block in event.content if isinstance(block, Image)}
        case _:
            return set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What never changes about a session; the first line of its log.

    Attributes:
        created: milliseconds since the epoch.
        cwd: absolute; the base of relative paths until a `session/opened` says otherwise.
        roots: absolute; `cwd` first.
        forked_from: the id of the session whose prefix this one began with, if any.
    """

    session_id: str
    created: int
    version: str
    cwd: str
    roots: tuple[str, ...]
    forked_from: str | None = None
