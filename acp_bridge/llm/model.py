"""The Model port: a request in, deltas out, and never an exception for what a provider does wrong.

Owns the words of a streamed answer. Knows no provider, no log and no retry: the loop retries and logs.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from acp_bridge.content import Failure, FailureKind, Usage
from acp_bridge.session import ModelRequest

from .opaque import Kept

StopCause: TypeAlias = Literal["end", "tools", "length", "refusal"]

RETRYABLE: frozenset[FailureKind] = frozenset(
    ("connection", "empty", "overloaded", "rate_limit", "timeout", "broken_stream", "unavailable")
)
"""Kinds of failure after which the same request may succeed."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThoughtDelta:
    """More of the model's reasoning.

    Attributes:
        signature: comes with its last piece, where a provider signs thoughts.
        form: under which name the provider gave it and takes it back; empty if it does not.
    """

    text: str
    signature: str = ""
    form: str = ""


@dataclass(frozen=True, slots=True)
class ToolDelta:
    """More of a tool request.

    Attributes:
        index: which request of this answer, in the model's order; a provider's own id is not passed on.
        name: the tool's name, on the first piece.
        arguments: more of the argument text.
    """

    index: int
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """The last delta of an answer that arrived whole.

    Attributes:
        usage: None where the provider does not count.
        kept: what came beside ours and has to go back with it; None if nothing did.
    """

    cause: StopCause
    usage: Usage | None = None
    kept: Kept | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The last delta of an attempt that failed.

    Attributes:
        retryable: whether the same request may succeed later.
        retry_after_s: what the provider asked for, in seconds.
    """

    failure: Failure
    retryable: bool
    retry_after_s: float | None = None


Delta: TypeAlias = TextDelta | ThoughtDelta | ToolDelta | Finished | Failed


class Model(Protocol):
    """One model behind one route."""

    @property
    def context_window(self) -> int | None:
        """Tokens that fit, if known."""
        ...

    @property
    def takes_images(self) -> bool:
        """Whether images in a request reach the model."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Send the request and yield the answer as it arrives; the last delta is `Finished` or `Failed`.

        Closing the generator or cancelling its reader ends the request and frees the connection.
        Raises nothing for what the provider or the network does.
        """
        ...

    async def aclose(self) -> None:
        """Free connections and child processes. Closing twice does nothing."""
        ...
