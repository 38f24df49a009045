"""Reading a log without its lock, in pieces: what it costs, and what a reader sees of what happens in between."""

from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest
from support.words import TURN, header, lines, made, records, store_in

from acp_bridge.errors import StoreCorrupt, StoreUnsupported
from acp_bridge.session import Loaded, SessionTitled, Store
from acp_bridge.storage.disk import OsDisk
from acp_bridge.storage.format import Seal, seal_all

TITLES = [SessionTitled(title=f"{number} " + "x" * 1_000) for number in range(3_000)]


class Metered(OsDisk):
    """The real disk, which counts the bytes that are read."""

    def __init__(self) -> None:
        self.taken = 0

    def read(self, fd: int, size: int, offset: int) -> bytes:
        data = super().read(fd, size, offset)
        self.taken += len(data)
        return data


async def pieces(store: Store, limit: int) -> AsyncIterator[Loaded]:
    seq, more = 0, True
    while more:
        loaded = await store.read("s1", from_seq=seq, limit=limit)
        yield loaded
        seq, more = loaded.next_seq, loaded.has_more


def append_line(log: Path, members: dict[str, object]) -> None:
    whole = log.read_bytes()
    seal = Seal("s1", orjson.loads(whole.split(b"\n")[0])["gen"])
    log.write_bytes(whole + b"".join(seal_all(seal, [orjson.dumps(members)[:-1]], len(whole), len(whole))))


async def test_a_long_log_is_read_once_however_small_the_pieces(tmp_path: Path) -> None:
    log = await made(tmp_path, TITLES)
    disk = Metered()
    seen = [record async for piece in pieces(store_in(tmp_path, disk), 100) for record in piece.records]
    assert seen == records(TITLES)
    assert disk.taken < 3 * log.stat().st_size  # 30 pieces, each from the first record, would be 15 times as much


async def test_the_header_of_a_long_log_takes_one_short_read(tmp_path: Path) -> None:
    await made(tmp_path, TITLES)
    disk = Metered()
    assert (await store_in(tmp_path, disk).read("s1", limit=0)).header == header()
    assert disk.taken < 100_000


async def test_only_the_last_piece_tells_what_a_crash_left(tmp_path: Path) -> None:
    log = await made(tmp_path)
    log.write_bytes(log.read_bytes() + b'{"type":"turn/st')
    told = [(len(piece.records), piece.dropped_bytes, piece.has_more) async for piece in pieces(store_in(tmp_path), 1)]
    assert told == [(1, 0, True), (1, 16, False)]


async def test_damage_is_refused_when_a_reader_comes_to_it_and_not_before(tmp_path: Path) -> None:
    log = await made(tmp_path, [*TURN, *TURN])
    damaged = lines(log)
    damaged[3] = damaged[3].replace(b'"time":', b'"tame":')
    log.write_bytes(b"".join(damaged))
    store = store_in(tmp_path)
    piece = await store.read("s1", limit=1)
    assert (piece.records, piece.next_seq, piece.has_more) == (tuple(records(TURN[:1])), 1, True)
    with pytest.raises(StoreCorrupt, match="line 4"):
        await store.read("s1", from_seq=piece.next_seq, limit=2)


async def test_a_reader_goes_on_rightly_in_a_log_that_was_rewritten_meanwhile(tmp_path: Path) -> None:
    log = await made(tmp_path, [*TURN, *TURN])
    log.write_bytes(log.read_bytes() + b'{"type":"turn/st')
    store = store_in(tmp_path)
    piece = await store.read("s1", limit=2)
    inode = log.stat().st_ino
    session = await store.hold("s1")
    await session.repair(records(TITLES[:1], first=4))
    await session.close()
    assert log.stat().st_ino != inode
    rest = await store.read("s1", from_seq=piece.next_seq, limit=9)
    assert [*piece.records, *rest.records] == [*records([*TURN, *TURN]), *records(TITLES[:1], first=4)]
    assert (rest.next_seq, rest.has_more, rest.dropped_bytes) == (5, False, 0)


async def test_records_that_may_be_passed_over_count_in_no_piece(tmp_path: Path) -> None:
    log = await made(tmp_path)
    for seq in (2, 3, 4):
        append_line(log, {"type": "later/thing", "seq": seq, "time": 1, "data": {}, "ignorable": True})
    told = [(len(piece.records), piece.next_seq, piece.has_more) async for piece in pieces(store_in(tmp_path), 2)]
    assert told == [(2, 5, False)]


async def test_a_type_that_is_not_known_is_refused_by_the_piece_that_has_it(tmp_path: Path) -> None:
    log = await made(tmp_path)
    append_line(log, {"type": "later/thing", "seq": 2, "time": 1, "data": {}})
    store = store_in(tmp_path)
    assert (await store.read("s1", limit=1)).has_more
    for from_seq in (1, 9):
        with pytest.raises(StoreUnsupported):
            await store.read("s1", from_seq=from_seq, limit=9)
