"""What a server answers to a call, as a tool's output. Pure.

Owns what becomes of content that is neither text nor a picture: it is named, so that the model knows what it did not
get. What the bytes of a picture are worth, the pipeline finds; what the server says of their kind counts for nothing.
"""

import base64
import binascii
from collections.abc import Iterator
from typing import Any

import orjson

from acp_bridge.content import JsonObject, Text
from acp_bridge.limits import PICTURE, RESULT_PICTURES
from acp_bridge.pictures import HEAD, kind_of, oversized
from acp_bridge.redaction import Secrets
from acp_bridge.text import mended, mended_text
from acp_bridge.tools.tool import Picture, ToolOutput

MAX_TEXT = 80_000
"""Characters of a result; less than the pipeline's bound, so that it is these words that tell of the rest."""


def output_of(result: JsonObject, secrets: Secrets = Secrets()) -> ToolOutput:  # noqa: B008 - a frozen value
    """Return what the model is given of a result, without secrets: its text, and behind that its pictures.

    Of a long one, in a thread.
    """
    content = secrets.without(result.get("content"))
    parts = list(_parts(content if isinstance(content, list) else []))  # pyright: ignore[reportUnknownArgumentType]
    structured = secrets.without(result.get("structuredContent"))
    if structured is not None and not any(isinstance(part, str) for part in parts):
        parts.append(orjson.dumps(mended(structured), option=orjson.OPT_INDENT_2).decode())
    pictures = [part for part in parts if isinstance(part, Picture)]
    number = iter(range(1, len(pictures) + 1))
    texts = [part if isinstance(part, str) else f"[picture {next(number)}, below]" for part in parts]
    text = _cut(secrets.hidden("\n".join(texts))) or "[no output]"
    is_error = result.get("isError") is True
    return ToolOutput(content=(Text(text=text), *pictures), is_error=is_error, code="FAILED" if is_error else None)


def _parts(content: list[Any]) -> Iterator[str | Picture]:
    taken = 0
    for block in content:
        part = _part(block, taken)
        taken += isinstance(part, Picture)
        yield part


def _part(block: Any, taken: int) -> str | Picture:
    match block:
        case {"type": "text", "text": str(text)}:
            return mended_text(text)
        case {"type": "image", "data": str(data), **rest}:
            return _picture(data, "", _short(rest.get("mimeType")), taken)
        case {"type": "audio", "data": str(data), **rest}:
            return f"[audio left out: {_short(rest.get('mimeType'))}, {_size(data)} bytes; {_TAKEN}]"
        case {"type": "resource", "resource": {"text": str(text), **rest}}:
            return f"[resource {_short(rest.get('uri'))}]\n{mended_text(text)}"
        case {"type": "resource", "resource": {"blob": str(data), **rest}}:
            uri, kind = _short(rest.get("uri")), _short(rest.get("mimeType"))
            if _looks_like_a_picture(data):
                return _picture(data, uri, kind, taken)
            return f"[resource left out: {uri}, {kind}, {_size(data)} bytes; {_TAKEN}]"
        case {"type": "resource_link", "uri": str(uri), **rest}:
            return f"[link to a resource, not its content: {_short(uri)} {_short(rest.get('name'))}]"
        case {"type": kind}:
            return f"[content of the type {_short(kind)} left out]"
        case _:
            return "[content of no known form left out]"


_TAKEN = "only text and pictures are taken"


def _picture(data: str, uri: str, kind: str, taken: int) -> Picture | str:
    """Return a picture, or in words why there is none: before it is decoded, where that can be known."""
    why = f"a result may have {RESULT_PICTURES}" if taken >= RESULT_PICTURES else ""
    if (size := _size(data)) > PICTURE + 2:  # its padding is not known yet
        why = why or oversized(size)
    if not why:
        try:
            return Picture(data=_decode(data), uri=uri)
        except ValueError:
            why = "what the server sent is no base64"
    return f"[a picture ({kind}{f', {uri}' if uri else ''}) was left out: {why}]"


def _looks_like_a_picture(data: str) -> bool:
    try:
        return bool(kind_of(_decode(data[: HEAD // 3 * 4])))
    except ValueError:
        return False


def _decode(data: str) -> bytes:
    """Return what base64 holds, as leniently as its senders write it.

    Raises:
        ValueError: it is none.
    """
    if data.startswith("data:"):
        data = data.partition(",")[2]
    try:
        return base64.b64decode(data + "=" * (-len(data) % 4), altchars=b"-_" if "-" in data or "_" in data else None)
    except binascii.Error as exc:
        raise ValueError(str(exc)) from exc


def _size(data: str) -> int:
    return len(data) * 3 // 4


def _short(value: object) -> str:
    return mended_text(value[:200]) if isinstance(value, str) else "unknown"


def _cut(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    missing = len(text) - 2 * half
    return f"{text[:half]}\n[… {missing} characters left out; ask for less at a time …]\n{text[-half:]}"
