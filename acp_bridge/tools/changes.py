"""What a change of a file must respect, and how it is drawn.

Owns the words about files that changed behind the model's back. Reads and writes nothing.
"""

from pathlib import Path

from acp_bridge.content import Diff, ShownBlock, Text
from acp_bridge.errors import ToolError

from .files import digest
from .tool import Call

MAX_DRAWN = 1024 * 1024
"""Characters of both texts up to which a diff is drawn: it lies in the log and goes over the wire as a whole."""


def refuse_if_changed(call: Call, path: Path, text: str) -> None:
    """Raise unless `text` is what the file held when this session last read or wrote it, if it ever did.

    Raises:
        ToolError: it is not.
    """
    seen = call.seen.get(str(path))
    if seen is not None and seen != digest(text):
        raise ToolError(f"{str(path)!r} was changed since this session last read or wrote it; read it again first")


def drawn(path: Path, old: str | None, new: str) -> tuple[ShownBlock, ...]:
    """Return the change as a reader is shown it."""
    if len(old or "") + len(new) > MAX_DRAWN:
        return (Text(text=f"{path}: changed; the file is too large to draw"),)
    return (Diff(path=str(path), old_text=old, new_text=new),)
