"""How a change of a file is shown, and what else has to be known by whoever is asked about it. Touches no file."""

from pathlib import Path

import anyio.to_thread

from acp_bridge.content import Diff, ShownBlock, Text
from acp_bridge.limits import DRAWN

from .hunks import hunks
from .tool import Call

WHOLE = 8 * 1024
"""Characters of both texts up to which they are shown whole: a small file is read best in one piece."""


async def show_change(path: Path, old: str | None, new: str) -> tuple[ShownBlock, ...]:
    """Return the change as a reader is shown it and the log keeps it: the places that differ, or a small or new file.

    What is too large to be shown is not kept either; its place is said.
    """
    return await anyio.to_thread.run_sync(_diffs, str(path), old, new)  # two texts of 10 MB take a while


def _diffs(path: str, old: str | None, new: str) -> tuple[ShownBlock, ...]:
    if old is None or len(old) + len(new) <= WHOLE:
        places: tuple[Diff, ...] = (Diff(path=path, old_text=old, new_text=new),)
    else:
        places = tuple(
            Diff(path=path, old_text=hunk.old, new_text=hunk.new, line=hunk.new_line, old_line=hunk.old_line)
            for hunk in hunks(old, new)
        )
    size = sum(len(place.old_text or "") + len(place.new_text) for place in places)
    if size <= DRAWN:
        return places
    where = "new" if old is None else f"changed from line {places[0].line} on"
    return (Text(text=f"{path}: {where}; with {size:,} characters the change is too large to be shown"),)


def warn_of_unsaved(call: Call, path: Path) -> tuple[ShownBlock, ...]:
    """Return, for who is asked, that the text on the left of the change is not what lies on the disk."""
    if not call.files.is_unsaved(path):
        return ()
    return (Text(text=f"{path} is not saved in the editor; the file on the disk has other text, which this replaces."),)
