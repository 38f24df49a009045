"""The Files port and its local form: text files, read and written without following a last link.

Owns how a checked path is opened, bounded and replaced. Knows no roots: who may touch what is decided before.
"""

from pathlib import Path
from typing import Protocol


class Files(Protocol):
    """Where text comes from and goes to: the disk, or an editor with its unsaved buffers."""

    async def read_text(self, path: Path) -> str:
        """Return the whole text of an absolute, checked path.

        Raises:
            ToolError: it does not exist, is no regular file, is too large, or is not UTF-8 text.
        """
        ...

    async def write_text(self, path: Path, text: str) -> None:
        """Replace or create the file, wholly or not at all; missing folders are made; its mode is kept.

        Raises:
            ToolError: it could not be written; the old content is as it was.
        """
        ...
