"""Text files through the client, with its unsaved buffers, where it offers them.

Owns the two requests and what their failures mean for a tool. Which paths may be touched is decided before, by the same
rules as for the disk: a client is not trusted to check.
"""

from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from acp_bridge.acp import RESOURCE_NOT_FOUND, ClientCapabilities, Method
from acp_bridge.acp.inbound import FileText, parsed
from acp_bridge.errors import ToolError
from acp_bridge.rpc import Peer, RpcError
from acp_bridge.tools import ABSENT, Files, FileState, PictureFile, digest

from .asking import asked, reason


@dataclass(frozen=True, slots=True)
class ClientFiles:
    """Reads and writes through the client what it offers, and the rest on the disk."""

    peer: Peer
    client: ClientCapabilities
    session_id: str
    disk: Files

    async def find_picture(self, path: Path) -> PictureFile | None:
        """Return the picture on the disk: a client gives text alone.

        Raises:
            ToolError: it is too large to be taken.
        """
        return await self.disk.find_picture(path)

    async def look(self, path: Path) -> FileState:
        """Return the text as the editor has it, beside what lies on the disk.

        Raises:
            ToolError: the client could not read it.
        """
        if not self.client.read_text_file:
            return await self.disk.look(path)
        lying = await self._on_disk(path)
        text = await self._text(path, lying)
        if text is None or (not text and not lying.disk):  # some editors make an empty buffer of what does not exist
            return ABSENT
        return await anyio.to_thread.run_sync(_compared, text, lying)

    async def write_text(self, path: Path, text: str, before: FileState) -> FileState:
        """Replace or create the file in the editor.

        Raises:
            ToolError: the client could not write it.
        """
        if not self.client.write_text_file:
            return await self.disk.write_text(path, text, before)
        params = {"sessionId": self.session_id, "path": str(path), "content": text}
        try:
            await asked(self.peer, Method.FS_WRITE_TEXT_FILE, params)
        except RpcError as exc:
            raise ToolError(f"The editor could not write {str(path)!r}: {reason(exc)}.") from exc
        lying = await self._on_disk(path)  # some editors save at once, some when the user does
        return await anyio.to_thread.run_sync(_compared, text, lying)

    async def _text(self, path: Path, lying: FileState) -> str | None:
        params = {"sessionId": self.session_id, "path": str(path)}
        try:
            return parsed(FileText, await asked(self.peer, Method.FS_READ_TEXT_FILE, params)).content
        except RpcError as exc:
            if not lying.disk:  # whatever the code: not all clients say that a file does not exist as the protocol does
                return None
            if exc.code == RESOURCE_NOT_FOUND:
                raise ToolError(f"The editor has no file {str(path)!r}, although there is one on the disk.") from exc
            raise ToolError(f"The editor could not read {str(path)!r}: {reason(exc)}.") from exc
        except ValueError as exc:
            raise ToolError(f"The editor's answer for {str(path)!r} was malformed.") from exc

    async def _on_disk(self, path: Path) -> FileState:
        try:
            return await self.disk.look(path)
        except ToolError:  # no text, or too large: the editor may have text all the same, and nothing is lost unseen
            return _UNREADABLE


_UNREADABLE = FileState(None, "", "unreadable")


def _compared(text: str, lying: FileState) -> FileState:
    saved = lying.text is not None and _plain(lying.text) == _plain(text)
    return FileState(text, digest(text), lying.disk, saved=saved, disk_time_ms=lying.disk_time_ms)


def _plain(text: str) -> str:
    """Return the text as editors hold it: line ends and a byte order mark are theirs to put back."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")
