"""Words that model, log and wire share: content blocks, tool requests, usage, and what text may hold.

Owns the frozen values and their JSON form. Knows neither a provider's nor the protocol's shapes.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

JsonObject: TypeAlias = dict[str, Any]

MAX_SAFE_INTEGER = 2**53
"""Integers beyond ±2^53 lose digits in readers that keep numbers as doubles (RFC 8259 §6)."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What moves a cursor, rings, or turns text around; tab and line feed are left."""

Effect: TypeAlias = Literal["read", "idempotent", "write"]
ToolKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Text for the model and the reader."""

    type: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """A model's reasoning. `signature` is what its provider needs to take the thought back, else empty."""

    type: ClassVar[str] = "thought"
    text: str
    signature: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A picture whose bytes lie in a content file of the session.

    Attributes:
        file: the content file's name, its SHA-256 in hex.
        size: bytes of the picture.
    """

    type: ClassVar[str] = "image"
    mime_type: str
    file: str
    size: int
    uri: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLink:
    """A thing that the user pointed at without giving its content."""

    type: ClassVar[str] = "resource_link"
    uri: str
    name: str
    title: str = ""
    mime_type: str = ""
    description: str = ""
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A text that the user attached whole, e.g. an editor's selection."""

    type: ClassVar[str] = "resource"
    uri: str
    text: str
    mime_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A place in a file that a tool works on: an absolute path and, if known, a 1-based line."""

    path: str
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """A model's wish to have a tool run, with how a client is to draw it.

    Attributes:
        call_id: ours, unique in the session; a provider's own id is not kept.
        arguments: the argument text as the model sent it, valid JSON or not.
        title, kind, locations: drawn once, when the request was logged.
    """

    type: ClassVar[str] = "tool_request"
    call_id: str
    name: str
    arguments: str
    title: str
    kind: ToolKind = "other"
    locations: tuple[Location, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """A file's whole text before and after; `old_text` is None for a new file. `path` is absolute."""

    type: ClassVar[str] = "diff"
    path: str
    old_text: str | None = None
    new_text: str


PromptBlock: TypeAlias = Text | Image | ResourceLink | Resource
AnswerBlock: TypeAlias = Text | Thought | ToolRequest
ResultBlock: TypeAlias = Text | Image
ShownBlock: TypeAlias = Text | Diff


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one request, in disjoint counts: their sum is what was processed.

    Attributes:
        input_tokens: read anew, neither from nor into a cache.
        output_tokens: written, thoughts left out.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_read_tokens: int = 0
    cached_write_tokens: int = 0
    thought_tokens: int = 0

    @property
    def context_tokens(self) -> int:
        """What the request and its answer take up in the model's window."""
        return (
            self.input_tokens
            + self.output_tokens
            + self.cached_read_tokens
            + self.cached_write_tokens
            + self.thought_tokens
        )


FailureKind: TypeAlias = Literal[
    "auth",
    "bad_request",
    "connection",
    "context_overflow",
    "empty",
    "overloaded",
    "rate_limit",
    "timeout",
    "broken_stream",
    "unavailable",
    "not_saved",
    "internal",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a request or a turn failed: a kind to decide by, a sentence to show, the HTTP status if there was one."""

    kind: FailureKind
    message: str
    status: int | None = None


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
