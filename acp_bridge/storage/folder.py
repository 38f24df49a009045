"""The folders that sessions lie in: which names are a session's, the root, and what is in a session's own folder.

Owns how a folder comes to be and goes: it is built under a temporary name and gets its own by a rename, and is removed
by a rename out of its name, each made durable by a sync of the root, so that a session is there whole or not at all
(D29). Owns content files, bytes too large for a record, named by their SHA-256 beside the log that needs them (D31).
Of a log it knows no more than that it is made of lines.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress

from acp_bridge.errors import SessionNotFound, StoreError
from acp_bridge.session.events import Record, contents_named

from .disk import READ, Disk, exists, is_folder, read_whole, remove_tree, write_new
from .lock import Lock
from .log import write_lines

LOG = "log.jsonl"
BUILT = "tmp-"
REMOVED = "trash-"

_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CONTENT_NAME = re.compile(r"[0-9a-f]{64}")


def is_session_id(name: str) -> bool:
    """Whether `name` can be a session's: it cannot leave the root, nor mean a folder that is built or removed."""
    return _SESSION_ID.fullmatch(name) is not None and not name.startswith((BUILT, REMOVED))


def require_session_id(session_id: str) -> str:
    """Return `session_id`.

    Raises:
        SessionNotFound: it is malformed; answered like an unknown one, so that a probe learns nothing (S1).
    """
    if not is_session_id(session_id):
        raise not_found(session_id)
    return session_id


def not_found(session_id: str) -> SessionNotFound:
    """Return the error for an id that no session has."""
    return SessionNotFound(f"no session {session_id[:64]!r}", session_id=session_id[:64])


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
        _try_to_remove(disk, built)
        raise
    try:
        disk.sync_folder(built)  # else the folder could appear without its log
        disk.rename(built, folder)
        disk.sync_folder(root)  # else the session could vanish with the folder's name
    except BaseException:
        disk.close(fd)
        with suppress(OSError):
            disk.rename(folder, built)
        _try_to_remove(disk, built)
        raise
    return fd


def _try_to_remove(disk: Disk, path: str) -> None:
    with suppress(OSError):  # what is left is swept
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


def content_name(data: bytes) -> str:
    """Return the content file's name."""
    return hashlib.sha256(data).hexdigest()


def write_content(disk: Disk, folder: str, name: str, data: bytes) -> None:
    """Make the content file, durable under its name.

    A file of that name is replaced: it may have been left by a process that did not live to sync it.

    Raises:
        OSError: it may not be on disk.
    """
    temporary = f"{folder}/{name}.new"
    with suppress(FileNotFoundError):
        disk.unlink(temporary)
    write_new(disk, temporary, data)
    disk.rename(temporary, f"{folder}/{name}")
    disk.sync_folder(folder)  # else a record could name a file that is not there


def read_content(disk: Disk, folder: str, name: str) -> bytes | None:
    """Return the content file's bytes, or None if it is missing or not what its name says."""
    if _CONTENT_NAME.fullmatch(name) is None:
        return None
    try:
        fd = disk.open(f"{folder}/{name}", READ)
    except OSError:
        return None
    try:
        data = read_whole(disk, fd)
    except OSError:
        return None
    finally:
        disk.close(fd)
    return data if content_name(data) == name else None


def content_needed(records: Iterable[Record]) -> set[str]:
    """Return the names of the content files that the records need."""
    return set[str]().union(*(contents_named(record.event) for record in records))


def read_contents(disk: Disk, folder: str, names: Iterable[str]) -> dict[str, bytes]:
    """Return the content files of `names` that are not lost."""
    found = {name: read_content(disk, folder, name) for name in names}
    return {name: data for name, data in found.items() if data is not None}
