"""The system calls that storage makes, as one object, so that a test can stand between them and the kernel.

Owns flags and modes: nothing is opened through a link, nothing blocks, nothing is inherited by a child, nobody else may
read (S2). Knows no log. Paths are whole; the ids in them were checked before (`folder.require_session_id`).
"""

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Protocol

FILE_MODE = 0o600
FOLDER_MODE = 0o700

_ALWAYS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a FIFO in a log's place must not hang the program
READ = os.O_RDONLY
APPEND = os.O_RDWR | os.O_APPEND
NEW = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
LOCK = os.O_RDWR | os.O_CREAT


class Disk(Protocol):
    """What storage asks of a file system. Every call may raise `OSError`."""

    def open(self, path: str, flags: int) -> int:
        """Open a regular file; anything else is refused, without waiting for it."""
        ...

    def close(self, fd: int) -> None: ...

    def read(self, fd: int, size: int, offset: int) -> bytes: ...

    def write(self, fd: int, data: memoryview) -> int:
        """Append as much of `data` as the system takes in one go."""
        ...

    def write_at(self, fd: int, data: bytes, offset: int) -> int: ...

    def sync(self, fd: int) -> None:
        """Return once the file's bytes, and what is needed to read them back, are on the medium."""
        ...

    def sync_folder(self, path: str) -> None:
        """Return once the folder's names are on the medium."""
        ...

    def fstat(self, fd: int) -> os.stat_result: ...

    def lstat(self, path: str) -> os.stat_result: ...

    def names(self, path: str) -> list[str]: ...

    def make_folder(self, path: str) -> None: ...

    def link(self, source: str, target: str) -> None: ...

    def rename(self, source: str, target: str) -> None: ...

    def unlink(self, path: str) -> None: ...

    def remove_folder(self, path: str) -> None: ...

    def try_lock(self, fd: int) -> bool:
        """Whether the whole file is now locked for this descriptor alone; never waits."""
        ...


class OsDisk:
    """The real one."""

    def open(self, path: str, flags: int) -> int:
        fd = os.open(path, flags | _ALWAYS, FILE_MODE)
        try:
            _refuse_special(fd, path)
            if flags & os.O_CREAT:
                os.fchmod(fd, FILE_MODE)  # the umask may have taken bits away from the owner
        except BaseException:
            os.close(fd)
            raise
        return fd

    def close(self, fd: int) -> None:
        os.close(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        return os.pread(fd, size, offset)

    def write(self, fd: int, data: memoryview) -> int:
        return os.write(fd, data)

    def write_at(self, fd: int, data: bytes, offset: int) -> int:
        return os.pwrite(fd, data, offset)

    def sync(self, fd: int) -> None:
        if sys.platform == "darwin":
            _full_sync(fd)
        else:
            os.fdatasync(fd)  # the length is synced with it, and times of access are nobody's promise

    def sync_folder(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _ALWAYS)
        try:
            with _unless_unknown_here(lambda: None):
                _full_sync(fd)
        finally:
            os.close(fd)

    def fstat(self, fd: int) -> os.stat_result:
        return os.fstat(fd)

    def lstat(self, path: str) -> os.stat_result:
        return os.lstat(path)

    def names(self, path: str) -> list[str]:
        return os.listdir(path)

    def make_folder(self, path: str) -> None:
        os.mkdir(path, FOLDER_MODE)
        os.chmod(path, FOLDER_MODE)  # the umask may have taken bits away from the owner

    def link(self, source: str, target: str) -> None:
        os.link(source, target, follow_symlinks=False)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def remove_folder(self, path: str) -> None:
        os.rmdir(path)

    def try_lock(self, fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a `lockf` lock goes when any other descriptor is closed
        except BlockingIOError:
            return False
        return True


def _full_sync(fd: int) -> None:
    """Sync a file or folder down to the medium; fsync on macOS stops at the drive's own cache."""
    if sys.platform == "darwin":
        with _unless_unknown_here(lambda: os.fsync(fd)):
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


@contextmanager
def _unless_unknown_here(instead: Callable[[], None]) -> Generator[None]:
    """Do `instead` where the file system, a network's as a rule, has no such call. That is no failed sync."""
    try:
        yield
    except OSError as exc:
        if exc.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
        instead()


def _refuse_special(fd: int, path: str) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(f"{path!r} is not a regular file")


def write_whole(disk: Disk, fd: int, data: bytes) -> None:
    """Append all of `data`, in as many writes as the system makes of it.

    Raises:
        OSError: part of it may be in the file.
    """
    rest = memoryview(data)
    while rest:
        taken = disk.write(fd, rest)  # unbuffered: what a buffer holds after a failure cannot be taken back
        if taken <= 0:
            raise OSError("a write took nothing")
        rest = rest[taken:]


def read_whole(disk: Disk, fd: int) -> bytes:
    """Return the file's bytes, up to where they end now."""
    size, parts, offset = disk.fstat(fd).st_size, [b""], 0
    while offset < size and (part := disk.read(fd, size - offset, offset)):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def write_new(disk: Disk, path: str, data: bytes) -> None:
    """Make a file of `data` whose bytes are on the medium when this returns; its name is not, yet."""
    fd = disk.open(path, NEW)
    try:
        write_whole(disk, fd, data)
        disk.sync(fd)  # else the name could outlive the bytes
    finally:
        disk.close(fd)


def exists(disk: Disk, path: str) -> bool:
    """Whether anything is at `path`, be it a dangling link."""
    try:
        disk.lstat(path)
    except FileNotFoundError:
        return False
    return True


def is_folder(disk: Disk, path: str) -> bool:
    """Whether a folder, and no link to one, is at `path`."""
    try:
        return stat.S_ISDIR(disk.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def remove_tree(disk: Disk, path: str) -> None:
    """Remove a folder with all that is in it, if it is there; a link is removed, and not what it leads to."""
    if not exists(disk, path):
        return
    for name in disk.names(path):
        inner = f"{path}/{name}"
        if is_folder(disk, inner):
            remove_tree(disk, inner)
        else:
            disk.unlink(inner)
    disk.remove_folder(path)
