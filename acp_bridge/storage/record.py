"""One line of a log: how a record is sealed into bytes, and how bytes prove that they are one.

A line is the record's JSON object with two more members at its end: `d`, the length of the log that was known durable
when the line was made, and `crc`, the CRC-32 of the line's bytes before it. The checksum is seeded with the session's
id, the file's `gen` and the line's own offset, so that no block of another file, or of another place, holds.
Knows no files.
"""

from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import orjson

from acp_bridge.session.codec import encode_record
from acp_bridge.session.events import Record

TRAILER = len(b',"crc":"01234567"}')


class Seal:
    """Seeds the checksums of one file."""

    def __init__(self, session_id: str, gen: str) -> None:
        self.gen = gen
        self._base = crc32(f"{session_id}\n{gen}\n".encode())

    def close(self, body: bytes, offset: int, durable: int) -> bytes:
        """Return the line that `body`, a JSON object without its last brace, makes at `offset`."""
        body = b'%b,"d":%d' % (body, durable)
        return b'%b,"crc":"%08x"}\n' % (body, crc32(body, crc32(b"%d" % offset, self._base)))

    def holds(self, line: bytes, offset: int) -> bool:
        """Whether `line`, without its newline, was made for `offset` of this file."""
        crc = crc32(memoryview(line)[:-TRAILER], crc32(b"%d" % offset, self._base))
        return line[-TRAILER:] == b',"crc":"%08x"}' % crc


def opened(line: bytes) -> bytes:
    """Return the body that `Seal.close` made a line of which `holds`."""
    return line[: line.rindex(b',"d":', 0, len(line) - TRAILER)]


def body_of(record: Record) -> bytes:
    """Return the record's JSON object without its last brace.

    Raises:
        ValueError: the record holds what JSON cannot carry.
    """
    return encoded(encode_record(record))


def encoded(members: dict[str, Any]) -> bytes:
    """Return a JSON object without its last brace."""
    try:
        return orjson.dumps(members)[:-1]
    except (TypeError, orjson.JSONEncodeError) as exc:
        raise ValueError(f"a record holds what JSON cannot carry: {exc}") from exc


def sealed(seal: Seal, bodies: Iterable[bytes], start: int, durable: int | None) -> list[bytes]:
    """Return the lines of `bodies` from offset `start` on; `durable` None stands for each line's own offset."""
    lines: list[bytes] = []
    for body in bodies:
        line = seal.close(body, start, start if durable is None else durable)
        lines.append(line)
        start += len(line)
    return lines


def follows(records: Sequence[Record], seq: int) -> None:
    """Check that `records` go on from `seq` without a gap.

    Raises:
        ValueError: they do not.
    """
    for expected, record in enumerate(records, seq):
        if record.seq != expected:
            raise ValueError(f"record {record.seq} cannot follow record {expected - 1}")


def encoded_size(record: Record) -> int:
    """Return how many bytes the record takes, its seal left out."""
    return len(body_of(record)) + 2
