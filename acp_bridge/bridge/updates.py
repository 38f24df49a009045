"""Events as `session/update`s: what a client is shown live, and the same again when a session is loaded (D40).

Pure. Owns which fact is drawn how. Knows no connection; whether a result may be shown yet, others decide.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import assert_never

import orjson

from acp_bridge.acp import outbound
from acp_bridge.acp.outbound import Json
from acp_bridge.content import (
    Diff,
    Image,
    PromptBlock,
    Resource,
    ResourceLink,
    ResultBlock,
    ShownBlock,
    Text,
    Thought,
    ToolRequest,
)
from acp_bridge.redaction import Secrets
from acp_bridge.session import (
    CUT_OFF,
    NEVER_RAN,
    AssistantDelta,
    AssistantMessage,
    ContextCompacted,
    InputDropped,
    InputQueued,
    Interruption,
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
    contents_named,
    interruption_text,
    interruptions,
    plan_left,
    plans_shown,
    retry_text,
)
from acp_bridge.tools import read_arguments

from .bounds import MOST_BYTES, bounded, pieces, short, size_in_json

_MAX_IMAGE = 20 * 1024 * 1024 // 3
"""Characters of base64 of an image that still fit into a line that every client takes."""

_NO_SECRETS = Secrets()
_MAX_ARGUMENTS = 512 * 1024
"""Of a call's arguments, characters that are shown; they share a line with the call's content."""

_MAX_RAW_OUTPUT = 2000

_PLAIN_WORDS = {
    "TOOL_NOT_STARTED": "Never started: the program stopped before this call was begun.",
    "TOOL_OUTCOME_UNKNOWN": "Outcome unknown: the program stopped after this call was begun; it may have run.",
}


def live(record: Record, files: Mapping[str, bytes]) -> tuple[Json, ...]:
    """Return the updates of an event that has just been logged; streamed text was shown as it came.

    `files` are the content files that it names.
    """
    match record.event:
        case AssistantMessage() as event:
            return tuple(_card(block, None, {}) for block in event.content if isinstance(block, ToolRequest))
        case ToolCalled() as event:
            return (outbound.tool_call_update(event.call_id, status="in_progress"),)
        case ToolResult() as event:
            return (_settled(event, files),)
        case SessionTitled() | PlanUpdated() | UsageReported():
            return _state(record.event)
        case UserMessage(source="program") as event:
            return tuple(_noted(event))
        case RequestFailed() as event:
            return tuple(_retried(event))
        case (
            SessionOpened()
            | SessionSalvaged()
            | InputQueued()
            | InputDropped()
            | TurnStarted()
            | UserMessage()
            | StepStarted()
            | RequestHeader()
            | AssistantDelta()
            | PermissionAsked()
            | PermissionDecided()
            | PermissionRevoked()
            | StepEnded()
            | TurnEnded()
            | ContextCompacted()
            | SessionConfigured()
        ):
            return ()
        case _:
            assert_never(record.event)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a record is shown by, beside itself; and what comes behind the records."""

    results: Mapping[str, ToolResult]
    begun: AbstractSet[str]
    queued: Mapping[str, InputQueued]
    history: Mapping[int, Interruption]
    waiting: tuple[InputQueued, ...]
    plans: AbstractSet[int]
    last_state: tuple[Json, ...]


def facts_of(records: Sequence[Record], *, durable_seq: int) -> Facts:
    """Return what a replay has to know before its first update; of a long session, in a thread.

    A call or result beyond `durable_seq` is not shown yet.
    """
    results = {
        record.event.call_id: record.event
        for record in records
        if isinstance(record.event, ToolResult) and record.seq <= durable_seq
    }
    begun = {
        record.event.call_id for record in records if isinstance(record.event, ToolCalled) and record.seq <= durable_seq
    }
    queued = {record.event.id: record.event for record in records if isinstance(record.event, InputQueued)}
    last_turn = max((record.event.turn for record in records if isinstance(record.event, TurnStarted)), default=0)
    history = {turn: cut for turn, cut in interruptions(records).items() if turn < last_turn}
    done = {record.event.id for record in records if isinstance(record.event, UserMessage | InputDropped)}
    waiting = tuple(prompt for prompt in queued.values() if prompt.id not in done)
    left = plan_left(records)
    last = (*(_state(left) if left else ()), *_last_state(records))
    return Facts(results, begun, queued, history, waiting, plans_shown(records), last)


def replay(records: Sequence[Record], *, durable_seq: int, files: Mapping[str, bytes]) -> Iterator[Json]:
    """Yield the updates that show a session from its beginning, its facts and files gathered at once."""
    facts = facts_of(records, durable_seq=durable_seq)
    for record in records:
        yield from replayed(record, facts, files)
    yield from behind(facts, files)


def pictures_of(record: Record, facts: Facts) -> set[str]:
    """Return the content files of what a replay shows of a record."""
    match record.event:
        case UserMessage() as event:
            return contents_named(event)
        case InputDropped() as event if event.id in facts.queued:
            return contents_named(facts.queued[event.id])
        case AssistantMessage() as event:
            calls = (block.call_id for block in event.content if isinstance(block, ToolRequest))
            results = (facts.results[call_id] for call_id in calls if call_id in facts.results)
            return set[str]().union(*(contents_named(result) for result in results if not result.shown))
        case _:
            return set()


def behind(facts: Facts, files: Mapping[str, bytes]) -> Iterator[Json]:
    """Yield the updates that follow those of all records; `files` are those of the prompts that wait."""
    for prompt in facts.waiting:  # for the turn under way; it is not shown again when it runs
        yield from _said(prompt.content, prompt.id, files)
    yield from facts.last_state


def replayed(record: Record, facts: Facts, files: Mapping[str, bytes]) -> Iterator[Json]:
    """Yield the updates that show a record when a session is shown from its beginning.

    Text is whole by message, tool cards come once, at their last state. What was cut off or never ran is marked where
    it stands; of a turn that the program's end cut short it is told where it ended, unless that is news still, which
    whoever shows the session tells behind all this. `files` are `pictures_of` it; what is missing is shown as lost.
    """
    match record.event:
        case PlanUpdated() as event if record.seq in facts.plans:
            yield from _state(event)
        case UserMessage(source="program") as event:
            yield from _noted(event)
        case UserMessage() as event:
            yield from _said(event.content, event.id, files)
        case InputDropped() as event if event.id in facts.queued:  # the client showed it; it is never run
            yield from _said(facts.queued[event.id].content, event.id, files)
            yield from _remark(event.id, f"{NEVER_RAN[event.reason].capitalize()}.")
        case AssistantDelta() as event:
            if event.kind != "arguments" and event.text:
                yield from _text_chunks(event.kind == "thought", event.text, event.message_id)
        case AssistantMessage() as event:
            yield from _answered(event, facts, files)
            if event.interrupted:
                yield from _remark(event.id, CUT_OFF)
        case RequestFailed() as event:
            yield from _retried(event)
        case TurnEnded(turn=turn) if turn in facts.history:
            yield from _remark(str(turn), interruption_text(facts.history[turn]))
        case TurnEnded(reason="error") as event if event.failure is not None:
            yield from _remark(str(event.turn), f"The turn ended with an error: {event.failure.message}")
        case _:
            pass


def _answered(message: AssistantMessage, facts: Facts, files: Mapping[str, bytes]) -> Iterator[Json]:
    for block in message.content:
        match block:
            case Text() | Thought():
                if block.text:
                    yield from _text_chunks(isinstance(block, Thought), block.text, message.id)
            case ToolRequest():
                yield _card(block, facts.results.get(block.call_id), files, begun=block.call_id in facts.begun)
            case _:
                assert_never(block)


def _remark(about: str, text: str) -> Iterator[Json]:
    """Return a line of the program's own, not shown live; the blank line keeps it apart where messages are glued."""
    return _text_chunks(False, f"\n\n[{text}]", f"end_{about}")


def _retried(event: RequestFailed) -> Iterator[Json]:
    """Return a line between two attempts, apart from both where messages are glued."""
    if text := retry_text(event):
        yield from _text_chunks(False, f"\n\n[{text}]\n\n", f"retry_{event.message_id}")


def _last_state(records: Sequence[Record]) -> Iterator[Json]:
    """Yield the log-only state that has no place in the conversation, each kind once, as it stands last."""
    last: dict[str, SessionTitled | UsageReported] = {}
    for record in records:
        match record.event:
            case SessionTitled() | UsageReported() as event:
                last[event.type] = event
            case _:
                pass
    for event in last.values():
        yield from _state(event)


def _state(event: SessionTitled | PlanUpdated | UsageReported) -> tuple[Json, ...]:
    match event:
        case SessionTitled():
            return (outbound.session_info(title=event.title),)
        case PlanUpdated():
            return (outbound.plan(event.entries),)
        case UsageReported():
            size = event.size or 0  # one must be told; 0 is what clients read as unknown
            return (outbound.usage(event.used, size),)
        case _:
            assert_never(event)


def _said(content: tuple[PromptBlock, ...], message_id: str, files: Mapping[str, bytes]) -> Iterator[Json]:
    return _chunks("user_message_chunk", content, message_id, files)


def _noted(message: UserMessage) -> Iterator[Json]:
    """Return what the program said to the model, as a message that is not the user's."""
    return _chunks("agent_message_chunk", message.content, message.id, {})


def _chunks(
    kind: outbound.ChunkKind, content: tuple[PromptBlock, ...], message_id: str, files: Mapping[str, bytes]
) -> Iterator[Json]:
    for block in content:
        if isinstance(block, Text):
            for piece in pieces(block.text):
                yield outbound.chunk(kind, outbound.text_block(piece), message_id)
        else:
            yield outbound.chunk(kind, prompt_block(block, files), message_id)


def _text_chunks(thought: bool, text: str, message_id: str) -> Iterator[Json]:
    kind = "agent_thought_chunk" if thought else "agent_message_chunk"
    return _chunks(kind, (Text(text=text),), message_id, {})


def _card(request: ToolRequest, result: ToolResult | None, files: Mapping[str, bytes], *, begun: bool = False) -> Json:
    """Return a request's tool card: pending, running or settled."""
    return outbound.tool_call(
        request.call_id,
        title=request.title,
        name=request.name,
        kind=request.kind,
        status=_status(result) if result is not None else "in_progress" if begun else "pending",
        locations=_changed_places(result) or [outbound.location(place.path, place.line) for place in request.locations],
        raw_input=raw_input(request.arguments),
        raw_output=_raw_output(result) if result is not None else None,
        content=_content(result, files) if result is not None else (),
    )


def raw_input(arguments: str) -> object:
    """Return the argument text as what a client shows: the object, or the text itself if it is none, or is long."""
    if len(arguments) > _MAX_ARGUMENTS:
        return bounded(arguments, _MAX_ARGUMENTS)
    read = read_arguments(arguments, _NO_SECRETS)  # the log's text has none any more
    return arguments if read.problem else read.arguments


def understood_input(arguments: Json) -> object:
    """Return checked arguments as a client shows them before it asks: without what was left out, as text if long."""
    given = {name: value for name, value in arguments.items() if value is not None}
    text = orjson.dumps(given).decode()
    return given if len(text) <= _MAX_ARGUMENTS else bounded(text, _MAX_ARGUMENTS)


def _settled(result: ToolResult, files: Mapping[str, bytes]) -> Json:
    return outbound.tool_call_update(
        result.call_id,
        status=_status(result),
        content=_content(result, files),
        locations=_changed_places(result),
        raw_output=_raw_output(result),
    )


def _changed_places(result: ToolResult | None) -> list[Json]:
    """Return where a call has changed files, for an editor that follows along; none if it was not drawn by places."""
    shown = () if result is None else result.shown
    return [
        outbound.location(block.path, block.line)
        for block in shown
        if isinstance(block, Diff) and block.line is not None
    ]


def _raw_output(result: ToolResult) -> Json:
    """Return the beginning of what the model is told, for clients that keep nothing else of a call."""
    plain = _PLAIN_WORDS.get(result.code or "")
    text = plain or "\n".join(block.text for block in result.content if isinstance(block, Text))
    return {"output": text[:_MAX_RAW_OUTPUT]}


def _status(result: ToolResult) -> outbound.ToolStatus:
    return "failed" if result.is_error else "completed"


def _content(result: ToolResult, files: Mapping[str, bytes]) -> list[Json]:
    if result.code in _PLAIN_WORDS:
        return [outbound.tool_text(_PLAIN_WORDS[result.code])]
    return shown_content(result.shown or result.content, files)


def shown_content(blocks: Sequence[ResultBlock | ShownBlock], files: Mapping[str, bytes]) -> list[Json]:
    """Return tool content, as far as it fits into one update; pictures by content file."""
    shown: list[Json] = []
    left = MOST_BYTES
    for block in blocks:
        match block:
            case Text():
                text = bounded(block.text, left)
                left = max(0, left - size_in_json(text))
                shown.append(outbound.tool_text(text))
            case Diff():
                size = size_in_json(block.old_text or "") + size_in_json(block.new_text)
                if size > left:
                    shown.append(outbound.tool_text(f"[{short(block.path)}: the change is too large to be shown]"))
                    continue
                left -= size
                shown.append(outbound.tool_diff(block.path, block.old_text, block.new_text))
            case Image():
                picture = _image(block, files, left)
                left -= len(picture.get("data", ""))
                shown.append(outbound.tool_content(picture))
            case _:
                assert_never(block)
    return shown


def _image(block: Image, files: Mapping[str, bytes], most: int = _MAX_IMAGE) -> Json:
    """Return an image, or in words why it is not shown: it is lost, or has more than so many characters of base64."""
    data = files.get(block.file)
    if data is None:
        return outbound.text_block(f"[an image of {block.size} bytes, {block.mime_type}, which is lost]")
    if (len(data) + 2) // 3 * 4 > most:
        return outbound.text_block(f"[an image of {block.size} bytes, {block.mime_type}, too large to be shown here]")
    return outbound.image_block(base64.b64encode(data).decode(), block.mime_type, short(block.uri) or None)


def prompt_block(block: PromptBlock, files: Mapping[str, bytes]) -> Json:
    """Return a prompt's block as the client sent it, as far as it was kept."""
    match block:
        case Text():
            return outbound.text_block(block.text)
        case Image():
            return _image(block, files)
        case ResourceLink():
            link: Json = {"type": "resource_link", "uri": short(block.uri), "name": short(block.name)}
            optional = {
                "title": short(block.title),
                "mimeType": short(block.mime_type),
                "description": short(block.description),
                "size": block.size,
            }
            return link | {key: value for key, value in optional.items() if value not in ("", None)}
        case Resource():
            resource: Json = {"uri": short(block.uri), "text": bounded(block.text)}
            if block.mime_type:
                resource["mimeType"] = short(block.mime_type)
            return {"type": "resource", "resource": resource}
        case _:
            assert_never(block)
