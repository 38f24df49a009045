"""The mark: what the holder of a session last tried to sync, and what it saw succeed.

It lies in the lock file, at the start, in a fixed number of bytes, and is never synced: it tells the next process on
this machine what the page cache cannot, and after a power cut it may be gone or old. So it may only ever add doubt
(`attempted`) or certainty about bytes of the very file that it names (`synced`). See D28 of ARCHITECTURE.md.
"""

from dataclasses import dataclass
from zlib import crc32

import orjson

_FORM = b'{"inode":%20d,"gen":"%b","attempted":%20d,"synced":%20d'
SIZE = 160


@dataclass(frozen=True, slots=True)
class Mark:
    """Lengths of one log file, known by its inode and `gen`."""

    inode: int
    gen: str
    attempted: int
    synced: int

    def encode(self) -> bytes:
        """Return the mark in its fixed number of bytes."""
        body = _FORM % (self.inode, self.gen.encode(), self.attempted, self.synced)
        return (b'%b,"crc":"%08x"}' % (body, crc32(body))).ljust(SIZE - 1) + b"\n"

    def names(self, inode: int, gen: str) -> bool:
        """Whether the mark speaks of this file; a mark of another one is no mark."""
        return self.inode == inode and self.gen == gen


def decode(data: bytes) -> Mark | None:
    """Return the mark that `data` holds, or None if it holds none or a torn one."""
    try:
        members = orjson.loads(data[:SIZE])
        mark = Mark(members["inode"], members["gen"], members["attempted"], members["synced"])
        return mark if mark.encode() == data[:SIZE] else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
