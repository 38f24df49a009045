"""Text files through the client, with its unsaved buffers, where it offers them.

Owns the two requests and what their failures mean for a tool. Which paths may be touched is decided before, by the same
rules as for the disk: a client is not trusted to check.
"""

from dataclasses import dataclass
from pathlib import Path

from acp_bridge.acp import RESOURCE_NOT_FOUND, ClientCapabilities, Method
from acp_bridge.acp.inbound import FileText, parsed
from acp_bridge.errors import ToolError
from acp_bridge.rpc import Peer, RpcError
from acp_bridge.tools import Files

from .asking import asked, reason


@dataclass(frozen=True, slots=True)
class ClientFiles:
    """Reads and writes through the client what it offers, and the rest on the disk."""

    peer: Peer
    client: ClientCapabilities
    session_id: str
    disk: Files

    async def read_text(self, path: Path) -> str:
        """Return the text as the editor has it.

        Raises:
            ToolError: there is no such file, or the client could not read it.
        """
        if not self.client.read_text_file:
            return await self.disk.read_text(path)
        params = {"sessionId": self.session_id, "path": str(path)}
        try:
            return parsed(FileText, await asked(self.peer, Method.FS_READ_TEXT_FILE, params)).content
        except RpcError as exc:
            if exc.code == RESOURCE_NOT_FOUND:
                raise ToolError(f"There is no file {str(path)!r}.") from exc
            raise ToolError(f"The editor could not read {str(path)!r}: {reason(exc)}.") from exc
        except ValueError as exc:
            raise ToolError(f"The editor's answer for {str(path)!r} was malformed.") from exc

    async def write_text(self, path: Path, text: str) -> None:
        """Replace or create the file in the editor.

        Raises:
            ToolError: the client could not write it.
        """
        if not self.client.write_text_file:
            await self.disk.write_text(path, text)
            return
        params = {"sessionId": self.session_id, "path": str(path), "content": text}
        try:
            await asked(self.peer, Method.FS_WRITE_TEXT_FILE, params)
        except RpcError as exc:
            raise ToolError(f"The editor could not write {str(path)!r}: {reason(exc)}.") from exc
