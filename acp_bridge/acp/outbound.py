"""What an agent sends, as plain dicts from typed functions; streamed chunks as bytes from a template.

Owns member names and which may be absent. Knows no session and no order.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import orjson

Json: TypeAlias = dict[str, Any]
ChunkKind: TypeAlias = Literal["user_message_chunk", "agent_message_chunk", "agent_thought_chunk"]
ToolStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]
StopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
Severity: TypeAlias = Literal["info", "warning", "error"]


def text_block(text: str) -> Json:
    """Return a text content block."""
    return {"type": "text", "text": text}


def image_block(data: str, mime_type: str, uri: str | None) -> Json:
    """Return an image content block; `data` is base64."""
    return _with({"type": "image", "data": data, "mimeType": mime_type}, uri=uri)


def chunk(kind: ChunkKind, content: Json, message_id: str) -> Json:
    """Return a message chunk; chunks of one `message_id` are one message."""
    return {"sessionUpdate": kind, "content": content, "messageId": message_id}


class ChunkLines:
    """Makes whole lines of `session/update` for streamed text: all but the text is encoded once a message."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._heads: dict[tuple[ChunkKind, str], bytes] = {}

    def line(self, kind: ChunkKind, message_id: str, text: str) -> bytes:
        """Return the notification as a line, its newline included."""
        head = self._heads.get((kind, message_id))
        if head is None:
            head = self._head(kind, message_id)
        return b"%b%b}}}}\n" % (head, orjson.dumps(text))

    def _head(self, kind: ChunkKind, message_id: str) -> bytes:
        update = {"sessionUpdate": kind, "messageId": message_id, "content": {"type": "text", "text": ""}}
        params = {"sessionId": self._session_id, "update": update}
        whole = orjson.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params})
        head = whole[: -len(b'""}}}}')]
        self._heads = {(kind, message_id): head, **dict(list(self._heads.items())[:1])}  # the two now in use
        return head


def tool_call(
    call_id: str,
    *,
    title: str,
    name: str,
    kind: str,
    status: ToolStatus,
    locations: Sequence[Json] = (),
    raw_input: Any = None,
    raw_output: Any = None,
    content: Sequence[Json] = (),
) -> Json:
    """Return a new tool card."""
    update: Json = {
        "sessionUpdate": "tool_call",
        "toolCallId": call_id,
        "title": title,
        "name": name,
        "kind": kind,
        "status": status,
    }
    return _with(
        update,
        locations=list(locations) or None,
        rawInput=raw_input,
        rawOutput=raw_output,
        content=list(content) or None,
    )


def tool_call_update(
    call_id: str,
    *,
    status: ToolStatus | None = None,
    content: Sequence[Json] | None = None,
    locations: Sequence[Json] = (),
    raw_input: Any = None,
    raw_output: Any = None,
) -> Json:
    """Return what changed of a tool card; a list replaces the list."""
    update: Json = {"sessionUpdate": "tool_call_update", "toolCallId": call_id}
    content = None if content is None else list(content)
    update = _with(update, status=status, content=content, rawInput=raw_input, rawOutput=raw_output)
    return {**update, "locations": list(locations)} if locations else update


def tool_text(text: str) -> Json:
    """Return text as tool content."""
    return tool_content(text_block(text))


def tool_content(block: Json) -> Json:
    """Return a content block as tool content."""
    return {"type": "content", "content": block}


def tool_diff(path: str, old_text: str | None, new_text: str) -> Json:
    """Return a diff, whole or of one place, as tool content. `oldText` is null for a new file: a client needs it."""
    return {"type": "diff", "path": path, "oldText": old_text, "newText": new_text}


def location(path: str, line: int | None) -> Json:
    """Return a place to follow along."""
    return _with({"path": path}, line=line)


def plan(entries: Iterable[Json]) -> Json:
    """Return the whole plan."""
    return {"sessionUpdate": "plan", "entries": list(entries)}


def available_commands(commands: Iterable[tuple[str, str, str | None]]) -> Json:
    """Return the slash commands: name, description, hint for what follows it."""
    return {
        "sessionUpdate": "available_commands_update",
        "availableCommands": [
            _with({"name": name, "description": description}, input={"hint": hint} if hint else None)
            for name, description, hint in commands
        ],
    }


def current_mode(mode_id: str) -> Json:
    """Return that the mode is another now."""
    return {"sessionUpdate": "current_mode_update", "currentModeId": mode_id}


def config_options_update(options: Sequence[Json]) -> Json:
    """Return all config options with their values now."""
    return {"sessionUpdate": "config_option_update", "configOptions": list(options)}


def session_info(*, title: str | None = None, updated_at: str | None = None) -> Json:
    """Return what changed about the session; times are RFC 3339."""
    return _with({"sessionUpdate": "session_info_update"}, title=title, updatedAt=updated_at)


def usage(used: int, size: int) -> Json:
    """Return tokens in the window now, and its size, 0 if that is not known."""
    return {"sessionUpdate": "usage_update", "used": used, "size": size}


def notice(severity: Severity, title: str, description: str | None = None) -> Json:
    """Return a notice; only for clients that take them."""
    return _with({"sessionUpdate": "notice", "severity": severity, "title": title}, description=description)


def modes(current: str, available: Mapping[Any, tuple[str, str]]) -> Json:
    """Return the mode state."""
    return {
        "currentModeId": current,
        "availableModes": [
            {"id": mode_id, "name": name, "description": description}
            for mode_id, (name, description) in available.items()
        ],
    }


def select_option(
    option_id: str,
    *,
    name: str,
    category: str,
    current: str,
    values: Iterable[tuple[str, str, str | None]],
    description: str | None = None,
) -> Json:
    """Return a config option to choose from: value, name and description of each."""
    option: Json = {
        "id": option_id,
        "name": name,
        "category": category,
        "type": "select",
        "currentValue": current,
        "options": [_with({"value": value, "name": label}, description=detail) for value, label, detail in values],
    }
    return _with(option, description=description)


def session_info_entry(
    session_id: str, *, cwd: str, additional_directories: Sequence[str], title: str | None, updated_at: str
) -> Json:
    """Return a line of `session/list`."""
    entry: Json = {"sessionId": session_id, "cwd": cwd, "updatedAt": updated_at}
    return _with(entry, title=title, additionalDirectories=list(additional_directories) or None)


def permission_request(session_id: str, tool_call: Json, options: Iterable[Json]) -> Json:
    """Return the params of `session/request_permission`."""
    return {"sessionId": session_id, "toolCall": tool_call, "options": list(options)}


def elicitation(session_id: str, call_id: str, message: str, options: Sequence[str]) -> Json:
    """Return the params of `elicitation/create`: a form of one field, a choice if there are `options`."""
    field: Json = {"type": "string", "title": "Answer"}
    if options:
        field["enum"] = list(options)
    schema = {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
    return {
        "sessionId": session_id,
        "toolCallId": call_id,
        "mode": "form",
        "message": message,
        "requestedSchema": schema,
    }


def _with(base: Json, **members: Any) -> Json:
    """Return `base` with those members that are not None: to strict clients null is not the same as absent."""
    base.update({key: value for key, value in members.items() if value is not None})
    return base
