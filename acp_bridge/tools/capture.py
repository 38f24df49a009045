"""What a command wrote, bounded: its head and its tail in memory, the whole in a file.

Owns the bounds and the file. Knows no process.
"""

import codecs
import os
from collections import deque
from pathlib import Path

import anyio
import anyio.to_thread

from acp_bridge.limits import OUTPUT_HEAD, OUTPUT_TAIL, SPILL


class Capture:
    """Output as it comes in. Once more came than is kept, all of it so far and from then on goes to `file` too."""

    def __init__(self, file: Path | None) -> None:
        self.total = 0
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._file = file
        self._fd = -1
        self._spilled = 0

    @property
    def cut(self) -> int:
        """Bytes that `text` leaves out."""
        return self.total - len(self._head) - self._tail_size

    @property
    def spilled(self) -> Path | None:
        """The file with the whole, or with its first part if that was more than `SPILL`."""
        return self._file if self._spilled else None

    async def add(self, chunk: bytes) -> None:
        """Take in what came. The file is best effort: a full disk costs the file, not the command."""
        self.total += len(chunk)
        room = OUTPUT_HEAD - len(self._head)
        self._head += chunk[:room]
        if rest := chunk[room:] if room > 0 else chunk:
            self._tail.append(rest)
            self._tail_size += len(rest)
        unsaved = chunk
        if self._fd < 0 and self._tail_size > OUTPUT_TAIL:
            unsaved = bytes(self._head) + b"".join(self._tail)  # nothing was trimmed before
        spills = self._file is not None and self._tail_size > OUTPUT_TAIL
        self._trim()
        if spills:
            with anyio.CancelScope(shield=True):  # a chunk must not be missing in the middle of the file
                await anyio.to_thread.run_sync(self._spill, unsaved)

    def text(self) -> str:
        """Return head and tail; between them, if something is left out, a line that says how much."""
        tail = b"".join(self._tail)
        if not self.cut:
            return (bytes(self._head) + tail).decode("utf-8", "replace")
        head = codecs.getincrementaldecoder("utf-8")("replace").decode(
            bytes(self._head)
        )  # half a character is left out
        return f"{head}\n[… {self.cut} bytes left out …]\n{_from_a_character(tail).decode('utf-8', 'replace')}"

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _trim(self) -> None:
        while (excess := self._tail_size - OUTPUT_TAIL) > 0:
            first = self._tail.popleft()
            self._tail_size -= min(excess, len(first))
            if len(first) > excess:
                self._tail.appendleft(first[excess:])

    def _spill(self, chunk: bytes) -> None:
        if self._file is None:
            return
        try:
            if self._fd < 0:
                self._fd = _created(self._file)
            chunk = chunk[: SPILL - self._spilled]
            while chunk:
                written = os.write(self._fd, chunk)
                self._spilled += written
                chunk = chunk[written:]
        except OSError:
            self.close()
            self._file = None


def _created(file: Path) -> int:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _from_a_character(data: bytes) -> bytes:
    """Return `data` without the rest of a character that the cut split."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
