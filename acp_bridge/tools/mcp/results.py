"""What a server answers to a call, as a tool's output. Pure.

Owns what becomes of content that is no text: it is named, so that the model knows what it did not get.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from acp_bridge.content import JsonObject, Text
from acp_bridge.redaction import Secrets
from acp_bridge.text import mended, mended_text
from acp_bridge.tools.tool import ToolOutput

MAX_TEXT = 80_000
"""Characters of a result; less than the pipeline's bound, so that it is these words that tell of the rest."""


def output_of(result: JsonObject, secrets: Secrets = Secrets()) -> ToolOutput:  # noqa: B008 - a frozen value
    """Return what the model is given of a result, without secrets."""
    content = secrets.without(result.get("content"))
    texts = list(_texts(content if isinstance(content, list) else []))  # pyright: ignore[reportUnknownArgumentType]
    structured = secrets.without(result.get("structuredContent"))
    if not texts and structured is not None:
        texts.append(orjson.dumps(mended(structured), option=orjson.OPT_INDENT_2).decode())
    text = _cut(secrets.hidden("\n".join(texts))) or "[no output]"
    if result.get("isError") is True:
        return ToolOutput(content=(Text(text=text),), is_error=True, code="FAILED")
    return ToolOutput(content=(Text(text=text),))


def _texts(content: list[Any]) -> Iterator[str]:
    for block in content:
        match block:
            case {"type": "text", "text": str(text)}:
                yield mended_text(text)
            case {"type": "image" | "audio" as kind, "data": str(data), **rest}:
                what = f"{_short(rest.get('mimeType'))}, {len(data) * 3 // 4} bytes"
                yield f"[{kind} left out: {what}; only text is taken]"
            case {"type": "resource", "resource": {"text": str(text), **rest}}:
                yield f"[resource {_short(rest.get('uri'))}]\n{mended_text(text)}"
            case {"type": "resource", "resource": {"blob": str(data), **rest}}:
                what = f"{_short(rest.get('uri'))}, {_short(rest.get('mimeType'))}, {len(data) * 3 // 4} bytes"
                yield f"[resource left out: {what}; only text is taken]"
            case {"type": "resource_link", "uri": str(uri), **rest}:
                yield f"[link to a resource, not its content: {_short(uri)} {_short(rest.get('name'))}]"
            case {"type": kind}:
                yield f"[content of the type {_short(kind)} left out]"
            case _:
                yield "[content of no known form left out]"


def _short(value: object) -> str:
    return mended_text(value[:200]) if isinstance(value, str) else "unknown"


def _cut(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    missing = len(text) - 2 * half
    return f"{text[:half]}\n[… {missing} characters left out; ask for less at a time …]\n{text[-half:]}"
