"""The index: what every log on the disk says in short, remembered by the log's inode, length and time.

Owns `index.cache` beside the sessions. That is derived, may be deleted, and is never trusted: an entry that does not
fit its log, or has not the right shape, is made anew. A log that has grown is read from where its last record ended, if
its first line says that it is the same file. Changes no session, and takes no lock.
"""

import os
from collections.abc import Collection, Iterator
from dataclasses import astuple, dataclass, field, replace
from threading import Lock
from typing import Any
from zlib import crc32

import orjson

from acp_bridge.errors import StoreError
from acp_bridge.session.store import Page, SessionFilter, SessionSummary

from .disk import NEW, READ, Disk, exists, read_whole, write_whole
from .folder import LOG, is_session, is_session_id, size_of
from .listing import Digest, Selection, page_of
from .scan import Bookmark, scan

_INDEX = "index.cache"
_FORMAT = b"acp-bridge/index 2"


@dataclass(slots=True)
class Entry(Digest):
    """What a listing needs of a log, and the file it was read from.

    Attributes:
        bookmark: the members of the scan's.
        is_damaged: it is listed, and cannot be opened.
        is_unreadable: it cannot even be listed.
    """

    inode: int = 0
    length: int = 0
    modified: int | None = None
    bookmark: list[Any] = field(default_factory=list[Any])
    cwd: str = ""
    roots: list[str] = field(default_factory=list[str])
    created: int = 0
    is_damaged: bool = False
    is_unreadable: bool = False

    def fits(self, status: os.stat_result) -> bool:
        """Whether the file is as it was when it was read."""
        return (self.inode, self.length, self.modified) == _stamp(status)


_ROW = (
    "inode", "length", "modified", "bookmark", "cwd", "roots", "title", "created", "updated", "turns", "turn_open",
    "is_damaged", "is_unreadable",
)  # fmt: skip
"""The members of an entry in the order of the file, whatever the class makes of it."""


class Index:
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
        entries, wanted = self.entries(), Selection(filter)
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
            return self._refresh()

    def _refresh(self) -> dict[str, Entry]:
        known = self._load() if self._entries is None else self._entries
        fresh, changed = dict[str, Entry](), self._entries is None and not known
        lstat, root = self._disk.lstat, self._root
        for session_id in self._ids():
            try:
                status = lstat(f"{root}/{session_id}/{LOG}")
            except OSError:
                continue  # it was deleted meanwhile
            entry = known.get(session_id)
            if entry is None or not entry.fits(status):
                entry = self._read(session_id, status, entry)
                changed = True
            fresh[session_id] = entry
        self._entries = fresh
        if changed or len(fresh) != len(known):
            self._save(fresh)
        return fresh

    def _ids(self) -> Iterator[str]:
        try:
            found = self._disk.names(self._root)
        except FileNotFoundError:
            return
        for name in found:
            if not name.endswith(".lock") and is_session_id(name):
                yield name

    def _read(self, session_id: str, status: os.stat_result, known: Entry | None) -> Entry:
        inode, length, modified = _stamp(status)
        new = Entry(inode=inode, length=length, modified=modified)
        try:
            if known is not None and known.bookmark and known.inode == inode:
                grown = replace(known, length=length, modified=modified)
                if self._scan(session_id, grown):
                    return grown
            self._scan(session_id, new)  # another file has the inode by now: from the first record
        except (StoreError, OSError, KeyError, TypeError):
            return Entry(inode=inode, length=length, modified=modified, is_unreadable=True)
        return new

    def _scan(self, session_id: str, entry: Entry) -> bool:
        """Fold in what `entry` does not know of the log yet; whether the log is the one that it knows."""
        path = f"{self._root}/{session_id}/{LOG}"
        bookmark = Bookmark(*entry.bookmark)
        fd = self._disk.open(path, READ)
        try:
            found = scan(self._disk, fd, session_id, path, take=entry.take, bookmark=bookmark)
        finally:
            self._disk.close(fd)
        if entry.bookmark and not found.resumed:
            return False
        entry.bookmark = list(astuple(found.bookmark))
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
            state="open" if session_id in is_open else "damaged" if entry.is_damaged else entry.state,
            size=size_of(self._disk, f"{self._root}/{session_id}"),
        )

    def _load(self) -> dict[str, Entry]:
        try:
            fd = self._disk.open(f"{self._root}/{_INDEX}", READ)
            try:
                checksum, _, text = read_whole(self._disk, fd).partition(b"\n")
            finally:
                self._disk.close(fd)
            if checksum != _checksum(text):
                return {}
            return {
                session_id: Entry(**dict(zip(_ROW, row, strict=True))) for session_id, row in orjson.loads(text).items()
            }
        except (OSError, ValueError, TypeError):
            return {}

    def _save(self, entries: dict[str, Entry]) -> None:
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
            self._disk.rename(temporary, path)  # a reader sees the old one or the new one, never half of one
        except OSError:
            return


def _checksum(text: bytes) -> bytes:
    """Return what only this version of the index begins with."""
    return b"%b %08x" % (_FORMAT, crc32(text))


def _stamp(status: os.stat_result) -> tuple[int, int, int | None]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _row(entry: Entry) -> list[Any]:
    return [getattr(entry, name) for name in _ROW]
