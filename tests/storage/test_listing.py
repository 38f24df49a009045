"""The listing's cache, damaged sessions, sweeping, verifying and salvaging."""

import os
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from support.words import TURN, forget_mark, header, lines, loaded, made, opened, records, store_in

from acp_bridge.errors import SessionInUse, SessionNotFound, StoreCorrupt
from acp_bridge.session import SessionFilter, SessionSalvaged, SessionTitled, TurnStarted
from acp_bridge.storage import JsonlStore
from acp_bridge.storage.disk import OsDisk
from acp_bridge.storage.format import Seal

WEEK_MS = 7 * 24 * 3600 * 1000


class Reading(OsDisk):
    """The real disk, which notes the logs that it opens, and where it reads."""

    def __init__(self) -> None:
        self.logs: list[str] = []
        self.offsets: list[int] = []

    def read(self, fd: int, size: int, offset: int) -> bytes:
        self.offsets.append(offset)
        return super().read(fd, size, offset)

    def open(self, path: str, flags: int) -> int:
        if path.endswith("log.jsonl"):
            self.logs.append(path)
        return super().open(path, flags)


async def titles(root: Path, disk: OsDisk | None = None) -> list[str]:
    page = await store_in(root, disk).list(SessionFilter())
    return [line.title for line in page.sessions]


async def test_an_unchanged_log_is_not_read_again_by_the_next_process(tmp_path: Path) -> None:
    for number in range(3):
        await made(tmp_path, [*TURN, SessionTitled(title=f"t{number}")], session_id=f"s{number}")
    first, second = Reading(), Reading()
    assert await titles(tmp_path, first) == await titles(tmp_path, second)
    assert (len(first.logs), second.logs) == (3, [])


@pytest.mark.parametrize("index", [b"", b"{}", b"\0" * 100, b"acp-bridge/index 1 00000000\n{}", b"[" * 2000])
async def test_a_cache_that_is_not_ours_costs_time_and_nothing_else(tmp_path: Path, index: bytes) -> None:
    await made(tmp_path, [*TURN, SessionTitled(title="t")])
    (tmp_path / "index.cache").write_bytes(index)
    assert await titles(tmp_path) == ["t"]


async def test_a_log_that_grew_is_read_from_where_it_ended_before(tmp_path: Path) -> None:
    log = await made(tmp_path, [*TURN, SessionTitled(title="x" * 3_000_000), SessionTitled(title="old")])
    assert len(await titles(tmp_path)) == 1
    before = log.stat().st_size
    session = await opened(tmp_path)
    await session.append(records([SessionTitled(title="new"), TurnStarted(turn=2)], first=4))
    await session.close()
    disk = Reading()
    [line] = (await store_in(tmp_path, disk).list(SessionFilter())).sessions
    assert (line.title, line.turns, line.state, line.updated) == ("new", 2, "interrupted", 2_005)
    last = before - len(lines(log)[4])
    assert [offset for offset in disk.offsets if offset not in (0, last, before)] == []
    [anew] = (await _without_cache(tmp_path).list(SessionFilter())).sessions
    assert anew == line


async def test_a_torn_end_and_a_record_behind_damage_are_seen_when_a_log_has_grown(tmp_path: Path) -> None:
    log = await made(tmp_path, [*TURN, SessionTitled(title="t")])
    await titles(tmp_path)
    whole = log.read_bytes()
    for rest, state in ((b"torn", "idle"), (b"torn\n", "idle")):
        log.write_bytes(whole + rest)
        [line] = (await store_in(tmp_path).list(SessionFilter())).sessions
        assert (line.title, line.state) == ("t", state)
    gen = orjson.loads(lines(log)[0])["gen"]
    at = len(whole) + len(b"torn\n")
    later = Seal("s1", gen).close(
        orjson.dumps({"type": "turn/start", "seq": 4, "time": 1, "data": {"turn": 2}})[:-1], at, at
    )
    log.write_bytes(whole + b"torn\n" + later)  # made when the torn line was known durable: that is damage
    [line] = (await store_in(tmp_path).list(SessionFilter())).sessions
    assert line.state == "damaged"


async def test_a_log_that_lost_its_end_and_grew_again_is_read_anew(tmp_path: Path) -> None:
    log = await made(tmp_path, [*TURN, SessionTitled(title="lost")])
    await titles(tmp_path)
    os.truncate(log, log.stat().st_size - len(lines(log)[-1]))
    forget_mark(tmp_path)  # as a power cut may do both
    session = await opened(tmp_path)
    await session.append(records([SessionTitled(title="x" * 900), TurnStarted(turn=2)], first=2))
    await session.close()
    [line] = (await store_in(tmp_path).list(SessionFilter())).sessions
    assert (line.title, line.turns) == ("x" * 900, 2)


async def test_a_log_in_a_recycled_inode_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    log = await made(tmp_path, [*TURN, *TURN, SessionTitled(title="old")])
    await titles(tmp_path)
    kept = log.stat()
    other = await made(tmp_path / "other", [SessionTitled(title="new"), *TURN, SessionTitled(title="x" * 900)])
    log.write_bytes(other.read_bytes())  # the same number, another file
    assert log.stat().st_ino == kept.st_ino
    [line] = (await store_in(tmp_path).list(SessionFilter())).sessions
    assert (line.title, line.turns) == ("x" * 900, 1)


async def test_a_cache_that_does_not_have_its_checksum_is_not_believed(tmp_path: Path) -> None:
    await made(tmp_path, [*TURN, SessionTitled(title="true")])
    assert await titles(tmp_path) == ["true"]
    cache = tmp_path / "index.cache"
    cache.write_bytes(cache.read_bytes().replace(b'"true"', b'"fake"'))
    assert await titles(tmp_path) == ["true"]


def _without_cache(root: Path) -> JsonlStore:
    (root / "index.cache").unlink()
    return store_in(root)


async def test_a_log_that_grew_or_was_replaced_is_read_again(tmp_path: Path) -> None:
    log = await made(tmp_path, [*TURN, SessionTitled(title="old")])
    store = store_in(tmp_path)
    assert await titles(tmp_path) == ["old"]
    session = await store.hold("s1")
    await session.append(records([SessionTitled(title="new")], first=3))
    await session.close()
    assert await titles(tmp_path) == ["new"]
    other = await made(tmp_path / "other", [*TURN, SessionTitled(title="odd"), SessionTitled(title="odd")])
    other.replace(log)
    assert await titles(tmp_path) == ["odd"]


async def test_a_damaged_session_is_listed_as_such_and_hides_no_other(tmp_path: Path) -> None:
    for name in ("s1", "s2", "s3"):
        await made(tmp_path, [*TURN, *TURN], session_id=name)
    whole = (tmp_path / "s2/log.jsonl").read_bytes()
    (tmp_path / "s2/log.jsonl").write_bytes(whole.replace(b'"turn":1', b'"turn":7', 1))
    (tmp_path / "s3/log.jsonl").write_bytes(b"nonsense")
    page = await store_in(tmp_path).list(SessionFilter(with_empty=True))
    assert {line.session_id: line.state for line in page.sessions} == {"s1": "idle", "s2": "damaged"}
    assert page.damaged == ("s3",)


async def test_leftovers_and_sessions_empty_for_a_week_are_swept_and_nothing_else(tmp_path: Path) -> None:
    await made(tmp_path, [], session_id="empty")
    await made(tmp_path, TURN, session_id="full")
    await made(tmp_path, [SessionTitled(title="t")], session_id="held")
    for name in ("tmp-a", "trash-b", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "trash-b" / "log.jsonl").touch()
    now = [1_000 + WEEK_MS - 1]
    store = JsonlStore(tmp_path, clock=lambda: now[0], patience_s=0.05)
    session = await JsonlStore(tmp_path).hold("held")
    assert await store.sweep() == 3
    now[0] = 2_000 + WEEK_MS + 1
    assert await store.sweep() == 1
    await session.close()
    assert await store.sweep() == 1
    names = set(os.listdir(tmp_path))
    assert names >= {"full", "empty.lock", "full.lock", "held.lock"}
    assert not names & {"empty", "held", "tmp-a", "trash-b", "c"}


async def test_what_was_kept_of_a_log_is_not_swept(tmp_path: Path) -> None:
    for name in ("cut-0.jsonl", "unsaved-1.jsonl"):
        (tmp_path / name.partition("-")[0]).mkdir()
        (tmp_path / name.partition("-")[0] / name).touch()
    assert await store_in(tmp_path).sweep() == 0
    assert set(os.listdir(tmp_path)) >= {"cut", "unsaved"}


class Meanwhile(OsDisk):
    """The real disk; whenever a lock is taken, somebody else has just done something."""

    def __init__(self, do: Callable[[], object]) -> None:
        self.do = do

    def try_lock(self, fd: int) -> bool:
        self.do()
        return super().try_lock(fd)


async def test_what_was_to_be_swept_is_looked_at_again_under_its_lock(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    assert await store_in(tmp_path, Meanwhile((tmp_path / "c/log.jsonl").touch)).sweep() == 0
    assert (tmp_path / "c/log.jsonl").exists()
    log = await made(tmp_path, [SessionTitled(title="t")])
    with_turn = (await made(tmp_path / ".other", TURN)).read_bytes()
    store = JsonlStore(tmp_path, disk=Meanwhile(lambda: log.write_bytes(with_turn)), clock=lambda: 2 * WEEK_MS)
    assert await store.sweep() == 0
    assert log.exists()


async def test_a_session_that_is_being_made_is_not_swept(tmp_path: Path) -> None:
    await made(tmp_path)
    session = await opened(tmp_path)
    (tmp_path / "tmp-s1").mkdir()
    assert await store_in(tmp_path).sweep() == 0
    await session.close()
    assert await store_in(tmp_path).sweep() == 1


async def test_verifying_tells_damage_from_a_crashs_rest_and_changes_nothing(tmp_path: Path) -> None:
    log = await made(tmp_path, [*TURN, *TURN])
    whole = log.read_bytes()
    good = await store_in(tmp_path).verify("s1")
    assert (good.records, good.size, good.dropped_bytes, good.damage) == (4, len(whole), 0, None)
    log.write_bytes(whole + b"torn")
    assert (await store_in(tmp_path).verify("s1")).dropped_bytes == 4
    log.write_bytes(whole.replace(b'"turn":1', b'"turn":7', 1))
    found = await store_in(tmp_path).verify("s1")
    assert found.damage is not None
    assert (found.records, found.damage.line, found.damage.offset) == (0, 2, len(lines(log)[0]))
    with pytest.raises(SessionNotFound):
        await store_in(tmp_path).verify("s2")


async def test_an_explicit_salvage_keeps_what_is_before_the_damage_and_the_damaged_file_whole(tmp_path: Path) -> None:
    log = await made(tmp_path, [*TURN, TurnStarted(turn=2), *TURN])
    damaged = log.read_bytes().replace(b'"turn":2', b'"turn":7')
    log.write_bytes(damaged)
    with pytest.raises(StoreCorrupt, match="--salvage"):
        await loaded(tmp_path)
    store = JsonlStore(tmp_path, clock=lambda: 77)
    told = await store.salvage("s1")
    assert told.damage is not None
    assert b"".join(lines(Path(told.kept_file))) == damaged
    kept = (await loaded(tmp_path)).records
    lost = len(damaged) - told.damage.offset
    last = SessionSalvaged(lost_bytes=lost, first_lost_seq=2, kept_file=Path(told.kept_file).name)
    assert [r.event for r in kept] == [*TURN, last]
    assert (kept[-1].time, kept[-1].synthetic) == (77, True)
    before = log.read_bytes()
    assert (await store.salvage("s1")).damage is None
    assert log.read_bytes() == before


async def test_an_explicit_salvage_needs_the_lock_and_a_whole_first_line(tmp_path: Path) -> None:
    log = await made(tmp_path)
    session = await opened(tmp_path)
    with pytest.raises(SessionInUse):
        await store_in(tmp_path).salvage("s1")
    await session.close()
    log.write_bytes(b"{}\n" + log.read_bytes())
    with pytest.raises(StoreCorrupt):
        await store_in(tmp_path).salvage("s1")


async def test_a_content_file_is_trusted_only_if_this_process_synced_it(tmp_path: Path) -> None:
    session = await store_in(tmp_path).create(header(), [])
    name = await session.put_content(b"picture")
    path = tmp_path / "s1" / name
    inode = path.stat().st_ino
    await session.put_content(b"picture")
    assert path.stat().st_ino == inode
    await session.close()
    path.write_bytes(b"pict")
    session = await opened(tmp_path)
    assert await session.get_content(name) is None
    await session.put_content(b"picture")
    assert path.stat().st_ino != inode
    assert await session.get_content(name) == b"picture"
    await session.close()


async def test_every_line_is_one_json_object_for_other_tools(tmp_path: Path) -> None:
    log = await made(tmp_path, [SessionTitled(title="a\nb\u2028c\r")])
    assert all(isinstance(orjson.loads(line), dict) for line in lines(log))
    assert log.read_bytes().count(b"\n") == 2
