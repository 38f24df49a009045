"""A session's lock file: one writer, who that is, and its mark (D28, D30).

The file lies beside the session's folder, so that a rewrite or a deletion cannot take it away, and is never deleted or
renamed: a lock on a file that lost its name locks nothing. Owns the lock and the file's bytes. Knows no log but by the
inode and `gen` that a mark names.

The mark says what the holder last tried to sync and what it saw succeed. It lies at the file's start, in a fixed number
of bytes, and is never synced: it tells the next process on this machine what the page cache cannot, and after a power
cut it may be gone or old. So it may only ever add doubt (`attempted`) or certainty about bytes of the very file that it
names (`synced`).
"""

import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from zlib import crc32

import orjson

from acp_bridge.errors import SessionInUse, StoreError

from .disk import LOCK, READ, Disk
from .filesystem import CANNOT_BE_WRITTEN, with_remedy

PATIENCE_S = 2.0
"""A killed holder with much memory lets go some 30 ms after its death, and a busy machine takes longer."""

MARK_SIZE = 160

_MARK = b'{"inode":%20d,"gen":"%b","attempted":%20d,"synced":%20d'  # fixed width, so that a newer one covers all of it
_POLL_S = 0.01
_HOLDER_SIZE = 256


@dataclass(frozen=True, slots=True)
class Mark:
    """Lengths of one log file, known by its inode and `gen`."""

    inode: int
    gen: str
    attempted: int
    synced: int

    def encode(self) -> bytes:
        """Return the mark in its fixed number of bytes."""
        body = _MARK % (self.inode, self.gen.encode(), self.attempted, self.synced)
        return (b'%b,"crc":"%08x"}' % (body, crc32(body))).ljust(MARK_SIZE - 1) + b"\n"

    def names(self, inode: int, gen: str) -> bool:
        """Whether the mark speaks of this file; a mark of another one is no mark."""
        return self.inode == inode and self.gen == gen


def decode_mark(data: bytes) -> Mark | None:
    """Return the mark that `data` holds, or None if it holds none or a torn one."""
    try:
        members = orjson.loads(data[:MARK_SIZE])
        mark = Mark(members["inode"], members["gen"], members["attempted"], members["synced"])
        return mark if mark.encode() == data[:MARK_SIZE] else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


class Lock:
    """The lock of one session, held until `release`.

    Attributes:
        refusal: why the file cannot be written, where it can only be read, or not even be made; then nobody writes the
            session under it until `make_writable` has succeeded.
    """

    def __init__(self, disk: Disk, path: str, fd: int | None, *, refusal: OSError | None = None) -> None:
        self.refusal = refusal
        self._disk = disk
        self._path = path
        self._fd = fd  # what is locked; None if there is no file, and none can be made
        self._marked = fd if refusal is None else None

    def read_mark(self) -> Mark | None:
        """Return the last holder's mark, if it is whole."""
        if self._fd is None:
            return None
        try:
            return decode_mark(self._disk.read(self._fd, MARK_SIZE, 0))
        except OSError:
            return None  # as after a power cut: the log's own members must do

    def write_mark(self, new: Mark) -> None:
        """Replace the mark, unsynced: it need only outlive this process.

        Raises:
            OSError: it may not be there.
        """
        if self._marked is None:
            raise self.refusal or OSError("the mark cannot be written")
        if self._disk.write_at(self._marked, new.encode(), 0) != MARK_SIZE:
            raise OSError("the mark was written in part")

    def withdraw_mark(self) -> None:
        """Take back all that the mark says was synced, so that the next save syncs the log and its names anew.

        Raises:
            OSError: it may still say so.
        """
        known = self.read_mark()
        if known is not None:
            self.write_mark(replace(known, synced=0))

    def make_writable(self) -> None:
        """Get ready to write the session after all; the file system may take writes again.

        Raises:
            OSError: it does not, or somebody else has the lock.
        """
        if self.refusal is None:
            return
        fd = self._disk.open(self._path, LOCK)
        try:
            self._own(fd)
        except BaseException:
            self._disk.close(fd)
            raise
        self._marked, self.refusal = fd, None

    def _own(self, fd: int) -> None:
        """Make sure that `fd` is the file that is locked here; a second lock on it would be refused, even to us."""
        if self._fd is None:
            held = self._disk.try_lock(fd)
        else:
            mine, other = self._disk.fstat(self._fd), self._disk.fstat(fd)
            held = (mine.st_ino, mine.st_dev) == (other.st_ino, other.st_dev)
        if not held:
            raise OSError("another process has the lock")
        _write_holder(self._disk, fd)

    def release(self) -> None:
        """Let the next one in."""
        for fd in {self._fd, self._marked}:
            if fd is not None:
                self._disk.close(fd)


def acquire(disk: Disk, path: str, session_id: str, *, patience_s: float = PATIENCE_S) -> Lock:
    """Take the lock, trying for `patience_s`.

    Raises:
        SessionInUse: somebody else keeps it.
        StoreError: the file cannot be opened or locked.
    """
    try:
        fd = disk.open(path, LOCK)
        try:
            _wait(disk, fd, session_id, patience_s)
            _write_holder(disk, fd)
        except BaseException:
            disk.close(fd)
            raise
    except OSError as exc:
        said = with_remedy(f"cannot lock the file {path!r}: {exc}", exc)
        raise StoreError(said, session_id=session_id, path=path) from exc
    return Lock(disk, path, fd)


def acquire_to_read(disk: Disk, path: str, session_id: str, *, patience_s: float = PATIENCE_S) -> Lock:
    """Take the lock, also where it can only be read, as on a file system that has become read-only.

    Raises:
        SessionInUse, StoreError: as `acquire`.
    """
    try:
        return acquire(disk, path, session_id, patience_s=patience_s)
    except StoreError as exc:
        refusal = exc.__cause__
        if not (isinstance(refusal, OSError) and refusal.errno in CANNOT_BE_WRITTEN):
            raise
    try:
        fd = disk.open(path, READ)
    except FileNotFoundError:
        return Lock(disk, path, None, refusal=refusal)
    except OSError as exc:
        raise StoreError(f"cannot lock the file {path!r}: {exc}", session_id=session_id, path=path) from exc
    try:
        _wait(disk, fd, session_id, patience_s)
    except BaseException:
        disk.close(fd)
        raise
    return Lock(disk, path, fd, refusal=refusal)


@contextmanager
def release_on_failure(lock: Lock) -> Generator[None]:
    """Let go of the lock if the context fails; if not, whoever got the lock does."""
    try:
        yield
    except BaseException:
        lock.release()
        raise


def peek_mark(disk: Disk, path: str) -> Mark | None:
    """Return the mark without touching the lock. Read it before the log: what it calls synced is there then."""
    try:
        fd = disk.open(path, READ)
    except OSError:
        return None
    try:
        return Lock(disk, path, fd).read_mark()
    finally:
        disk.close(fd)


def _wait(disk: Disk, fd: int, session_id: str, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while not disk.try_lock(fd):
        if time.monotonic() >= deadline:
            holder = _read_holder(disk, fd)
            raise SessionInUse(
                f"session {session_id!r} is in use by {holder}; close it there first",
                session_id=session_id,
                holder=holder,
            )
        time.sleep(_POLL_S)  # `flock` has no wait with an end


def _write_holder(disk: Disk, fd: int) -> None:
    """Say who holds the lock. Nothing but the message to others depends on it."""
    signature = {"pid": os.getpid(), "host": socket.gethostname()[:64], "since": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
    text = orjson.dumps(signature).ljust(_HOLDER_SIZE - 1) + b"\n"
    try:
        disk.write_at(fd, text, MARK_SIZE)
    except OSError:
        return


def _read_holder(disk: Disk, fd: int) -> str:
    try:
        signature = orjson.loads(disk.read(fd, _HOLDER_SIZE, MARK_SIZE))
        return f"process {int(signature['pid'])} on {signature['host']!s}, since {signature['since']!s}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
