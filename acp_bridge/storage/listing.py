"""The listing: what every log says in short, remembered by the log's inode, length and time.

The memory lies in `index.cache` beside the sessions. It is derived, may be deleted, and is never trusted: an entry that
does not fit its log, or has not the right shape, is made anew. A log that has grown is read from where its last record
ended, if its first line says that it is the same file.
"""

import os
from collections.abc import Collection, Iterator
from dataclasses import astuple, dataclass, field, replace
from threading import Lock
from typing import Any
from zlib import crc32

import orjson

from acp_bridge.content import JsonObject
from acp_bridge.errors import StoreError
from acp_bridge.session.store import Page, SessionFilter, SessionState, SessionSummary

from . import names
from .disk import NEW, READ, Disk, exists, read_whole, write_whole
from .folder import LOG, is_session, size_of
from .scan import Read, scan
from .summary import Shown, page_of

_INDEX = "index.cache"
_FORMAT = b"acp-bridge/index 2"


@dataclass(slots=True)
class Entry:
    """What a listing needs of a log, and the file it was read from. `damage` is set if it cannot be listed."""

    inode: int
    length: int
    modified: int | None
    read: list[Any] = field(default_factory=list[Any])
    cwd: str = ""
    roots: list[str] = field(default_factory=list[str])
    title: str = ""
    created: int = 0
    updated: int = 0
    turns: int = 0
    turn_open: bool = False
    is_damaged: bool = False
    is_unreadable: bool = False

    def fits(self, status: os.stat_result) -> bool:
        """Whether the file is as it was when it was read."""
        return (self.inode, self.length, self.modified) == _stamp(status)

    def take(self, record: JsonObject) -> None:
        """Fold a record in."""
        self.updated = record["time"]
        match record["type"]:
            case "session/title":
                self.title = record["data"]["title"]
            case "turn/start":
                self.turns += 1
                self.turn_open = True
            case "turn/end":
                self.turn_open = False
            case _:
                pass

    @property
    def state(self) -> SessionState:
        """A turn that is open in a log that nobody here holds was interrupted, or runs elsewhere."""
        if self.is_damaged:
            return "damaged"
        return "interrupted" if self.turn_open else "idle"


class Listing:
    """The entries of all sessions under one root."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._root = root
        self._entries: dict[str, Entry] | None = None
        self._one_at_a_time = Lock()

    def page(self, filter: SessionFilter, cursor: str | None, limit: int, *, is_open: Collection[str]) -> Page:
        """Return a page of sessions.

        Raises:
            ValueError: the cursor is not one of ours.
        """
        entries, wanted = self.entries(), Shown(filter)
        shown = [
            (entry.updated, session_id)
            for session_id, entry in entries.items()
            if not entry.is_unreadable and wanted.takes(entry.cwd, entry.turns, is_open=session_id in is_open)
        ]
        places, following = page_of(shown, cursor, limit)
        sessions = tuple(
            self._summary(session_id, entries[session_id], is_open)
            for _, session_id in places
            if is_session(self._disk, self._root, session_id)  # a link is not one; looked at for what is shown alone
        )
        damaged = () if cursor else tuple(sorted(name for name, entry in entries.items() if entry.is_unreadable))
        return Page(sessions, following, damaged)

    def entries(self) -> dict[str, Entry]:
        """Return the entry of each session, those that changed made anew."""
        with self._one_at_a_time:
            return self._refreshed()

    def _refreshed(self) -> dict[str, Entry]:
        known = self._remembered() if self._entries is None else self._entries
        fresh, changed = dict[str, Entry](), self._entries is None and not known
        lstat, root = self._disk.lstat, self._root
        for session_id in self._ids():
            try:
                status = lstat(f"{root}/{session_id}/{LOG}")
            except OSError:
                continue
            entry = known.get(session_id)
            if entry is None or not entry.fits(status):
                entry = self._read(session_id, status, entry)
                changed = True
            fresh[session_id] = entry
        self._entries = fresh
        if changed or len(fresh) != len(known):
            self._remember(fresh)
        return fresh

    def _ids(self) -> Iterator[str]:
        try:
            found = self._disk.names(self._root)
        except FileNotFoundError:
            return
        for name in found:
            if not name.endswith(".lock") and names.is_session_id(name):
                yield name

    def _read(self, session_id: str, status: os.stat_result, known: Entry | None) -> Entry:
        inode, length, modified = _stamp(status)
        new = Entry(inode, length, modified)
        try:
            if known is not None and known.read and known.inode == inode:
                grown = replace(known, length=length, modified=modified)
                if self._scanned(session_id, grown):
                    return grown
            self._scanned(session_id, new)
        except (StoreError, OSError, KeyError, TypeError):
            return Entry(inode, length, modified, is_unreadable=True)
        return new

    def _scanned(self, session_id: str, entry: Entry) -> bool:
        """Fold in what `entry` does not know of the log yet; whether the log is the one that it knows."""
        path = f"{self._root}/{session_id}/{LOG}"
        before = Read(*entry.read)
        fd = self._disk.open(path, READ)
        try:
            found = scan(self._disk, fd, session_id, path, take=entry.take, before=before)
        finally:
            self._disk.close(fd)
        if entry.read and not found.went_on:
            return False
        entry.read = list(astuple(found.read))
        header = found.first.header
        entry.cwd, entry.roots, entry.created = header.cwd, list(header.roots), header.created
        entry.updated = entry.updated or header.created
        entry.is_damaged = found.damage is not None
        return True

    def _summary(self, session_id: str, entry: Entry, is_open: Collection[str]) -> SessionSummary:
        return SessionSummary(
            session_id=session_id,
            cwd=entry.cwd,
            roots=tuple(entry.roots),
            title=entry.title,
            created=entry.created,
            updated=entry.updated,
            turns=entry.turns,
            state="open" if session_id in is_open else entry.state,
            size=size_of(self._disk, f"{self._root}/{session_id}"),
        )

    def _remembered(self) -> dict[str, Entry]:
        try:
            fd = self._disk.open(f"{self._root}/{_INDEX}", READ)
            try:
                checksum, _, text = read_whole(self._disk, fd).partition(b"\n")
            finally:
                self._disk.close(fd)
            if checksum != _checksum(text):
                return {}
            return {session_id: Entry(*row) for session_id, row in orjson.loads(text).items()}
        except (OSError, ValueError, TypeError):
            return {}

    def _remember(self, entries: dict[str, Entry]) -> None:
        """Write the index, unsynced. Whatever goes wrong costs time at the next start and nothing else."""
        path = f"{self._root}/{_INDEX}"
        text = orjson.dumps({session_id: _row(entry) for session_id, entry in entries.items()})
        temporary = f"{path}.{os.getpid()}"
        try:
            if exists(self._disk, temporary):
                self._disk.unlink(temporary)  # of a process that had this number before
            fd = self._disk.open(temporary, NEW)
            try:
                write_whole(self._disk, fd, b"%b\n%b" % (_checksum(text), text))
            finally:
                self._disk.close(fd)
            self._disk.rename(temporary, path)
        except OSError:
            return


def _checksum(text: bytes) -> bytes:
    """Return what only this version of the index begins with."""
    return b"%b %08x" % (_FORMAT, crc32(text))


def _stamp(status: os.stat_result) -> tuple[int, int, int | None]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _row(entry: Entry) -> list[Any]:
    return [getattr(entry, name) for name in Entry.__slots__]
