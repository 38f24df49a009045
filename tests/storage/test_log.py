"""Appending, poison, salvage, and a log that somebody else touched."""

import errno
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from support.words import TURN, Counting, forget_mark, header, lines, loaded, made, opened, records, resealed, store_in

from acp_bridge.errors import StoreCorrupt, StorePoisoned, StoreReplaced
from acp_bridge.session import SessionTitled, TurnStarted
from acp_bridge.storage.lock import MARK_SIZE, Mark, decode_mark

MORE = records([TurnStarted(turn=2), SessionTitled(title="x" * 5_000)], first=2)


async def test_a_batch_is_one_write_and_one_sync(tmp_path: Path) -> None:
    disk = Counting()
    session = await store_in(tmp_path, disk).create(header(), records(TURN))
    disk.calls.clear()
    await session.append(MORE)
    await session.append([])
    await session.repair([])
    assert disk.calls == ["write", "sync"]
    await session.close()


async def test_a_hold_without_a_mark_makes_the_names_durable_at_its_first_append_and_no_later_one(
    tmp_path: Path,
) -> None:
    await made(tmp_path)
    forget_mark(tmp_path)
    disk = Counting()
    session = await store_in(tmp_path, disk).hold("s1")
    assert disk.calls == []
    await session.append(MORE[:1])
    assert disk.calls == ["sync_folder", "sync_folder", "write", "sync"]
    await session.append(MORE[1:])
    assert disk.calls[4:] == ["write", "sync"]
    await session.close()
    disk.calls.clear()
    session = await store_in(tmp_path, disk).hold("s1")
    await session.append(records(TURN, first=4))
    assert disk.calls == ["write", "sync"]  # the mark says that the names were synced before
    await session.close()


async def test_only_a_mark_of_all_of_the_file_confirms_what_is_loaded(tmp_path: Path) -> None:
    log = await made(tmp_path)
    assert not (await loaded(tmp_path)).unconfirmed
    size, mark = log.stat().st_size, decode_mark((tmp_path / "s1.lock").read_bytes())
    assert mark is not None
    for other in (
        replace(mark, synced=size - 1, attempted=size - 1),
        replace(mark, synced=size - 1),
        replace(mark, inode=mark.inode + 1),
        replace(mark, gen="0" * 16),
    ):
        with (tmp_path / "s1.lock").open("r+b") as lock:
            lock.write(other.encode())
        assert (await loaded(tmp_path)).unconfirmed
    forget_mark(tmp_path)
    assert (await loaded(tmp_path)).unconfirmed


@pytest.mark.parametrize("call", ["write", "sync"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
async def test_the_first_failure_poisons_and_only_a_salvage_heals(tmp_path: Path, call: str, code: int) -> None:
    disk = Counting()
    session = await store_in(tmp_path, disk).create(header(), records(TURN))
    disk.failures[call] = OSError(code, "failed")
    with pytest.raises(StorePoisoned):
        await session.append(MORE)
    disk.failures.clear()
    disk.calls.clear()
    for _ in range(2):
        with pytest.raises(StorePoisoned):
            await session.append(MORE)
    assert disk.calls == []  # nothing is tried again on that file
    inode = (tmp_path / "s1/log.jsonl").stat().st_ino
    await session.salvage(MORE)
    assert (tmp_path / "s1/log.jsonl").stat().st_ino != inode
    await session.append(records(TURN, first=4))
    await session.close()
    assert [r.seq for r in (await loaded(tmp_path)).records] == list(range(6))


@pytest.mark.parametrize("call", ["write", "sync", "sync_folder", "rename"])
async def test_a_salvage_that_fails_anywhere_can_be_tried_again(tmp_path: Path, call: str) -> None:
    disk = Counting()
    session = await store_in(tmp_path, disk).create(header(), records(TURN))
    disk.failures["sync"] = OSError(errno.EIO, "failed")
    with pytest.raises(StorePoisoned):
        await session.append(MORE)
    disk.failures = {call: OSError(errno.ENOSPC, "failed")}
    for _ in range(2):
        with pytest.raises(StorePoisoned):
            await session.salvage(MORE)
        with pytest.raises(StorePoisoned):
            await session.append(MORE)
    disk.failures.clear()
    await session.salvage(MORE)
    await session.close()
    assert list((await loaded(tmp_path)).records) == [*records(TURN), *MORE]


async def test_a_salvage_of_records_that_the_file_had_before_is_an_error_and_loses_none(tmp_path: Path) -> None:
    await made(tmp_path)
    disk = Counting()
    session = await store_in(tmp_path, disk).hold("s1")
    disk.failures["write"] = OSError(errno.ENOSPC, "full")
    with pytest.raises(StorePoisoned):
        await session.append(MORE)
    disk.failures.clear()
    with pytest.raises(ValueError, match="cannot follow"):
        await session.salvage(records([SessionTitled(title="not the file's"), *(r.event for r in MORE)], first=1))
    await session.salvage(MORE)
    await session.close()
    assert list((await loaded(tmp_path)).records) == [*records(TURN), *MORE]


async def test_poison_is_remembered_by_the_next_process_which_rewrites_the_log(tmp_path: Path) -> None:
    disk = Counting()
    session = await store_in(tmp_path, disk).create(header(), records(TURN))
    disk.failures["sync"] = OSError(errno.EIO, "failed")
    with pytest.raises(StorePoisoned):
        await session.append(MORE)
    await session.close()
    log = tmp_path / "s1/log.jsonl"
    inode = log.stat().st_ino
    again = await opened(tmp_path)
    assert again.loaded.may_not_last
    assert len(again.loaded.records) == 4
    await again.repair([])
    assert log.stat().st_ino != inode
    await again.close()
    healed = await loaded(tmp_path)
    assert (len(healed.records), healed.may_not_last) == (4, False)


async def test_a_torn_tail_is_cut_by_a_rewrite_that_keeps_the_old_file(tmp_path: Path) -> None:
    log = await made(tmp_path)
    whole = log.read_bytes() + b'{"type":"turn/st'
    log.write_bytes(whole)
    session = await opened(tmp_path)
    assert (session.loaded.dropped_bytes, log.read_bytes()) == (16, whole)  # loading changes nothing
    await session.append(MORE)
    await session.close()
    assert len((await loaded(tmp_path)).records) == 4
    [copy] = log.parent.glob("cut-*.jsonl")
    assert copy.read_bytes() == whole


async def test_repairing_twice_changes_nothing_more(tmp_path: Path) -> None:
    log = await made(tmp_path)
    with log.open("ab") as file:
        file.write(b"torn")
    seen: list[bytes] = []
    for _ in range(3):
        session = await opened(tmp_path)
        await session.repair([])
        await session.close()
        seen.append(log.read_bytes())
    assert seen == [seen[0]] * 3
    assert len(list(log.parent.iterdir())) == 2


def _rename(log: Path) -> None:
    log.rename(log.with_name("elsewhere"))


def _replace(log: Path) -> None:
    copy = log.with_name("copy")
    copy.write_bytes(log.read_bytes())
    copy.replace(log)


def _append(log: Path) -> None:
    with log.open("ab") as file:
        file.write(b"{}\n")


def _truncate(log: Path) -> None:
    os.truncate(log, 100)


@pytest.mark.parametrize("touch", [_rename, Path.unlink, _replace, _append, _truncate])
@pytest.mark.parametrize("poisoned", [False, True])
async def test_a_log_that_somebody_touched_is_left_alone_and_the_unsaved_is_kept_beside_it(
    tmp_path: Path, touch: object, poisoned: bool
) -> None:
    disk = Counting()
    store = store_in(tmp_path, disk)
    session = await store.create(header(), records(TURN))
    log = tmp_path / "s1/log.jsonl"
    if poisoned:
        disk.failures["write"] = OSError(errno.ENOSPC, "full")
        with pytest.raises(StorePoisoned):
            await session.append(MORE)
        disk.failures.clear()
    assert callable(touch)
    touch(log)
    left = log.read_bytes() if log.exists() else None
    with pytest.raises(StoreReplaced, match="unsaved-"):
        await (session.salvage(MORE) if poisoned else session.append(MORE))
    with pytest.raises(StoreReplaced):
        await session.append(MORE)
    assert (log.read_bytes() if log.exists() else None) == left
    [unsaved] = log.parent.glob("unsaved-*.jsonl")
    assert [orjson.loads(line)["seq"] for line in lines(unsaved)] == [2, 3]
    await session.close()
    (tmp_path / "s1.lock").touch()
    store_in(tmp_path)._held.clear()


def _gone(path: Path) -> None:
    path.rename(path.with_name("moved"))


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize(
    ("gone", "kept_in"), [("home/sessions/s1", "home/sessions"), ("home/sessions", "home"), ("home", "temporary")]
)
async def test_what_a_log_whose_folder_is_gone_cannot_take_is_kept_elsewhere_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str, kept_in: str, fresh: bool
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    root = tmp_path / "home/sessions"
    await made(root)
    disk = Counting()
    session = await store_in(root, disk).hold("s1")
    if not fresh:
        await session.append(MORE[:1])
    _gone(tmp_path / gone)
    disk.calls.clear()
    with pytest.raises(StoreReplaced, match=f"is in {tmp_path / kept_in}/unsaved-s1-"):
        await session.append(MORE[1:] if not fresh else MORE)
    [unsaved] = (tmp_path / kept_in).glob("unsaved-s1-*.jsonl")
    assert [orjson.loads(line)["seq"] for line in lines(unsaved)] == ([3] if not fresh else [2, 3])
    assert unsaved.stat().st_mode & 0o777 == 0o600
    assert disk.calls == [
        "write",
        "sync",
        "sync_folder",
    ]  # it is all that there is of them: on the medium, with its name
    await session.close()


async def test_what_cannot_be_kept_anywhere_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    session = await store_in(tmp_path / "home/sessions").create(header(), records(TURN))
    _gone(tmp_path / "home")
    with pytest.raises(StoreReplaced, match="2 events were not saved, nor kept"):
        await session.append(MORE)
    await session.close()


async def test_a_picture_for_a_log_whose_folder_is_gone_does_not_hide_that(tmp_path: Path) -> None:
    session = await store_in(tmp_path / "sessions").create(header(), records(TURN))
    folder = tmp_path / "sessions/s1"
    _gone(folder)
    with pytest.raises(StoreReplaced):
        await session.put_content(b"picture")
    folder.with_name("moved").rename(folder)
    with pytest.raises(
        StoreReplaced, match="unsaved-"
    ):  # the picture is not there: nothing may be logged that needs it
        await session.append(MORE)
    await session.close()


async def test_a_replaced_session_can_be_loaded_again_in_this_process(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    session = await store.create(header(), records(TURN))
    _replace(tmp_path / "s1/log.jsonl")
    with pytest.raises(StoreReplaced):
        await session.append(MORE)
    again = await store.hold("s1")
    assert len(again.loaded.records) == 2
    await again.append(MORE)
    await again.close()


async def test_a_mark_of_another_file_is_no_mark(tmp_path: Path) -> None:
    log = await made(tmp_path, [*TURN, *TURN])
    older = tmp_path / "older"
    shorter = await made(tmp_path, session_id="s2")
    shorter.rename(older)
    backup = log.read_bytes()
    log.unlink()
    log.write_bytes(backup)  # put back from a copy: the bytes are the same, the file is another
    assert len((await loaded(tmp_path)).records) == 4


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * MARK_SIZE, b"{}".ljust(MARK_SIZE), b"[1]" + b" " * MARK_SIZE, Mark(1, "g", 2, 3).encode()[:-9]],
)
def test_a_torn_mark_is_no_mark(data: bytes) -> None:
    assert decode_mark(data) is None


def test_a_mark_has_one_size_and_survives_its_encoding() -> None:
    for mark in (Mark(1, "0" * 16, 0, 0), Mark(2**64 - 1, "f" * 16, 10**18, 10**18)):
        assert len(mark.encode()) == MARK_SIZE
        assert decode_mark(mark.encode()) == mark


@pytest.mark.parametrize("in_part", [False, True])
async def test_a_mark_that_cannot_be_written_before_the_sync_fails_the_append(tmp_path: Path, in_part: bool) -> None:
    class NoMark(Counting):
        def write_at(self, fd: int, data: bytes, offset: int) -> int:
            if offset == 0 and self.failures:
                if in_part:
                    return super().write_at(fd, data[:20], offset)
                raise OSError(errno.EIO, "failed")
            return super().write_at(fd, data, offset)

    disk = NoMark()
    session = await store_in(tmp_path, disk).create(header(), records(TURN))
    disk.failures["mark"] = OSError()
    with pytest.raises(StorePoisoned):
        await session.append(MORE)
    assert len((tmp_path / "s1/log.jsonl").read_bytes().splitlines()) == 3
    await session.close()


async def test_forgetting_the_mark_loses_no_record(tmp_path: Path) -> None:
    await made(tmp_path)
    forget_mark(tmp_path)
    assert len((await loaded(tmp_path)).records) == 2


@pytest.mark.parametrize(("code", "heals"), [(errno.EMFILE, True), (errno.EIO, False)])
async def test_a_folder_whose_sync_failed_is_not_synced_again_to_seem_well(
    tmp_path: Path, code: int, heals: bool
) -> None:
    await made(tmp_path)
    forget_mark(tmp_path)
    disk = Counting()
    session = await store_in(tmp_path, disk).hold("s1")
    disk.failures["sync_folder"] = OSError(code, "failed")
    with pytest.raises(StorePoisoned):
        await session.append(MORE)
    disk.failures.clear()
    disk.calls.clear()
    if heals:
        await session.salvage(MORE)
    else:
        with pytest.raises(StorePoisoned):
            await session.salvage(MORE)
        assert disk.calls == []
    await session.close()


async def test_a_salvage_does_not_write_again_what_an_append_has_made_durable(tmp_path: Path) -> None:
    await made(tmp_path)
    forget_mark(tmp_path)  # the last record is not known durable, and kept as it was read
    disk = Counting()
    session = await store_in(tmp_path, disk).hold("s1")
    await session.append(MORE[:1])
    disk.failures["write"] = OSError(errno.ENOSPC, "full")
    with pytest.raises(StorePoisoned):
        await session.append(MORE[1:])
    disk.failures.clear()
    await session.salvage(MORE[1:])
    await session.close()
    assert list((await loaded(tmp_path)).records) == [*records(TURN), *MORE]


async def test_a_salvage_does_not_write_again_what_a_repair_has_rewritten(tmp_path: Path) -> None:
    log = await made(tmp_path)
    with log.open("ab") as file:
        file.write(b"torn")
    forget_mark(tmp_path)  # the last record is not known durable, and kept as it was read
    disk = Counting()
    session = await store_in(tmp_path, disk).hold("s1")
    await session.repair([])
    disk.failures["write"] = OSError(errno.ENOSPC, "full")
    with pytest.raises(StorePoisoned):
        await session.append(MORE)
    disk.failures.clear()
    await session.salvage(MORE)
    await session.close()
    assert list((await loaded(tmp_path)).records) == [*records(TURN), *MORE]


async def test_a_mark_that_cannot_be_confirmed_costs_nothing_but_the_next_openers_care(tmp_path: Path) -> None:
    class HalfMark(Counting):
        marks = 0

        def write_at(self, fd: int, data: bytes, offset: int) -> int:
            self.marks += offset == 0
            if offset == 0 and self.marks > 2:  # that of the making, that before the append, and then no more
                raise OSError(errno.EIO, "failed")
            return super().write_at(fd, data, offset)

    session = await store_in(tmp_path, HalfMark()).create(header(), records(TURN))
    await session.append(MORE)
    await session.close()
    again = await loaded(tmp_path)
    assert (list(again.records), again.may_not_last) == ([*records(TURN), *MORE], True)


async def test_a_foreign_append_beside_a_failed_write_is_never_rewritten_over(tmp_path: Path) -> None:
    log = tmp_path / "s1/log.jsonl"

    class Beside(Counting):
        def write(self, fd: int, data: memoryview) -> int:
            if self.failures:
                with log.open("ab") as file:
                    file.write(b"#" * (len(data) + 1))
            return super().write(fd, data)

    disk = Beside()
    session = await store_in(tmp_path, disk).create(header(), records(TURN))
    disk.failures["write"] = OSError(errno.ENOSPC, "full")
    with pytest.raises(StorePoisoned):
        await session.append(MORE)
    disk.failures.clear()
    theirs = log.read_bytes()
    with pytest.raises(StoreReplaced):
        await session.salvage(MORE)
    assert log.read_bytes() == theirs


async def test_what_somebody_appends_between_the_look_and_the_write_is_seen_and_the_unsaved_kept(
    tmp_path: Path,
) -> None:
    log = tmp_path / "s1/log.jsonl"

    class Beside(Counting):
        def write(self, fd: int, data: memoryview) -> int:
            if log.exists():
                _append(log)
            return super().write(fd, data)

    session = await store_in(tmp_path, Beside()).create(header(), records(TURN))
    with pytest.raises(StoreReplaced, match="unsaved-"):
        await session.append(MORE)
    [unsaved] = log.parent.glob("unsaved-*.jsonl")
    assert [orjson.loads(line)["seq"] for line in lines(unsaved)] == [2, 3]


@pytest.mark.parametrize("touch", [_rename, _replace, _append, _truncate])
async def test_a_log_that_somebody_touches_while_its_successor_is_made_is_left_alone(
    tmp_path: Path, touch: Callable[[Path], None]
) -> None:
    log = await made(tmp_path)
    with log.open("ab") as file:
        file.write(b"torn")
    left: list[bytes | None] = []

    class Beside(Counting):
        def sync(self, fd: int) -> None:
            super().sync(fd)
            if log.with_name("log.jsonl.new").exists() and not left:
                touch(log)
                left.append(log.read_bytes() if log.exists() else None)

    session = await store_in(tmp_path, Beside()).hold("s1")
    with pytest.raises(StoreReplaced, match="unsaved-"):
        await session.append(MORE)
    assert [log.read_bytes() if log.exists() else None] == left


async def test_a_gap_in_a_log_whose_checksums_hold_is_corruption(tmp_path: Path) -> None:
    log = await made(tmp_path, [*TURN, *TURN])
    resealed(log, 3, {"seq": 7})
    with pytest.raises(StoreCorrupt, match="record 7 stands where 2 should"):
        await loaded(tmp_path)


async def test_a_cut_log_has_a_durable_name_of_its_own_before_the_new_one_takes_its_place(tmp_path: Path) -> None:
    log = await made(tmp_path)
    with log.open("ab") as file:
        file.write(b"torn")
    disk = Counting()
    session = await store_in(tmp_path, disk).hold("s1")
    await session.append(MORE)
    await session.close()
    at = disk.calls.index("rename")
    assert disk.calls[at - 2 : at + 2] == ["sync", "sync_folder", "rename", "sync_folder"]


async def test_a_rewrite_that_fails_leaves_no_descriptor_open(tmp_path: Path) -> None:
    class Open(Counting):
        def __init__(self) -> None:
            super().__init__()
            self.fds = set[int]()

        def open(self, path: str, flags: int) -> int:
            fd = super().open(path, flags)
            self.fds.add(fd)
            return fd

        def close(self, fd: int) -> None:
            super().close(fd)
            self.fds.discard(fd)

    disk = Open()
    session = await store_in(tmp_path, disk).create(header(), records(TURN))
    disk.failures["write"] = OSError(errno.ENOSPC, "full")
    with pytest.raises(StorePoisoned):
        await session.append(MORE)
    before = set(disk.fds)
    for call in ("sync", "rename"):
        disk.failures = {call: OSError(errno.EIO, "failed")}
        with pytest.raises(StorePoisoned):
            await session.salvage(MORE)
        assert disk.fds == before
    await session.close()
    assert disk.fds == set()
