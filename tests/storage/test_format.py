"""The log's format: what it looks like, which damage is seen, and what a newer program's log does."""

from pathlib import Path

import orjson
import pytest
from support.words import TURN, forget_mark, header, lines, loaded, made, opened, records, resealed, store_in

from acp_bridge.errors import StoreCorrupt, StoreTooNew, StoreUnsupported
from acp_bridge.session import Place, Sessions, SessionTitled, StepEnded, StepStarted, TurnEnded, TurnStarted
from acp_bridge.storage.format import Seal


async def test_a_log_is_json_lines_whose_last_member_is_the_checksum(tmp_path: Path) -> None:
    log = await made(tmp_path)
    first, *rest = (orjson.loads(line) for line in lines(log))
    assert [list(line)[-2:] for line in (first, *rest)] == [["d", "crc"]] * 3
    assert (first["format"], first["version"]) == ("acp-bridge/log", 1)
    assert [list(line)[:4] for line in rest] == [["type", "seq", "time", "data"]] * 2


async def test_d_is_a_records_own_offset_in_a_new_file_and_then_what_was_synced(tmp_path: Path) -> None:
    session = await store_in(tmp_path).create(header(), records(TURN))
    log = tmp_path / "s1" / "log.jsonl"
    size = log.stat().st_size
    await session.append(records([TurnStarted(turn=2), StepStarted(turn=2, step=1)], first=2))
    await session.close()
    offsets = [0]
    for line in lines(log):
        offsets.append(offsets[-1] + len(line))
    assert [orjson.loads(line)["d"] for line in lines(log)] == [*offsets[:3], size, size]


@pytest.mark.parametrize("with_mark", [True, False])
async def test_a_flipped_bit_in_any_durable_line_is_named_and_nothing_is_changed(
    tmp_path: Path, with_mark: bool
) -> None:
    log = await made(tmp_path, [*TURN, *TURN, *TURN])
    whole = log.read_bytes()
    if not with_mark:
        forget_mark(tmp_path)
    offset = 0
    for number, line in enumerate(lines(log)[: None if with_mark else -1], 1):
        damaged = bytearray(whole)
        damaged[offset + len(line) // 2] ^= 4
        log.write_bytes(damaged)
        with pytest.raises(StoreCorrupt) as refused:
            await loaded(tmp_path)
        assert (refused.value.line, refused.value.offset, refused.value.path) == (number, offset, str(log))
        assert log.read_bytes() == damaged
        offset += len(line)


async def test_a_log_cut_at_any_byte_above_d_reads_as_a_prefix(tmp_path: Path) -> None:
    log = await made(tmp_path, TURN)
    session = await opened(tmp_path)
    await session.append(records([StepStarted(turn=1, step=1), StepEnded(turn=1, step=1)], first=2))
    await session.close()
    whole, durable = log.read_bytes(), sum(map(len, lines(log)[:3]))
    for length in range(durable, len(whole)):
        log.write_bytes(whole[:length])
        forget_mark(tmp_path)
        found = await store_in(tmp_path).read("s1")
        assert len(found.records) == whole[:length].count(b"\n") - 1
        assert found.dropped_bytes == length - sum(map(len, lines(log)[: len(found.records) + 1]))


async def test_a_log_shorter_than_its_mark_is_corrupt(tmp_path: Path) -> None:
    log = await made(tmp_path)
    log.write_bytes(b"".join(lines(log)[:-1]))
    with pytest.raises(StoreCorrupt):
        await loaded(tmp_path)


async def test_whole_records_after_a_hole_above_d_are_dropped_and_below_d_are_proof_of_damage(tmp_path: Path) -> None:
    await made(tmp_path)
    session = await opened(tmp_path)
    await session.append(records([SessionTitled(title="one"), SessionTitled(title="two")], first=2))
    await session.close()
    log = tmp_path / "s1" / "log.jsonl"
    forget_mark(tmp_path)
    parts = lines(log)
    log.write_bytes(b"".join([*parts[:3], bytes(len(parts[3])), parts[4]]))
    assert len((await loaded(tmp_path)).records) == 2
    log.write_bytes(b"".join(parts))
    session = await opened(tmp_path)
    await session.append(records([SessionTitled(title="three")], first=4))
    await session.append(records([SessionTitled(title="four")], first=5))
    await session.close()
    forget_mark(tmp_path)
    parts = lines(log)
    log.write_bytes(b"".join([*parts[:3], bytes(sum(map(len, parts[3:6]))), parts[6]]))
    with pytest.raises(StoreCorrupt):
        await loaded(tmp_path)


@pytest.mark.parametrize("torn", [False, True])
async def test_a_record_proves_nothing_of_what_comes_after_its_own_beginning(tmp_path: Path, torn: bool) -> None:
    log = await made(tmp_path)
    forget_mark(tmp_path)
    members = orjson.loads(lines(log)[-1])
    seal, before = Seal("s1", orjson.loads(lines(log)[0])["gen"]), log.read_bytes()[: -len(lines(log)[-1])]
    hole = b"{torn\n" if torn else b""
    body = orjson.dumps({name: value for name, value in members.items() if name not in ("d", "crc")})[:-1]
    log.write_bytes(before + hole + seal.close(body, len(before + hole), 10**6))
    assert list((await loaded(tmp_path)).records) == records(TURN)[: 1 if torn else 2]


async def test_a_line_moved_to_another_place_or_file_does_not_hold(tmp_path: Path) -> None:
    log, other = await made(tmp_path), await made(tmp_path, session_id="s2")
    parts = lines(log)
    for changed in ([parts[0], parts[2], parts[1]], [parts[0], lines(other)[1], parts[2]]):
        log.write_bytes(b"".join(changed))
        with pytest.raises(StoreCorrupt):
            await loaded(tmp_path)


@pytest.mark.parametrize(("member", "value"), [("sessionId", "s2"), ("cwd", "/etc"), ("roots", ["/"])])
async def test_a_header_edited_by_hand_is_refused(tmp_path: Path, member: str, value: object) -> None:
    log = await made(tmp_path)
    first = orjson.loads(lines(log)[0])
    first["session"][member] = value
    log.write_bytes(b"".join([orjson.dumps(first) + b"\n", *lines(log)[1:]]))
    with pytest.raises(StoreCorrupt):
        await loaded(tmp_path)


async def test_a_folder_moved_to_another_sessions_name_is_refused(tmp_path: Path) -> None:
    log = await made(tmp_path)
    log.parent.rename(tmp_path / "s2")
    with pytest.raises(StoreCorrupt, match="'s1'"):
        await loaded(tmp_path, "s2")


async def test_a_newer_format_is_refused_before_its_shape_is_looked_at(tmp_path: Path) -> None:
    log = await made(tmp_path)
    log.write_bytes(b'{"format":"acp-bridge/log","version":2,"else":true}\n\x00\x01')
    for attempt in (loaded(tmp_path), store_in(tmp_path).read("s1"), store_in(tmp_path).verify("s1")):
        with pytest.raises(StoreTooNew, match="upgrade"):
            await attempt


@pytest.mark.parametrize(
    "first", [b"", b"\n", b"[]\n", b"nonsense\n", b'{"format":"x"}\n', b'{"format":1', b"\0" * 600]
)
async def test_a_first_line_that_is_none_is_corruption_and_never_a_crash(tmp_path: Path, first: bytes) -> None:
    log = await made(tmp_path)
    log.write_bytes(first)
    with pytest.raises(StoreCorrupt) as refused:
        await loaded(tmp_path)
    assert (refused.value.line, refused.value.offset) == (1, 0)


async def test_an_unknown_type_refuses_the_session_and_names_its_path(tmp_path: Path) -> None:
    log = await made(tmp_path)
    resealed(log, 1, {"type": "later/thing"})
    with pytest.raises(StoreUnsupported, match=r"log\.jsonl") as refused:
        await loaded(tmp_path)
    assert refused.value.path == str(log)


async def test_an_order_of_events_that_is_not_known_refuses_the_session_and_lets_go_of_it(tmp_path: Path) -> None:
    await made(tmp_path, [TurnEnded(turn=1, reason="completed")])
    sessions = Sessions(store_in(tmp_path), version="1")
    with pytest.raises(StoreUnsupported, match="in an order that this version does not know"):
        await sessions.take("s1", Place(cwd="/w", roots=("/w",)), barriers=())
    assert len((await loaded(tmp_path)).records) == 1  # its lock is free


async def test_an_unknown_type_that_may_be_skipped_is_and_survives_a_rewrite(tmp_path: Path) -> None:
    log = await made(tmp_path, [TurnStarted(turn=1), SessionTitled(title="t"), TurnEnded(turn=1, reason="completed")])
    resealed(log, 2, {"type": "later/thing", "ignorable": True, "data": {"kept": [1]}})
    with log.open("ab") as file:
        file.write(b"half a line")
    forget_mark(tmp_path)
    session = await opened(tmp_path)
    assert [r.seq for r in session.loaded.records] == [0, 2]
    await session.repair(records([StepEnded(turn=1, step=1)], first=3))
    await session.close()
    assert [r.seq for r in (await loaded(tmp_path)).records] == [0, 2, 3]
    kept = orjson.loads(lines(log)[2])
    assert (kept["type"], kept["ignorable"], kept["data"]) == ("later/thing", True, {"kept": [1]})


async def test_a_record_without_the_shape_of_its_type_is_unsupported(tmp_path: Path) -> None:
    log = await made(tmp_path)
    resealed(log, 1, {"data": {}})
    with pytest.raises(StoreUnsupported):
        await loaded(tmp_path)
