"""Reading a log: which records hold, where they end, and how much of the file is known durable (D25 to D27).

D, the length known durable, is the greatest of the mark's `synced` and of each valid record's `d` that is not beyond
the record's own offset. Whatever is wrong below D is corruption. At or above D a crash may have left anything: sectors
that never arrived, zeros with whole records after them, half a line; there the log ends before the first line that
does not hold. Owns that judgement, and what is said of it. Reads; never writes, and decodes no event.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import orjson

from acp_bridge.content import JsonObject
from acp_bridge.errors import StoreCorrupt
from acp_bridge.session.store import Damage, Verification

from .disk import Disk
from .format import BadLine, FirstLine, Seal, parse_first_line, unseal
from .lock import Mark

_FIRST_BLOCK, _BLOCK = 1 << 16, 1 << 20
_START = b'{"type":'

Take = Callable[[JsonObject], bool | None]
"""Is given each record that holds, as its JSON object with the seal's members; True ends the scan before that one."""


@dataclass(slots=True)
class Scan:
    """What a log was found to hold.

    Attributes:
        end: where the last record that holds ends.
        length: where the file ended when it was read.
        durable: D.
        marked: how much of it the mark says was seen to be synced.
        last, last_line: the last of those that hold, and its offset.
        records: how many hold, types that may be skipped included; the next seq.
        tail: offsets and lines of those at or above D.
        damage: set if the log is corrupt.
        resumed: whether it was read from where an earlier scan had ended.
        stopped: whether it was read no further than its taker wanted; what follows was not judged.
    """

    first: FirstLine
    inode: int
    end: int
    length: int
    durable: int = 0
    attempted: int = 0
    marked: int = 0
    records: int = 0
    last: int = 0
    last_line: bytes = b""
    tail: deque[tuple[int, bytes]] = field(default_factory=deque[tuple[int, bytes]])
    damage: Damage | None = None
    resumed: bool = False
    stopped: bool = False

    @property
    def may_not_last(self) -> bool:
        """A sync of what was read was tried and not seen to succeed: it may be in the cache alone."""
        return self.attempted > self.durable

    @property
    def bookmark(self) -> "Bookmark":
        """Where a later scan of the same file may go on."""
        crc = self.last_line[-10:-2].decode()
        return Bookmark(self.first.gen, self.end, self.records, self.durable, self.last, crc)

    @property
    def is_confirmed(self) -> bool:
        """Whether all of the file was seen to be synced, and its names with it.

        A mark that names this file is written only after the folders that name it were synced (`HeldLog.save`,
        `LogFile.finish_rewrite`, `folder.build`), so it speaks of them too. Without it nothing is known: the lock
        file, or the whole folder, may be a copy.
        """
        return self.marked >= self.length and not self.may_not_last

    def resume_at(self, bookmark: "Bookmark") -> None:
        """Take what is before the bookmark as read."""
        self.end, self.records, self.durable = bookmark.end, bookmark.records, bookmark.durable
        self.last, self.last_line, self.resumed = bookmark.last, bookmark.crc.encode() + b'"}', True

    def raise_durable(self, length: int) -> None:
        """Take it that the file is known durable up to `length`."""
        self.durable = length
        while self.tail and self.tail[0][0] < length:
            self.tail.popleft()


def corruption(session_id: str, path: str, damage: Damage) -> StoreCorrupt:
    """Return the error that names the damage and the remedy."""
    return StoreCorrupt(
        f"session {session_id!r} is damaged: {path}, line {damage.line}, offset {damage.offset}: {damage.reason};"
        f" nothing was changed; `acp-bridge sessions repair --salvage {session_id}` keeps what is before it",
        session_id=session_id,
        path=path,
        line=damage.line,
        offset=damage.offset,
    )


@dataclass(frozen=True, slots=True)
class Bookmark:
    """How far a file, known by its `gen`, was read before: where its records ended, how many, and D.

    The last of them is known by its offset and checksum: a crash may have taken it, and others be in its place.
    """

    gen: str = ""
    end: int = 0
    records: int = 0
    durable: int = 0
    last: int = 0
    crc: str = ""


def verification(session_id: str, path: str, found: Scan, *, kept_file: str = "") -> Verification:
    """Return what `found` says."""
    rest = found.length - found.end
    return Verification(
        session_id=session_id,
        path=path,
        records=found.records,
        size=found.length,
        durable=found.durable,
        dropped_bytes=0 if found.damage else rest,
        damage=found.damage,
        kept_file=kept_file,
    )


def scan(
    disk: Disk,
    fd: int,
    session_id: str,
    path: str,
    *,
    mark: Mark | None = None,
    take: Take,
    bookmark: Bookmark | None = None,
) -> Scan:
    """Read the log that is open as `fd`, giving each record that holds to `take`.

    What is before `bookmark` is taken as read, if it is of this very file; else the records come from the first.

    Raises:
        StoreTooNew: before anything but the version was looked at.
        StoreCorrupt: the first line is damaged. Other damage is in the result.
    """
    status = disk.fstat(fd)
    lines = _lines(disk, fd, status.st_size)
    first = _read_first_line(lines, session_id, path)
    found, seal = Scan(first, status.st_ino, first.size, status.st_size), Seal(session_id, first.gen)
    if mark is not None and mark.names(found.inode, first.gen):
        found.durable = found.marked = mark.synced
        found.attempted = mark.attempted
    if bookmark and bookmark.gen == first.gen and _is_still_there(disk, fd, seal, bookmark):
        found.resume_at(bookmark)
        lines = _lines(disk, fd, status.st_size, since=bookmark.end)
    reason = _read(found, seal, lines, take)
    if found.end < found.durable and not found.stopped:
        found.damage = Damage(found.records + 2, found.end, reason)
    return found


def _read_first_line(lines: Iterator[tuple[int, bytes]], session_id: str, path: str) -> FirstLine:
    _, line = next(lines, (0, b""))
    try:
        return parse_first_line(line, session_id, path)
    except BadLine as exc:  # no crash can do that: the file was whole on disk before it had its name
        raise corruption(session_id, path, Damage(1, 0, str(exc))) from exc


def skip(record: JsonObject) -> None:
    """Take a record for no more than its checksum."""


def _is_still_there(disk: Disk, fd: int, seal: Seal, before: Bookmark) -> bool:
    """Whether the last record that was read before is where it was."""
    line = b"".join(line for _, line in _lines(disk, fd, before.end, since=before.last)) if before.records else b""
    return (
        before.last + len(line) + 1 == before.end
        and line[-10:-2] == before.crc.encode()
        and seal.holds(line, before.last)
    )


def _read(found: Scan, seal: Seal, lines: Iterator[tuple[int, bytes]], take: Take) -> str:
    """Read records until one does not hold, then look in the rest for proof that it should; return what was wrong."""
    holds, loads, tail = seal.holds, orjson.loads, found.tail
    for offset, line in lines:
        if not holds(line, offset):
            _look_beyond(found, seal, offset, line, lines)
            return "the record does not have its checksum"
        record: JsonObject = loads(line)
        if record["seq"] != found.records:
            return f"record {record['seq']} stands where {found.records} should"
        durable: int = record["d"]
        if found.durable < durable <= offset:  # one that claims more than was before it proves nothing
            found.raise_durable(durable)
        if offset >= found.durable:
            tail.append((offset, line))  # a rewrite takes it from here: after a failed sync the file is no proof
        if take(record):
            found.stopped = True
            return ""
        found.records += 1
        found.last, found.last_line = offset, line
        found.end = offset + len(line) + 1
    return "the file ends before what is known durable" if found.end == found.length else "the last line is torn"


def _look_beyond(found: Scan, seal: Seal, offset: int, line: bytes, lines: Iterator[tuple[int, bytes]]) -> None:
    """Raise D by the records after a bad one: one that was made when the bad one was durable proves corruption."""
    while True:
        start = line.find(_START)  # a hole of zeros may end where a record begins
        if start >= 0 and seal.holds(line[start:], offset + start):
            durable: int = orjson.loads(line[start:])["d"]
            if found.durable < durable <= offset + start:
                found.raise_durable(durable)
        offset, line = next(lines, (-1, b""))
        if offset < 0:
            return


def _lines(disk: Disk, fd: int, size: int, *, since: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield offset and bytes of each line that has its newline, which is left out."""
    start, position, parts, ahead = since, since, list[bytes](), _FIRST_BLOCK
    while position < size and (block := disk.read(fd, min(ahead, size - position), position)):
        position += len(block)
        ahead = min(2 * ahead, _BLOCK)  # whoever stops early has read little, and whoever goes on makes few calls
        *whole, rest = block.split(b"\n")
        for line in whole:
            if parts:
                line = b"".join([*parts, line])
                parts.clear()
            yield start, line
            start += len(line) + 1
        if rest:
            parts.append(rest)


def read_bodies(disk: Disk, fd: int, first: FirstLine, end: int) -> Iterator[bytes]:
    """Yield what the records up to offset `end` were made of, each checked anew.

    Raises:
        BadLine: one does not hold any more.
    """
    seal = Seal(first.header.session_id, first.gen)
    position = 0
    for offset, line in _lines(disk, fd, end):
        if not seal.holds(line, offset):
            raise BadLine(f"the line at offset {offset} does not hold any more")
        position = offset + len(line) + 1
        if offset:
            yield unseal(line)
    if position != end:
        raise BadLine(f"the file ends at offset {position}, not at {end}")
