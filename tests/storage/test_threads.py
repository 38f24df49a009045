"""What runs in which thread, and what may not be closed while it does."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import pytest
from support.loops import BOTH_WHEN_SLOW
from support.words import TURN, header, loaded, made, records, store_in

from acp_bridge.errors import SessionInUse, SessionNotFound, StoreBusy
from acp_bridge.session import HeldSession, SessionTitled, TurnStarted
from acp_bridge.storage import JsonlStore
from acp_bridge.storage import session as sessions
from acp_bridge.storage.disk import OsDisk

MORE = records([TurnStarted(turn=2)], first=2)


class StuckDisk(OsDisk):
    """A disk whose syncs hang while it is stuck, and which notes the threads that sync."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.free.set()
        self.threads: list[str] = []

    def sync(self, fd: int) -> None:
        self.threads.append(threading.current_thread().name)
        self.free.wait()
        super().sync(fd)

    def __enter__(self) -> Self:
        self.free.clear()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None) -> None:
        self.free.set()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "CLOSE_PATIENCE_S", 0.05)
    monkeypatch.setattr(sessions, "LINGER_S", 0.05)


async def until(claim: Callable[[], bool]) -> None:
    with anyio.fail_after(5):
        while not claim():  # noqa: ASYNC110  a thread's doing, of which no event tells
            await anyio.sleep(0.005)


async def test_while_a_sync_hangs_nothing_is_closed_and_the_waiter_is_sent_away(tmp_path: Path) -> None:
    disk = StuckDisk()
    store = store_in(tmp_path, disk)
    session = await store.create(header(), records(TURN))
    refused: list[StoreBusy] = []

    async def append() -> None:
        with pytest.raises(StoreBusy) as busy:
            await session.append(MORE)
        refused.append(busy.value)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            with disk:
                tasks.start_soon(append)
                await until(lambda: len(disk.threads) == 2)
                for attempt in (
                    lambda: session.append(MORE),
                    lambda: session.repair(MORE),
                    lambda: session.salvage(MORE),
                    session.close,
                    lambda: store.delete("s1"),
                ):
                    with pytest.raises(StoreBusy):
                        await attempt()
                with pytest.raises(SessionInUse):
                    await store_in(tmp_path).hold("s1")
                await until(lambda: bool(refused))
    await session.close()
    assert list((await loaded(tmp_path)).records) == [*records(TURN), *MORE]


async def test_after_a_write_that_was_given_up_a_salvage_writes_only_what_is_missing(tmp_path: Path) -> None:
    disk = StuckDisk()
    session = await store_in(tmp_path, disk).create(header(), records(TURN))
    await _given_up(disk, session)
    both = [*MORE, *records([SessionTitled(title="next")], first=3)]
    await until(lambda: not session._under_way())  # type: ignore[attr-defined]
    await session.salvage(both)
    await session.close()
    assert list((await loaded(tmp_path)).records) == [*records(TURN), *both]


async def _given_up(disk: StuckDisk, session: HeldSession) -> None:
    async def append() -> None:
        with pytest.raises(StoreBusy):
            await session.append(MORE)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            with disk:
                before = len(disk.threads)
                tasks.start_soon(append)
                await until(lambda: len(disk.threads) > before)
                with pytest.raises(StoreBusy):
                    await session.close()


async def test_a_session_that_nobody_waits_for_any_more_is_let_go_once_it_is_made(tmp_path: Path) -> None:
    disk = StuckDisk()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            with disk:
                tasks.start_soon(store_in(tmp_path, disk).create, header(), records(TURN))
                await until(lambda: len(disk.threads) == 1)
                tasks.cancel_scope.cancel()
        while True:
            try:
                session = await store_in(tmp_path).hold("s1")
                break
            except (SessionInUse, SessionNotFound):  # it is being made, in its thread
                await anyio.sleep(0.005)
    assert len(session.loaded.records) == 2
    await session.close()


async def test_a_cancelled_append_waits_for_its_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "LINGER_S", 5)  # a busy machine may take a while for it
    disk = StuckDisk()
    session = await store_in(tmp_path, disk).create(header(), records(TURN))
    written: list[int] = []

    async def append() -> None:
        written.append(await session.append(MORE))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            disk.free.clear()
            tasks.start_soon(append)
            await until(lambda: len(disk.threads) == 2)
            tasks.cancel_scope.cancel()
            disk.free.set()
    assert written
    await session.close()


@pytest.mark.parametrize("ends", [True, False])
async def test_a_cancelled_append_that_is_stuck_leaves_and_what_it_wrote_is_not_written_twice(
    tmp_path: Path, ends: bool
) -> None:
    disk = StuckDisk()
    session = await store_in(tmp_path, disk).create(header(), records(TURN))
    both = [*MORE, *records([SessionTitled(title="next")], first=3)]
    with disk:
        with anyio.fail_after(5), anyio.move_on_after(0.01):
            await session.append(MORE)
        with pytest.raises(StoreBusy):
            await session.append(both)
        with pytest.raises(StoreBusy):
            await session.close()
    await until(lambda: not session._under_way())  # type: ignore[attr-defined]
    await session.append(both if ends else both[:1])
    assert (await session.append(both) == 0) == ends
    await session.close()
    assert list((await loaded(tmp_path)).records) == [*records(TURN), *both]


async def test_a_stuck_session_does_not_hold_up_another(tmp_path: Path) -> None:
    disk = StuckDisk()
    store = store_in(tmp_path, disk)
    session = await store.create(header(), records(TURN))
    await made(tmp_path, session_id="s2")
    other = await store_in(tmp_path).hold("s2")
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            with disk:
                tasks.start_soon(session.append, MORE)
                await until(lambda: len(disk.threads) == 2)
                await other.append(MORE)
    await other.close()
    await session.close()


async def test_appends_have_a_thread_of_their_own_and_rewrites_another(tmp_path: Path) -> None:
    log = await made(tmp_path)
    with log.open("ab") as file:
        file.write(b"torn")
    disk = StuckDisk()
    session = await store_in(tmp_path, disk).hold("s1")
    await session.append(MORE)
    await session.append(records(TURN, first=3))
    await session.append(records(TURN, first=5))
    await session.close()
    assert disk.threads == ["rewrite s1", "append s1", "append s1"]


async def test_a_session_that_nobody_appends_to_has_no_thread(tmp_path: Path) -> None:
    session = await store_in(tmp_path).create(header("s9"), records(TURN))
    assert not any(thread.name == "append s9" for thread in threading.enumerate())
    await session.append(MORE)
    assert any(thread.name == "append s9" for thread in threading.enumerate())
    await session.close()
    await until(lambda: not any(thread.name == "append s9" for thread in threading.enumerate()))


async def test_a_hold_that_nobody_waits_for_any_more_lets_go(tmp_path: Path) -> None:
    await made(tmp_path)
    holder = await store_in(tmp_path).hold("s1")
    with anyio.move_on_after(0.05):
        await JsonlStore(tmp_path, patience_s=30).hold("s1")
    await holder.close()
    await until(lambda: not any(thread.name == "load s1" for thread in threading.enumerate()))
    await (await store_in(tmp_path).hold("s1")).close()


STUCK = """# may be forked
import sys, time, anyio
from pathlib import Path
from acp_bridge.session import Header, Record, TurnStarted
from acp_bridge.storage import JsonlStore
from acp_bridge.storage.disk import OsDisk
from acp_bridge.errors import StoreBusy

class Dead(OsDisk):
    dead = False
    def sync(self, fd):
        while self.dead:
            time.sleep(60)
        super().sync(fd)

async def main():
    disk = Dead()
    store = JsonlStore(Path(sys.argv[1]), disk=disk)
    session = await store.create(Header(session_id="s1", created=1, version="1", cwd="/", roots=("/",)), [])
    disk.dead = True
    async def append():
        try:
            await session.append([Record(0, 1, TurnStarted(turn=1))])
        except StoreBusy:
            print("sent away")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(append)
        await anyio.sleep(0.1)
        try:
            await session.close()
        except StoreBusy:
            print("busy", flush=True)

anyio.run(main, backend=sys.argv[2])
"""


@pytest.mark.parametrize("backend", BOTH_WHEN_SLOW)
def test_the_process_ends_although_a_sync_never_does(tmp_path: Path, backend: str) -> None:
    began = time.monotonic()
    command = [sys.executable, "-c", STUCK, str(tmp_path / "sessions"), backend]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (ended.stdout.split("\n"), ended.returncode, ended.stderr) == (["busy", "sent away", ""], 0, "")
    assert time.monotonic() - began < 15
