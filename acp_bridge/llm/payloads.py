"""The JSON of a provider's events, in and out, the same for all of them.

Owns what is read of a payload and what counts as none. Pure. Knows no provider's shapes.
"""

import math
import re
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from acp_bridge.content import JsonObject
from acp_bridge.limits import EVENT_DEPTH, VALUES
from acp_bridge.text import MAX_SAFE_INTEGER, is_deeper, mended, read_json

DONE = b"[DONE]"
"""The payload that ends a stream with most providers."""

_MARKS = re.compile(r'["\\{}\[\]]')


def objects_in(payload: bytes) -> list[JsonObject]:
    """Return the JSON objects that a payload holds: one, or several in a list. Another JSON value is no event.

    Raises:
        ValueError: it is no JSON, or more than a reader can hold. What it would have said is missing.
    """
    if len(payload) > VALUES and sum(map(payload.count, (b"{", b"[", b","))) > VALUES:
        raise ValueError(f"it has more than {VALUES:,} values")
    value: Any = read_json(payload)
    if payload.count(b"[") + payload.count(b"{") > EVENT_DEPTH and is_deeper(value, EVENT_DEPTH):
        raise ValueError(f"it is nested more than {EVENT_DEPTH} levels deep")  # else every walk through it would fail
    values = cast("list[Any]", value) if isinstance(value, list) else [value]  # Google wraps its errors in a list
    return [cast("JsonObject", item) for item in values if isinstance(item, dict)]


def json_text(value: Any) -> str:
    """Return a value that came in an event as JSON text."""
    return orjson.dumps(mended(value, depth=EVENT_DEPTH)).decode()


def count_of(value: Any) -> int | None:
    """Return a count that came in an event, as the log can hold it; None where it is none."""
    if isinstance(value, float) and math.isfinite(value):
        value = int(value)  # some write their integers as 12.0
    return min(value, MAX_SAFE_INTEGER) if type(value) is int and value >= 0 else None


@dataclass(slots=True)
class Nesting:
    """Follows the brackets of a JSON text that comes in pieces, so that nobody has to read it again for each piece."""

    _pieces: list[str] = field(default_factory=list[str])  # not looked at yet: most are never asked about
    _depth: int = 0
    _begun: bool = False
    _in_string: bool = False
    _escaped: bool = False

    def feed(self, piece: str) -> None:
        """Take more of the text."""
        self._pieces.append(piece)

    @property
    def closed(self) -> bool:
        """Whether the text so far is a whole object or list."""
        pieces, self._pieces = self._pieces, []
        for piece in pieces:
            self._follow(piece)
        return self._begun and self._depth <= 0 and not self._in_string

    def _follow(self, piece: str) -> None:
        place = 0
        for found in _MARKS.finditer(piece):
            escaped = self._escaped and found.start() == place
            self._escaped, place = False, found.end()
            self._mark(found.group(), escaped=escaped)
        if place < len(piece):
            self._escaped = False

    def _mark(self, mark: str, *, escaped: bool) -> None:
        if self._in_string:
            if escaped:
                return
            self._escaped = mark == "\\"
            self._in_string = mark != '"'
        elif mark == '"':
            self._in_string = True
        elif mark in "{[":
            self._begun = True
            self._depth += 1
        elif mark in "}]":
            self._depth -= 1
