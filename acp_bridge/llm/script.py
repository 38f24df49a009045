"""A script as data: the answers of a `scripted:` or `replay:` model.

Its format as a file is told in `scripted` and read by `script_parser`. Plays nothing.
"""

from dataclasses import dataclass
from typing import TypeAlias

from acp_bridge.content import Usage

from .model import Failed, StopCause, TextDelta, ThoughtDelta, ToolDelta
from .opaque import Kept


@dataclass(frozen=True, slots=True)
class Say:
    """A delta, said `repeat` times."""

    delta: TextDelta | ThoughtDelta | ToolDelta
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing, for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Nothing, until a file exists."""

    path: str


@dataclass(frozen=True, slots=True)
class Hang:
    """Nothing, until the reader gives up."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The end of an attempt that failed."""

    failed: Failed


Piece: TypeAlias = Say | Pause | WaitFor | Hang | Fail


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer. `at` names its place in the file, for messages."""

    pieces: tuple[Piece, ...]
    stop: StopCause | None = None
    usage: Usage | None = None
    kept: Kept | None = None
    expect: tuple[str, ...] = ()
    when: tuple[str, ...] = ()
    at: str = ""

    @property
    def failed(self) -> Failed | None:
        """The failure that ends it, if one does."""
        last = self.pieces[-1] if self.pieces else None
        return last.failed if isinstance(last, Fail) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """All answers of one file, `name`."""

    name: str
    answers: tuple[Answer, ...]
    context_window: int | None = None
    takes_images: bool = True
