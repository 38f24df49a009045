"""Real processes: two writers, a holder that is killed, a file-size limit, a full file system."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from storage.words import TURN, header, lines, loaded, made, records, store_in

from acp_bridge.errors import SessionInUse, StorePoisoned
from acp_bridge.session import SessionTitled, TurnStarted
from acp_bridge.storage import JsonlStore

HOLD = """
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


LIMITED = """
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
