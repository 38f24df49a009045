"""Both stores keep the store's contract."""

import errno
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acp_bridge.storage import JsonlStore, MemoryStore
from acp_bridge.storage.disk import OsDisk
from acp_bridge.testing.store_contract import Damaging, Failing, OpenStore, StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def memory(self) -> MemoryStore:
        return MemoryStore()

    @pytest.fixture
    def open_store(self, memory: MemoryStore) -> OpenStore:
        return lambda: memory

    @pytest.fixture
    def failing(self, memory: MemoryStore) -> Failing:
        @contextmanager
        def context() -> Generator[None]:
            memory.failing = True
            yield
            memory.failing = False

        return context


class FullDisk(OsDisk):
    """A disk that can be full."""

    is_full = False

    def write(self, fd: int, data: memoryview) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().write(fd, data)


class TestJsonlStore(StoreContract):
    @pytest.fixture
    def disk(self) -> FullDisk:
        return FullDisk()

    @pytest.fixture
    def open_store(self, tmp_path: Path, disk: FullDisk) -> OpenStore:
        return lambda: JsonlStore(tmp_path / "home" / "sessions", disk=disk, patience_s=0.05)

    @pytest.fixture
    def failing(self, disk: FullDisk) -> Failing:
        @contextmanager
        def context() -> Generator[None]:
            disk.is_full = True
            yield
            disk.is_full = False

        return context

    @pytest.fixture
    def damaging(self, tmp_path: Path) -> Damaging:
        def damage(session_id: str) -> None:
            log = tmp_path / "home" / "sessions" / session_id / "log.jsonl"
            lines = log.read_bytes().splitlines(keepends=True)
            lines[2] = lines[2].replace(b'"time":', b'"tame":')
            log.write_bytes(b"".join(lines))

        return damage
