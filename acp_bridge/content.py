"""Words that model, log and wire share: content blocks, tool requests, usage, and why something failed.

Owns the frozen values and their JSON form. Knows neither a provider's nor the protocol's shapes.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Final, Literal, TypeAlias

from acp_bridge.text import mended_text

JsonObject: TypeAlias = dict[str, Any]

CALL_KEY_VARIABLE: Final = "ACP_CALL_KEY"
"""The variable in which a command finds the key of the call that runs it."""


Effect: TypeAlias = Literal["read", "idempotent", "write"]
Mode: TypeAlias = Literal["ask", "edit", "plan", "full"]
ThoughtLevel: TypeAlias = Literal["off", "low", "medium", "high"]
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
    """A model's reasoning.

    Attributes:
        signature: what its provider needs to take the thought back, else empty.
        form: under which of its own names the provider gave it and takes it back; empty for one that is shown alone.
    """

    type: ClassVar[str] = "thought"
    text: str
    signature: str = ""
    form: str = ""


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
    """A model's wish to have a tool run, with how a client is to show it.

    Attributes:
        call_id: ours, unique in the session; a provider's own id is not kept.
        arguments: the argument text as the model sent it, valid JSON or not.
        title, kind, locations: drawn once, when the request was logged.
        extra: what else came with it and means nothing to us; it goes back to the route that made it and to no other.
    """

    type: ClassVar[str] = "tool_request"
    call_id: str
    name: str
    arguments: str
    title: str
    kind: ToolKind = "other"
    locations: tuple[Location, ...] = ()
    extra: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What a file held before and after: its whole text, or one place of it with a few lines around.

    Attributes:
        path: absolute.
        old_text: None for a new file.
        line, old_line: where a place begins, after and before, from 1; None of a whole text.
    """

    type: ClassVar[str] = "diff"
    path: str
    old_text: str | None = None
    new_text: str
    line: int | None = None
    old_line: int | None = None


PromptBlock: TypeAlias = Text | Image | ResourceLink | Resource
AnswerBlock: TypeAlias = Text | Thought | ToolRequest
ResultBlock: TypeAlias = Text | Image
ShownBlock: TypeAlias = Text | Diff


def mend_block(block: PromptBlock) -> PromptBlock:
    """Return a prompt's block as the log can carry it: half a character in any of its texts is U+FFFD."""
    texts = {member.name: getattr(block, member.name) for member in fields(block)}
    return replace(block, **{name: mended_text(text) for name, text in texts.items() if isinstance(text, str)})


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
