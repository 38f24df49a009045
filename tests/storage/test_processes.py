"""Real processes: two writers, a holder that is killed, a file-size limit, a full file system."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from support.words import TURN, header, lines, loaded, made, records, store_in

from acp_bridge.errors import SessionInUse, StoreError, StorePoisoned
from acp_bridge.session import SessionFilter, SessionTitled, TurnStarted
from acp_bridge.storage import JsonlStore

HOLD = """# may be forked
import sys, anyio
from pathlib import Path
from acp_bridge.storage import JsonlStore

async def main():
    session = await JsonlStore(Path(sys.argv[1])).hold("s1")
    ballast = bytearray(int(sys.argv[2]) << 20)
    for page in range(0, len(ballast), 4096):
        ballast[page] = 1
    print("held", flush=True)
    sys.stdin.read()
    await session.close()

anyio.run(main)
"""


@contextmanager
def another_holder(root: Path, ballast_mb: int = 1) -> Generator[subprocess.Popen[str]]:
    """Have another process hold the session for the time of the context."""
    command = [sys.executable, "-c", HOLD, str(root), str(ballast_mb)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            yield holder
        finally:
            holder.kill()


async def test_a_second_process_is_told_who_holds_the_session(tmp_path: Path) -> None:
    await made(tmp_path)
    with another_holder(tmp_path) as holder:
        with anyio.fail_after(5), pytest.raises(SessionInUse, match=f"process {holder.pid} on ") as refused:
            await store_in(tmp_path).hold("s1")
        assert str(holder.pid) in refused.value.holder
        with pytest.raises(SessionInUse):
            await store_in(tmp_path).delete("s1")
        assert len((await store_in(tmp_path).read("s1")).records) == 2


async def test_the_first_hold_after_a_large_holder_was_killed_succeeds(tmp_path: Path) -> None:
    await made(tmp_path)
    with another_holder(tmp_path, ballast_mb=300) as holder:
        os.kill(holder.pid, signal.SIGKILL)
        with anyio.fail_after(5):
            session = await JsonlStore(tmp_path).hold("s1")
        await session.append(records([TurnStarted(turn=2)], first=2))
        await session.close()
    assert len((await loaded(tmp_path)).records) == 3


LIMITED = """# may be forked
import resource, signal, sys, anyio
from pathlib import Path
from acp_bridge.errors import StorePoisoned
from acp_bridge.session import Header, Record, SessionTitled
from acp_bridge.storage import JsonlStore

async def main():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = JsonlStore(Path(sys.argv[1]))
    session = await store.create(Header(session_id="s1", created=1, version="1", cwd="/", roots=("/",)), [])
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    records = [Record(seq, 1, SessionTitled(title="x" * 1000)) for seq in range(8)]
    acknowledged = 0
    try:
        for record in records:
            await session.append([record])
            acknowledged += 1
    except StorePoisoned as exc:
        print(acknowledged, type(exc.__cause__).__name__, exc.__cause__.errno, flush=True)
    try:
        await session.append(records[acknowledged:])
    except StorePoisoned:
        print("refused", flush=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if sys.argv[2] == "salvage":
        await session.salvage(records[acknowledged:])
        await session.close()

anyio.run(main)
"""


@pytest.mark.parametrize("end", ["salvage", "die"])
async def test_a_write_cut_short_by_a_size_limit_poisons_and_is_healed_here_or_by_the_next(
    tmp_path: Path, end: str
) -> None:
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "sessions"), end]
    ended = await anyio.run_process(command, check=False)
    assert (ended.stdout.decode().splitlines(), ended.stderr) == (["3 OSError 27", "refused"], b"")
    session = await store_in(tmp_path / "sessions").hold("s1")
    count = len(session.loaded.records)
    assert count == (8 if end == "salvage" else 3)
    assert (session.loaded.dropped_bytes > 0) == (end == "die")
    await session.repair(records([SessionTitled(title="after")], first=count))
    await session.close()
    again = await loaded(tmp_path / "sessions")
    assert (len(again.records), again.dropped_bytes, again.may_not_last) == (count + 1, 0, False)


@pytest.fixture
def small(tmp_path: Path) -> Generator[Path]:
    """A file system of 256 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    options = "size=256k,mode=0700"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("a small file system cannot be mounted here: that takes the right to mount")
    yield place
    subprocess.run(["umount", str(place)], check=True)


async def test_a_full_file_system_poisons_and_room_made_heals(small: Path) -> None:
    root = small / "sessions"
    session = await store_in(root).create(header(), records(TURN))
    ballast = small / "ballast"
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(4096))
    unsaved = records([SessionTitled(title="x" * 9_000)], first=2)
    for _ in range(2):
        with pytest.raises(StorePoisoned):
            await session.append(unsaved)
        with pytest.raises(StorePoisoned):
            await session.salvage(unsaved)
    ballast.unlink()
    with pytest.raises(StorePoisoned):
        await session.append(unsaved)
    await session.salvage(unsaved)
    await session.close()
    assert list((await loaded(root)).records) == [*records(TURN), *unsaved]
    assert len(lines(root / "s1/log.jsonl")) == 4


def succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@contextmanager
def mounted(*command: str, at: Path) -> Generator[None]:
    """Have something mounted for the time of the context."""
    if not succeeds(*command, str(at)):
        pytest.skip(f"`{' '.join(command[:3])}` is not permitted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


async def test_a_read_only_file_system_shows_sessions_takes_none_and_saves_once_it_is_writable(tmp_path: Path) -> None:
    root, view = tmp_path / "sessions", tmp_path / "view"
    await made(root)
    view.mkdir()
    with mounted("mount", "--bind", str(root), at=view):
        assert succeeds("mount", "-o", "remount,ro,bind", str(view))
        with pytest.raises(StoreError, match="Read-only"):
            await store_in(view).create(header("s2"), [])
        with pytest.raises(StoreError):
            await store_in(view).delete("s1")
        assert len((await store_in(view).read("s1")).records) == 2
        assert len((await store_in(view).list(SessionFilter())).sessions) == 1
        session = await store_in(view).hold("s1")
        assert (len(session.loaded.records), "Read-only" in session.warning) == (2, True)
        with pytest.raises(SessionInUse):
            await store_in(view).hold("s1")
        more = records([TurnStarted(turn=2)], first=2)
        with pytest.raises(StorePoisoned, match="Read-only"):
            await session.append(more)
        with pytest.raises(StorePoisoned, match="Read-only"):
            await session.salvage(more)
        assert succeeds("mount", "-o", "remount,rw,bind", str(view))
        await session.salvage(more)
        await session.close()
        assert len((await loaded(view)).records) == 3


async def test_a_disk_that_fails_in_the_write_back_poisons_and_a_later_sync_heals_nothing(tmp_path: Path) -> None:
    """A file system on a file on a full one: the write succeeds, the sync is the first to know."""
    under, over = tmp_path / "under", tmp_path / "over"
    under.mkdir()
    over.mkdir()
    with mounted("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", at=under):
        image = under / "image"
        with image.open("wb") as file:
            file.truncate(64 << 20)
        whole = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
        if not succeeds("mkfs.ext4", "-q", "-E", whole, "-J", "size=4", str(image)):
            pytest.skip("mkfs.ext4 is not here")
        with mounted("mount", "-o", "loop", str(image), at=over):
            over.chmod(0o700)
            session = await store_in(over / "sessions").create(header(), records(TURN))
            saved = records([SessionTitled(title="saved")], first=2)
            await session.append(saved)
            with (under / "ballast").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
                while True:
                    file.write(bytes(1 << 16))
            unsaved = records([SessionTitled(title="x" * 4_000_000)], first=3)
            with pytest.raises(StorePoisoned) as refused:
                await session.append(unsaved)
            cause = refused.value.__cause__
            assert isinstance(cause, OSError)
            assert cause.errno in (errno.EIO, errno.ENOSPC)
            assert len(lines(over / "sessions/s1/log.jsonl")) == 5  # the write went well, and reading back shows it
            with pytest.raises(StorePoisoned):
                await session.append(unsaved)
            await session.close()
            again = await store_in(over / "sessions").read("s1")
            assert list(again.records[:3]) == [*records(TURN), *saved]
