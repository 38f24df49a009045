"""Content files: bytes too large for a record, named by their SHA-256, beside the log that needs them."""

import hashlib
import re
from collections.abc import Iterable
from contextlib import suppress

from acp_bridge.session.events import Record, contents_named

from .disk import READ, Disk, read_whole, write_new

_NAME = re.compile(r"[0-9a-f]{64}")


def name_of(data: bytes) -> str:
    """Return the content file's name."""
    return hashlib.sha256(data).hexdigest()


def put(disk: Disk, folder: str, name: str, data: bytes) -> None:
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


def get(disk: Disk, folder: str, name: str) -> bytes | None:
    """Return the content file's bytes, or None if it is missing or not what its name says."""
    if _NAME.fullmatch(name) is None:
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
    return data if name_of(data) == name else None


def needed(records: Iterable[Record]) -> set[str]:
    """Return the names of the content files that the records need."""
    return set[str]().union(*(contents_named(record.event) for record in records))
