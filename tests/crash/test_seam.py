"""The recorded disk behaves as the real one, and the whole store, threads and all, keeps its word on recorded disks."""

import stat
from itertools import count
from pathlib import Path

import anyio
import pytest
from crash.disk import ImageDisk
from crash.images import images
from crash.oracle import CLOSER, ROOT, Ledger, Promise, demand
from crash.recording import Recording
from crash.run import Run, a_life
from support.loops import BOTH_WHEN_SLOW

from acp_bridge.errors import SessionNotFound
from acp_bridge.session import Record
from acp_bridge.storage import JsonlStore
from acp_bridge.storage.blocking import BlockingStore
from acp_bridge.storage.disk import OsDisk


class Here(OsDisk):
    """The real disk with `/home/acp` under a temporary folder; it counts like the recorded one."""

    next_number = 0

    def __init__(self, place: Path) -> None:
        self.place = str(place)

    def __getattribute__(self, name: str) -> object:
        found = super().__getattribute__(name)
        if name.startswith("_") or not callable(found):
            return found

        def moved(*args: object) -> object:
            place = object.__getattribute__(self, "place")
            return found(*(f"{place}{a}" if isinstance(a, str) and a.startswith("/") else a for a in args))

        return moved


def _gens(store: BlockingStore) -> None:
    numbers = count(1)
    store.make_gen = lambda: f"{next(numbers):016x}"


def test_the_recorded_disk_ends_up_as_the_real_one(tmp_path: Path) -> None:
    """A whole life of sessions leaves the same files, byte for byte, but for what names inodes."""
    recorded = ImageDisk()
    (tmp_path / "home").mkdir(mode=0o700)
    for disk in (recorded, Here(tmp_path)):
        run = Run(disk, Ledger())  # type: ignore[arg-type]
        _gens(run.store)
        a_life(run)
    real = {
        f"/{path.relative_to(tmp_path)}": path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file() and path.suffix not in (".lock", ".cache")  # they name inodes
    }
    assert len(real) >= 3
    assert {path: recorded.file(path) for path in real} == real
    assert set(recorded.names(ROOT)) == {path.name for path in (tmp_path / ROOT[1:]).iterdir()}
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in (tmp_path / "home").rglob("*"))


@pytest.mark.parametrize("backend", BOTH_WHEN_SLOW)
def test_the_store_with_its_threads_keeps_its_word_on_recorded_disks(backend: str) -> None:
    moments = Recording().record(a_life).moments
    judged = 0

    async def judge_some() -> None:
        nonlocal judged
        for moment in moments[::4]:
            for image in list(images(moment.disk, "few"))[::5]:
                for session_id, promise in moment.ledger.sessions.items():
                    with anyio.fail_after(5):
                        await _judge(image, session_id, promise)
                judged += 1

    anyio.run(judge_some, backend=backend)
    assert judged > 50


async def _judge(disk: ImageDisk, session_id: str, promise: Promise) -> None:
    numbers = count(disk.next_number * 1000)
    store = JsonlStore(Path(ROOT), disk=disk, make_gen=lambda: f"{next(numbers):016x}", patience_s=0)
    try:
        session = await store.hold(session_id)
    except SessionNotFound:
        demand(promise.deleting or not promise.exists, f"session {session_id} is gone")
        return
    found = list(session.loaded.records)
    demand(promise.acknowledged <= len(found), "a promised record is gone")
    demand(any(found == history[: len(found)] for history in promise.histories), "a record was never written there")
    closer = Record(len(found), 7, CLOSER, synthetic=True)
    await session.repair([closer])
    await session.close()
    changes = disk.changes()
    again = await store.read(session_id)
    demand(list(again.records) == [*found, closer], "repair did not last")
    demand(disk.changes() == changes, "reading changed something")
