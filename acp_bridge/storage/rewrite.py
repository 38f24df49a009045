"""Replacing a log by a new file: the one routine of a repair that has to cut, of a salvage and of a fork.

The new file is whole on the disk before it has the log's name, so no crash leaves anything between old and new (D23).
Every record is sealed anew, with its own offset as `d`.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from acp_bridge.content import JsonObject

from .disk import NEW, Disk, write_whole
from .header import first_line
from .lock import Lock
from .log import OpenLog
from .record import Seal, sealed

_BLOCK = 1 << 20


def file_lines(session_id: str, gen: str, members: JsonObject, bodies: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a new file: the header, then `bodies`."""
    line = first_line(session_id, gen, members)
    yield line
    offset, seal = len(line), Seal(session_id, gen)
    for body in bodies:
        [line] = sealed(seal, [body], offset, None)
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
    disk: Disk, lock: Lock, old: OpenLog, kept: Iterable[bytes], events: Sequence[bytes], *, gen: str, copy: str = ""
) -> OpenLog:
    """Put a file of `kept` and `events` in the place of `old`; keep that as `copy`, if named, in its folder.

    What is returned is held from now on, and poisoned until `OpenLog.settle` has made its name durable. Until then it
    is known to be durable through `kept`.

    Raises:
        OSError: the old file is still the log.
        StoreReplaced: somebody else touched the old file.
    """
    members, path = old.first.members, old.path
    session_id, new_path = old.first.header.session_id, f"{path}.new"
    with suppress(FileNotFoundError):
        disk.unlink(new_path)  # of a rewrite that was killed
    sizes: list[int] = []
    lines = file_lines(session_id, gen, members, (*kept, *events))
    fd = write_lines(disk, new_path, _measured(lines, sizes))
    try:
        old.check_untouched()
        if copy:
            folder = path.rpartition("/")[0]
            with suppress(FileExistsError):
                disk.link(path, f"{folder}/{copy}")
            disk.sync_folder(folder)  # else the rename could last, and the copy's name be lost
        disk.rename(new_path, path)
    except BaseException:
        disk.close(fd)
        raise
    first = replace(old.first, gen=gen, size=sizes[0])
    return OpenLog.unsettled(disk, lock, path, fd, first, end=sum(sizes[: len(sizes) - len(events)]))


def _measured(lines: Iterable[bytes], sizes: list[int]) -> Iterator[bytes]:
    for line in lines:
        sizes.append(len(line))
        yield line
