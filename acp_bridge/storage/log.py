"""A log file: how a new one is written whole, how records are appended, and how it is replaced by another.

Owns the one routine that appends and the one that rewrites, for a repair that has to cut, for a salvage and for a fork.
Knows no session's folder and no reader.

The first failure of a write or a sync poisons the file for good: a second sync would return success, reading back would
show the data, and after a power cut it would be gone (D21, D22). A replacement is whole on the disk before it has the
log's name, so no crash leaves anything between old and new (D23); every record in it is sealed anew, with its own
offset as `d`.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from acp_bridge.content import JsonObject
from acp_bridge.errors import StorePoisoned, StoreReplaced

from .disk import NEW, Disk, write_whole
from .format import FirstLine, Seal, first_line, seal_all
from .lock import Lock, Mark

_BLOCK = 1 << 20


class LogFile:
    """One file, open for appending under the session's lock; a rewrite replaces it by another `LogFile`.

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
    def of_rewrite(cls, disk: Disk, lock: Lock, path: str, fd: int, first: FirstLine, *, end: int) -> "LogFile":
        """Return a file that is on the medium and whose name may not be; `end` is where its new records begin."""
        log = cls(disk, lock, path, fd, first, end=end, durable=end)
        log.poison = OSError("a rewrite was not finished")
        return log

    def finish_rewrite(self) -> int:
        """Make the name of a rewritten file durable, heal it, and return its length.

        Raises:
            StorePoisoned: it may be lost; the log stays poisoned.
        """
        try:
            self._disk.sync_folder(self.path.rpartition("/")[0])  # else the old file could come back
            self._end = self.durable = self._explained
            self._write_mark(attempted=self._end)
        except OSError as exc:
            raise self.record_failure(exc) from exc
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
        data = b"".join(seal_all(self._seal, bodies, self._end, self.durable))
        end = self._end + len(data)
        try:
            self._write_mark(attempted=end)  # before the sync: the next process must know that it was tried
            write_whole(self._disk, self.fd, data)
            self._disk.sync(self.fd)
        except OSError as exc:
            self._explained = min(self._disk.fstat(self.fd).st_size, end)
            raise self.record_failure(exc) from exc
        self._check_length(end)  # somebody may have appended between the check and the write
        self._end = self.durable = self._explained = end
        self.confirm_mark()
        return len(data)

    def set_damaged(self, length: int) -> None:
        """Take the file for damaged behind what is kept of it, up to `length`; only a rewrite is possible then."""
        self._explained = length
        self.poison = OSError("the log is damaged")

    def refuse_if_poisoned(self) -> None:
        """Raise StorePoisoned if a write or sync has failed."""
        if self.poison is not None:
            raise self._poison_error(self.poison)

    def record_failure(self, cause: OSError) -> StorePoisoned:
        """Poison the log, if it is not yet, and return the error to raise."""
        self.poison = self.poison or cause  # the first one says why; what follows from it says less
        return self._poison_error(cause)

    def check_untouched(self) -> None:
        """Raise StoreReplaced unless the file is at its path and ends where this process left it.

        On a poisoned log, where a failed write may have left it.
        """
        self.check_in_place()
        self._check_length(self._explained if self.poison else self._end)

    def check_in_place(self) -> None:
        """Raise StoreReplaced unless the file is at its path; once it was not, it never is again."""
        if self._lost is not None:  # a file moved back into place may have been written meanwhile
            raise self._lost
        try:
            there = self._disk.lstat(self.path)
        except OSError as exc:
            self._lost = self._change_error(f"it cannot be found: {exc}")
            raise self._lost from exc
        if (there.st_ino, there.st_dev) != (self.inode, self._device):
            self._lost = self._change_error("another file is in its place")
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
            raise self._change_error(f"it is {length} bytes long, where this process left {expected}")

    def _change_error(self, reason: str) -> StoreReplaced:
        return StoreReplaced(
            f"the log {self.path} was changed by somebody else: {reason}; load the session again",
            session_id=self.first.header.session_id,
            path=self.path,
        )

    def _poison_error(self, cause: OSError) -> StorePoisoned:
        return StorePoisoned(
            f"the log {self.path} cannot be written: {cause}",
            session_id=self.first.header.session_id,
            path=self.path,
        )


def lines_of(session_id: str, gen: str, members: JsonObject, bodies: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a new file: the first line, then one for each of `bodies`."""
    line = first_line(session_id, gen, members)
    yield line
    offset, seal = len(line), Seal(session_id, gen)
    for body in bodies:
        line = seal.close(body, offset, offset)  # all of the file is on the disk before it has a name
        yield line
        offset += len(line)


def write_lines(disk: Disk, path: str, lines: Iterable[bytes]) -> int:
    """Make the file, its bytes on the medium, and return its descriptor.

    Raises:
        OSError: it could not be made; as far as possible nothing is left of it.
    """
    fd = disk.open(path, NEW)
    try:
        waiting, size = list[bytes](), 0
        for line in lines:
            waiting.append(line)
            size += len(line)
            if size >= _BLOCK:
                write_whole(disk, fd, b"".join(waiting))
                waiting, size = [], 0
        write_whole(disk, fd, b"".join(waiting))
        disk.sync(fd)  # else the name could outlive the bytes
    except BaseException:
        disk.close(fd)
        with suppress(OSError):
            disk.unlink(path)  # on a full disk the rest would take the room that the next try needs
        raise
    return fd


def rewrite(
    disk: Disk, lock: Lock, old: LogFile, kept: Iterable[bytes], added: Sequence[bytes], *, gen: str, copy: str = ""
) -> LogFile:
    """Put a file of the bodies `kept` and `added` in the place of `old`; keep that as `copy`, if named, in its folder.

    What is returned is held from now on, and poisoned until `LogFile.finish_rewrite` has made its name durable. Until
    then it is known to be durable through `kept`.

    Raises:
        OSError: the old file is still the log.
        StoreReplaced: somebody else touched the old file.
    """
    session_id, new_path = old.first.header.session_id, f"{old.path}.new"
    with suppress(FileNotFoundError):
        disk.unlink(new_path)  # of a rewrite that was killed
    sizes: list[int] = []
    lines = lines_of(session_id, gen, old.first.members, (*kept, *added))
    fd = write_lines(disk, new_path, _measure(lines, sizes))
    try:
        old.check_untouched()
        if copy:
            _keep(disk, old.path, copy)
        disk.rename(new_path, old.path)
    except BaseException:
        disk.close(fd)
        raise
    first = replace(old.first, gen=gen, size=sizes[0])
    return LogFile.of_rewrite(disk, lock, old.path, fd, first, end=sum(sizes[: len(sizes) - len(added)]))


def _keep(disk: Disk, path: str, copy: str) -> None:
    folder = path.rpartition("/")[0]
    with suppress(FileExistsError):
        disk.link(path, f"{folder}/{copy}")
    disk.sync_folder(folder)  # else the rename could last, and the copy's name be lost


def _measure(lines: Iterable[bytes], sizes: list[int]) -> Iterator[bytes]:
    for line in lines:
        sizes.append(len(line))
        yield line
