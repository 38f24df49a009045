"""A log that is held open: its descriptor, where it ends, how much of it is known durable, and whether it is poisoned.

Owns the one routine that appends. The first failure of a write or a sync poisons the file for good: a second sync would
return success, reading back would show the data, and after a power cut it would be gone (D21, D22).
"""

from collections.abc import Sequence

from acp_bridge.errors import StorePoisoned, StoreReplaced

from .disk import Disk, write_whole
from .header import FirstLine
from .lock import Lock
from .mark import Mark
from .record import Seal, sealed


class OpenLog:
    """One file under the session's lock; a rewrite replaces it by another `OpenLog`.

    Attributes:
        durable: the length known durable; the next records' `d`.
        poison: the first failure, if there was one.
    """

    def __init__(self, disk: Disk, lock: Lock, path: str, fd: int, first: FirstLine, *, end: int, durable: int) -> None:
        status = disk.fstat(fd)
        self.path = path
        self.fd = fd
        self.first = first
        self.durable: int = durable
        self.poison: OSError | None = None
        self.inode = status.st_ino
        self._device = status.st_dev
        self._lost: StoreReplaced | None = None
        self._disk = disk
        self._lock = lock
        self._seal = Seal(first.header.session_id, first.gen)
        self._end: int = end
        self._explained: int = status.st_size  # where a poisoned file ends: beyond `_end`, if a write failed half-way

    @classmethod
    def unsettled(cls, disk: Disk, lock: Lock, path: str, fd: int, first: FirstLine, *, end: int) -> "OpenLog":
        """Return a log whose file is on the medium and whose name may not be; `end` is where its events begin."""
        log = cls(disk, lock, path, fd, first, end=end, durable=end)
        log.poison = OSError("a rewrite was not finished")
        return log

    def settle(self) -> int:
        """Make the name of a rewritten file durable, heal it, and return its length.

        Raises:
            StorePoisoned: it may be lost; the log stays poisoned.
        """
        try:
            self._disk.sync_folder(self.path.rpartition("/")[0])  # else the old file could come back
            self._end = self.durable = self._explained
            self._write_mark(attempted=self._end)
        except OSError as exc:
            raise self.poisoned_by(exc) from exc
        self.poison = None
        return self._end

    def append(self, bodies: Sequence[bytes]) -> int:
        """Write the records made of `bodies` in one go, sync once, and return how many bytes they took.

        Raises:
            StorePoisoned: a write or sync failed, now or before.
            StoreReplaced: the file is not as this process left it.
        """
        self.refuse_if_poisoned()
        self.check_untouched()
        data = b"".join(sealed(self._seal, bodies, self._end, self.durable))
        end = self._end + len(data)
        try:
            self._write_mark(attempted=end)
            write_whole(self._disk, self.fd, data)
            self._disk.sync(self.fd)
        except OSError as exc:
            self._explained = min(self._disk.fstat(self.fd).st_size, end)
            raise self.poisoned_by(exc) from exc
        self._check_length(end)  # somebody may have appended between the check and the write
        self._end = self.durable = self._explained = end
        self.confirm_mark()
        return len(data)

    def explain(self, length: int) -> None:
        """Take it that the file is `length` bytes long, beyond what is kept of it, until it is rewritten."""
        self._explained = length
        self.poison = OSError("the log is damaged")

    def refuse_if_poisoned(self) -> None:
        """Raise StorePoisoned if a write or sync has failed."""
        if self.poison is not None:
            raise self._refusal(self.poison)

    def poisoned_by(self, cause: OSError) -> StorePoisoned:
        """Poison the log, if it is not yet, and return the error to raise."""
        self.poison = self.poison or cause
        return self._refusal(cause)

    def check_untouched(self) -> None:
        """Raise StoreReplaced unless the file is at its path and ends where this process left it.

        On a poisoned log, where a failed write may have left it.
        """
        self.check_in_place()
        self._check_length(self._explained if self.poison else self._end)

    def check_in_place(self) -> None:
        """Raise StoreReplaced unless the file is at its path; once it was not, it never is again."""
        if self._lost is not None:
            raise self._lost
        try:
            there = self._disk.lstat(self.path)
        except OSError as exc:
            self._lost = self._replaced(f"it cannot be found: {exc}")
            raise self._lost from exc
        if (there.st_ino, there.st_dev) != (self.inode, self._device):
            self._lost = self._replaced("another file is in its place")
            raise self._lost

    def confirm_mark(self) -> None:
        """Say that all of the file is synced. Failing to say so only makes the next opener careful."""
        try:
            self._write_mark(attempted=self._end)
        except OSError:
            return

    def _write_mark(self, *, attempted: int) -> None:
        self._lock.write_mark(Mark(self.inode, self.first.gen, attempted, self.durable))

    def _check_length(self, expected: int) -> None:
        length = self._disk.fstat(self.fd).st_size
        if length != expected:
            raise self._replaced(f"it is {length} bytes long, where this process left {expected}")

    def _replaced(self, reason: str) -> StoreReplaced:
        return StoreReplaced(
            f"the log {self.path} was changed by somebody else: {reason}; load the session again",
            session_id=self.first.header.session_id,
            path=self.path,
        )

    def _refusal(self, cause: OSError) -> StorePoisoned:
        return StorePoisoned(
            f"the log {self.path} cannot be written: {cause}",
            session_id=self.first.header.session_id,
            path=self.path,
        )
