"""Folders: the root that may be trusted, a session's folder made whole or not at all, its removal, and leftovers.

A folder is built under a temporary name and gets its own by a rename, and is removed by a rename out of its name; each
is made durable by a sync of the root. Knows paths and names; of a log no more than that it is made of lines.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress

from acp_bridge.errors import StoreError

from . import content
from .disk import Disk, exists, is_folder, remove_tree, write_new
from .lock import Lock
from .rewrite import write_lines

LOG = "log.jsonl"
BUILT = "tmp-"
REMOVED = "trash-"


def check_root(disk: Disk, root: str) -> bool:
    """Whether the root is there.

    Raises:
        StoreError: it is, and others could put files of theirs in it.
    """
    try:
        status = disk.lstat(root)
    except FileNotFoundError:
        return False
    except OSError as exc:
        raise StoreError(f"cannot look at {root!r}: {exc}", path=root) from exc
    if not stat.S_ISDIR(status.st_mode):
        raise StoreError(f"{root!r} is no folder, or a link to one; sessions need a folder of their own", path=root)
    if status.st_uid != os.geteuid():
        raise StoreError(f"{root!r} belongs to another user; sessions need a folder of their own", path=root)
    if status.st_mode & 0o022:
        raise StoreError(f"others may write to {root!r}; run `chmod go-w {root}`", path=root)
    return True


def make_root(disk: Disk, root: str) -> None:
    """Make the root and what is missing above it, durably, the outermost first and each synced before the next.

    So of what a process made that did not live to sync it, the innermost that is there is the only one whose name may
    be lost, and those above it need no sync.

    Raises:
        OSError: it may not be on disk.
    """
    missing: list[str] = []
    path = root
    while not exists(disk, path):
        missing.append(path)
        path = os.path.dirname(path)
    if disk.lstat(path).st_uid == os.geteuid():
        with suppress(PermissionError):  # what may not be opened cannot be synced
            disk.sync_folder(os.path.dirname(path))
    for folder in reversed(missing):
        with suppress(FileExistsError):
            disk.make_folder(folder)
        disk.sync_folder(os.path.dirname(folder))  # else all sessions could vanish with the folder's name


def build(disk: Disk, root: str, session_id: str, lines: Iterable[bytes], files: Mapping[str, bytes]) -> int:
    """Make the session's folder with its log, durably, and return the log's descriptor. Needs the lock.

    Raises:
        OSError: as far as possible nothing is left.
    """
    built, folder = f"{root}/{BUILT}{session_id}", f"{root}/{session_id}"
    if exists(disk, folder):
        raise FileExistsError(f"{folder!r} is there")
    remove_tree(disk, built)
    disk.make_folder(built)
    try:
        for name, data in files.items():
            write_new(disk, f"{built}/{name}", data)
        fd = write_lines(disk, f"{built}/{LOG}", lines)
    except BaseException:
        _forget(disk, built)
        raise
    try:
        disk.sync_folder(built)  # else the folder could appear without its log
        disk.rename(built, folder)
        disk.sync_folder(root)  # else the session could vanish with the folder's name
    except BaseException:
        disk.close(fd)
        with suppress(OSError):
            disk.rename(folder, built)
        _forget(disk, built)
        raise
    return fd


def _forget(disk: Disk, path: str) -> None:
    with suppress(OSError):
        remove_tree(disk, path)


def discard(disk: Disk, root: str, session_id: str, held: Lock) -> str:
    """Take the session's folder, whose lock is `held`, out of its name, durably, and return where it is now.

    Raises:
        OSError: it may come back.
    """
    trash, path = f"{root}/{REMOVED}{session_id}", f"{root}/{session_id}"
    remove_tree(disk, trash)
    disk.rename(path, trash)
    try:
        disk.sync_folder(root)  # else the session could come back
    except BaseException:
        with suppress(OSError):
            held.withdraw_mark()  # it speaks for a name that is not known to be on the disk any more
            disk.rename(trash, path)  # so that it can be seen and deleted again
        raise
    return trash


def copied_content(disk: Disk, folder: str, names: Iterable[str]) -> dict[str, bytes]:
    """Return the content files of `names` that are not lost."""
    found = {name: content.get(disk, folder, name) for name in names}
    return {name: data for name, data in found.items() if data is not None}


def size_of(disk: Disk, folder: str) -> int:
    """Return how many bytes the files have that are in the folder, and in folders within it."""
    try:
        inner = [f"{folder}/{name}" for name in disk.names(folder)]
        return sum(size_of(disk, path) if is_folder(disk, path) else disk.lstat(path).st_size for path in inner)
    except OSError:
        return 0  # it is being removed


def has_no_log(disk: Disk, path: str) -> bool:
    """Whether a folder is at `path` in which there is no log, nor a copy of one."""
    return is_folder(disk, path) and not any(name.endswith(".jsonl") for name in disk.names(path))


def is_session(disk: Disk, root: str, session_id: str) -> bool:
    """Whether a folder, and no link to one, has the session's name."""
    return is_folder(disk, f"{root}/{session_id}")
