"""What storage tests say over and over."""

import os
from collections.abc import Sequence
from pathlib import Path

import orjson

from acp_bridge.session import Event, Header, HeldSession, Loaded, Record, TurnEnded, TurnStarted
from acp_bridge.storage import JsonlStore
from acp_bridge.storage.disk import OsDisk
from acp_bridge.storage.format import Seal

TURN: tuple[Event, ...] = (TurnStarted(turn=1), TurnEnded(turn=1, reason="completed"))


def header(session_id: str = "s1") -> Header:
    return Header(session_id=session_id, created=1_000, version="1", cwd="/w", roots=("/w",))


def records(events: Sequence[Event], first: int = 0) -> list[Record]:
    return [Record(seq, 2_000 + seq, event) for seq, event in enumerate(events, first)]


class Counting(OsDisk):
    """The real disk, which counts what it does; `plan` may fail a call by raising."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.folders: list[str] = []
        self.failures: dict[str, OSError] = {}

    def _count(self, name: str) -> None:
        self.calls.append(name)
        if name in self.failures:
            raise self.failures[name]

    def write(self, fd: int, data: memoryview) -> int:
        self._count("write")
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        self._count("sync")
        super().sync(fd)

    def sync_folder(self, path: str) -> None:
        self._count("sync_folder")
        self.folders.append(path)
        super().sync_folder(path)

    def rename(self, source: str, target: str) -> None:
        self._count("rename")
        super().rename(source, target)


def store_in(root: Path, disk: OsDisk | None = None) -> JsonlStore:
    return JsonlStore(root, disk=disk, patience_s=0.05)


async def made(root: Path, events: Sequence[Event] = TURN, session_id: str = "s1") -> Path:
    """Make a session, let it go, and return its log."""
    session = await store_in(root).create(header(session_id), records(events))
    await session.close()
    return root / session_id / "log.jsonl"


async def loaded(root: Path, session_id: str = "s1") -> Loaded:
    session = await store_in(root).hold(session_id)
    await session.close()
    return session.loaded


async def opened(root: Path) -> HeldSession:
    return await store_in(root).hold("s1")


def lines(log: Path) -> list[bytes]:
    return log.read_bytes().splitlines(keepends=True)


def resealed(log: Path, number: int, change: dict[str, object]) -> None:
    """Change members of a line and seal it and what follows anew, as another program would have written them."""
    old = [orjson.loads(line) for line in lines(log)]
    seal, data = Seal("s1", old[0]["gen"]), b""
    old[number].update(change)
    for members in old:
        members.pop("d")
        members.pop("crc")
        data += seal.close(orjson.dumps(members)[:-1], len(data), len(data))
    log.write_bytes(data)


def forget_mark(root: Path, session_id: str = "s1") -> None:
    """Do to the mark what a power cut may."""
    os.truncate(root / f"{session_id}.lock", 0)
