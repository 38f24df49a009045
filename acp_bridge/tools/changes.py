"""How a change of a file is drawn, and what who is asked about it must know beside. Reads and writes nothing."""

from pathlib import Path

from acp_bridge.content import Diff, ShownBlock, Text

from .tool import Call

MAX_DRAWN = 1024 * 1024
"""Characters of both texts up to which a diff is drawn: it lies in the log and goes over the wire as a whole."""


def drawn(path: Path, old: str | None, new: str) -> tuple[ShownBlock, ...]:
    """Return the change as a reader is shown it."""
    if len(old or "") + len(new) > MAX_DRAWN:
        return (Text(text=f"{path}: changed; the file is too large to draw"),)
    return (Diff(path=str(path), old_text=old, new_text=new),)


def unsaved_said(call: Call, path: Path) -> tuple[ShownBlock, ...]:
    """Return, for who is asked, that the text on the left of the change is not what lies on the disk."""
    if not call.files.is_unsaved(path):
        return ()
    return (Text(text=f"{path} is not saved in the editor; the file on the disk has other text, which this replaces."),)
