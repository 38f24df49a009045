"""What text may hold on its way to a log, a terminal or a person: mended, escaped, and without secrets.

Pure. Knows no value but text and opaque JSON. Apart from `content` because start-up needs it, and not those.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_SAFE_INTEGER = 2**53
"""Integers beyond ±2^53 lose digits in readers that keep numbers as doubles (RFC 8259 §6)."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What moves a cursor, rings, or turns text around; tab and line feed are left."""


def mended_text(text: str) -> str:
    """Return `text` with every lone surrogate replaced by U+FFFD, since no UTF-8 can carry one (RFC 3629 §3)."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def escaped_text(text: str) -> str:
    """Return `text` as a terminal can show it: controls and bidi overrides as escapes, but for tab and line feed."""
    return _CONTROL.sub(lambda found: ascii(found.group())[1:-1], text)


@dataclass(frozen=True, slots=True)
class Secrets:
    """What nothing may show, known by value, since a value can turn up anywhere.

    Attributes:
        values: by the name that stands in the value's place.
    """

    values: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def hidden(self, text: str) -> str:
        """Return `text` without them. To be called before anything is cut off: half a key is recognised by nobody."""
        for name, value in self.values.items():
            if value in text:
                text = text.replace(value, f"[{name}]")
        return text


def mended(value: Any, *, depth: int = 64) -> Any:
    """Return opaque JSON as the log can store it: no NaN or infinity, no integer beyond ±2^53, no lone surrogate.

    What cannot be kept as it is becomes a string or, below `depth` levels, its `repr` cut short.
    """
    match value:
        case None | bool():
            return value
        case str():
            return mended_text(value)
        case int():
            return value if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case dict() | list() | tuple() if depth == 0:
            return mended_text(repr(value)[:200])  # pyright: ignore[reportUnknownArgumentType]
        case dict():
            return {mended_text(str(k)): mended(v, depth=depth - 1) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case list() | tuple():
            return [mended(item, depth=depth - 1) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return mended_text(str(value))
