"""The format of a log: its first line, its records' lines, and the seal by which bytes prove that they are one of them.

A line is a JSON object with two more members at its end: `d`, the length of the log that was known durable when the
line was made, and `crc`, the CRC-32 of the line's bytes before it (D25). A *body* is that object without the seal's
members and without its last brace. The first line names format, version, the file's `gen` and the session's own
members. Owns encoding and checking. Knows no files, and nothing of what an event means.
"""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import orjson

from acp_bridge.content import JsonObject
from acp_bridge.errors import StoreTooNew
from acp_bridge.session.codec import MalformedRecord, decode_header, dump_record
from acp_bridge.session.events import Header, Record

FORMAT = "acp-bridge/log"
VERSION = 1
TRAILER = len(b',"crc":"01234567"}')


class BadLine(Exception):
    """A line is not what it should be; the message says why."""


@dataclass(frozen=True, slots=True)
class FirstLine:
    """What the first line said; `members` keeps what this version does not know."""

    gen: str
    header: Header
    members: JsonObject
    size: int


class Seal:
    """Seals the lines of one file, and tells whether a line holds.

    The checksum is seeded with the session's id, the file's `gen` and the line's offset: a stale block of another file,
    or of another place in this one, has a checksum that was right there and is wrong here.
    """

    def __init__(self, session_id: str, gen: str) -> None:
        self.gen = gen
        self._base = crc32(f"{session_id}\n{gen}\n".encode())

    def close(self, body: bytes, offset: int, durable: int) -> bytes:
        """Return the line that `body` makes at `offset`."""
        body = b'%b,"d":%d' % (body, durable)
        return b'%b,"crc":"%08x"}\n' % (body, crc32(body, crc32(b"%d" % offset, self._base)))

    def holds(self, line: bytes, offset: int) -> bool:
        """Whether `line`, without its newline, was made for `offset` of this file."""
        crc = crc32(memoryview(line)[:-TRAILER], crc32(b"%d" % offset, self._base))
        return line[-TRAILER:] == b',"crc":"%08x"}' % crc


def unseal(line: bytes) -> bytes:
    """Return the body of a line that holds."""
    return line[: line.rindex(b',"d":', 0, len(line) - TRAILER)]


def seal_all(seal: Seal, bodies: Iterable[bytes], start: int, durable: int) -> list[bytes]:
    """Return the lines that `bodies` make from offset `start` on."""
    lines: list[bytes] = []
    for body in bodies:
        line = seal.close(body, start, durable)
        lines.append(line)
        start += len(line)
    return lines


def body_of(record: Record) -> bytes:
    """Return the record's body.

    Raises:
        ValueError: the record holds what JSON cannot carry.
    """
    return dump_record(record)[:-1]


def bodies_of(records: Sequence[Record], seq: int) -> list[bytes]:
    """Return the bodies of records that go on from `seq`.

    Raises:
        ValueError: they do not, or one holds what JSON cannot carry.
    """
    check_order(records, seq)
    return [body_of(record) for record in records]


def size_of_record(record: Record) -> int:
    """Return how many bytes the record takes, its seal left out."""
    return len(body_of(record)) + 2  # the brace and the newline


def _encode_body(members: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(members)[:-1]  # without the brace: the seal's members come behind
    except (TypeError, orjson.JSONEncodeError) as exc:
        raise ValueError(f"a record holds what JSON cannot carry: {exc}") from exc


def check_order(records: Sequence[Record], seq: int) -> None:
    """Check that `records` go on from `seq` without a gap.

    Raises:
        ValueError: they do not.
    """
    for expected, record in enumerate(records, seq):
        if record.seq != expected:
            raise ValueError(f"record {record.seq} cannot follow record {expected - 1}")


def new_gen() -> str:
    """Return a `gen` that no other file has."""
    return secrets.token_hex(8)


def first_line(session_id: str, gen: str, members: JsonObject) -> bytes:
    """Return the first line of a new file."""
    body = _encode_body({"format": FORMAT, "version": VERSION, "gen": gen, "session": members})
    return Seal(session_id, gen).close(body, 0, 0)


def parse_first_line(line: bytes, session_id: str, path: str) -> FirstLine:
    """Return what `line`, without its newline, says.

    Raises:
        StoreTooNew: a newer program wrote it.
        BadLine: it is damaged, or another session's.
    """
    try:
        found: JsonObject = dict(orjson.loads(line))
    except (TypeError, ValueError) as exc:
        raise BadLine("the first line is no JSON object") from exc
    if found.get("format") != FORMAT or not isinstance(found.get("version"), int):
        raise BadLine("the first line names no format of ours")
    if found["version"] > VERSION:  # looked at before anything else: the rest of a newer line may look otherwise
        raise StoreTooNew(
            f"session {session_id!r} was written in format {found['version']}, this program knows up to {VERSION}:"
            " upgrade acp-stdio-bridge",
            session_id=session_id,
            path=path,
        )
    return _check_members(line, found, session_id)


def _check_members(line: bytes, found: JsonObject, session_id: str) -> FirstLine:
    gen = found.get("gen")
    try:
        members: JsonObject = dict(found["session"])
    except (KeyError, TypeError, ValueError) as exc:
        raise BadLine("the first line lacks the session's members") from exc
    if not isinstance(gen, str):
        raise BadLine("the first line lacks its gen")
    if members.get("sessionId") != session_id:  # a folder that was copied under another name is not that session
        raise BadLine(f"the log is that of session {members.get('sessionId')!r}")
    if not Seal(session_id, gen).holds(line, 0):
        raise BadLine("the first line was changed")
    try:
        return FirstLine(gen, decode_header(members), members, len(line) + 1)
    except MalformedRecord as exc:
        raise BadLine(str(exc)) from exc
