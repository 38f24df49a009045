"""What a command wrote, bounded: its head and its tail in memory as a terminal would show it, the whole in a file.

Owns the bounds, the file, and the order in which output is treated: secrets are taken out of what came, before any of
it is cut or kept; the file gets that as it is; what is read gets what a screen shows in the end, without the secrets
that escape sequences had split. Knows no process.
"""

import codecs
import os
from collections import deque
from pathlib import Path

import anyio
import anyio.to_thread

from acp_bridge.limits import OUTPUT_HEAD, OUTPUT_TAIL, SPILL
from acp_bridge.redaction import Secrets

from .screen import Screen


class Capture:
    """Output as it comes in. Once more came than is kept, all of it so far and from then on goes to `file` too."""

    def __init__(self, file: Path | None, secrets: Secrets = Secrets()) -> None:  # noqa: B008 - a frozen value
        self.total = 0
        self._secrets = secrets
        self._came = secrets.stream()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._screen = Screen()
        self._drawn = secrets.stream()
        self._ends = _Ends()
        self._unspilled: list[bytes] | None = []
        self._unspilled_size = 0
        self._file = file
        self._fd = -1
        self._spilled = 0

    @property
    def spilled(self) -> Path | None:
        """The file with the whole, or with its first part if that was more than `SPILL`."""
        return self._file if self._spilled else None

    @property
    def spilled_all(self) -> bool:
        """Whether the file holds the whole."""
        return self._spilled < SPILL

    async def add(self, chunk: bytes) -> None:
        """Take in what came. The file is best effort: a full disk costs the file, not the command."""
        self.total += len(chunk)
        await self._take(self._came.feed(chunk))

    async def finish(self) -> None:
        """Take in what was held back, since nothing more comes."""
        await self._take(self._came.close(), last=True)

    def text(self) -> tuple[str, int]:
        """Return head and tail, and the bytes between them that are left out, which a line in the text says too."""
        return self._ends.text(self._secrets.hidden_bytes(self._drawn.held + self._screen.rest().encode()))

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    async def _take(self, clean: bytes, *, last: bool = False) -> None:
        left = self._screen.feed(self._decoder.decode(clean, last))
        self._ends.add(self._drawn.feed(left.encode()))
        if self._unspilled is not None:
            self._unspilled.append(clean)
            self._unspilled_size += len(clean)
            if self._unspilled_size <= OUTPUT_HEAD + OUTPUT_TAIL:
                return
            clean, self._unspilled = b"".join(self._unspilled), None
        if self._file is not None and clean:
            with anyio.CancelScope(shield=True):  # a chunk must not be missing in the middle of the file
                await anyio.to_thread.run_sync(self._spill, clean)

    def _spill(self, chunk: bytes) -> None:
        if self._file is None:
            return
        try:
            if self._fd < 0:
                self._fd = _create(self._file)
            chunk = chunk[: SPILL - self._spilled]
            while chunk:
                written = os.write(self._fd, chunk)
                self._spilled += written
                chunk = chunk[written:]
        except OSError:
            self.close()
            self._file = None


class _Ends:
    """The first and the last bytes of a text that only grows."""

    def __init__(self) -> None:
        self._total = 0
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0

    def add(self, data: bytes) -> None:
        """Take in what comes next."""
        self._total += len(data)
        room = OUTPUT_HEAD - len(self._head)
        self._head += data[:room]
        if rest := data[room:] if room > 0 else data:
            self._tail.append(rest)
            self._tail_size += len(rest)
        while (excess := self._tail_size - OUTPUT_TAIL) > 0:
            first = self._tail.popleft()
            self._tail_size -= min(excess, len(first))
            if len(first) > excess:
                self._tail.appendleft(first[excess:])

    def text(self, rest: bytes) -> tuple[str, int]:
        """Return both ends as if `rest` came behind, and the number of bytes between them."""
        room = OUTPUT_HEAD - len(self._head)
        head = bytes(self._head) + rest[:room]
        tail = (b"".join(self._tail) + rest[room:])[-OUTPUT_TAIL:]
        cut = self._total + len(rest) - len(head) - len(tail)
        if not cut:
            return (head + tail).decode("utf-8", "replace"), 0
        begun = codecs.getincrementaldecoder("utf-8")("replace").decode(head)  # half a character is left out
        return f"{begun}\n[… {cut} bytes left out …]\n{_from_a_character(tail).decode('utf-8', 'replace')}", cut


def _create(file: Path) -> int:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _from_a_character(data: bytes) -> bytes:
    """Return `data` without the rest of a character that the cut split."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
