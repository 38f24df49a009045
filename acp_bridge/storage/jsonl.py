"""Sessions on the disk, `root/ID/log.jsonl`, one record a line."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread
import orjson

from acp_bridge.errors import SessionInUse, StoreError, StorePoisoned
from acp_bridge.session.codec import decode_header, decode_record, encode_header
from acp_bridge.session.events import Header, Record, TurnEnded
from acp_bridge.session.store import HeldSession, Loaded, Page, SessionFilter

from . import names
from .record import body_of, follows
from .summary import digest, is_shown, page_of, summary


class _JsonlSession:
    def __init__(self, store: "JsonlStore", folder: Path, lock: int) -> None:
        self._store, self._folder, self._lock = store, folder, lock
        self._loaded, self._end = _load(folder)
        self._next = len(self._loaded.records)
        self._poisoned = False
        self._fd = os.open(folder / "log.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        os.ftruncate(self._fd, self._end)

    @property
    def loaded(self) -> Loaded:
        return self._loaded

    @property
    def warning(self) -> str:
        return ""

    async def append(self, records: Sequence[Record]) -> int:
        follows(records, self._next)
        if self._lock < 0:
            raise StoreError("the session is closed", session_id=self._folder.name)
        if self._poisoned:
            raise StorePoisoned("the log cannot be written until it is salvaged", session_id=self._folder.name)
        data = b"".join(body_of(record) + b"}\n" for record in records)
        if not data:
            return 0
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._write, data)
        self._next += len(records)
        return len(data)

    def _write(self, data: bytes) -> None:
        try:
            if os.write(self._fd, data) != len(data):
                raise OSError("short write")
            os.fsync(self._fd)
        except OSError as exc:
            self._poisoned = True
            raise StorePoisoned(f"cannot write the log: {exc}", session_id=self._folder.name) from exc
        self._end += len(data)

    async def repair(self, closers: Sequence[Record]) -> None:
        await self.append(closers)

    async def salvage(self, unsaved: Sequence[Record]) -> None:
        if self._poisoned:
            os.ftruncate(self._fd, self._end)
            self._poisoned = False
        await self.append(unsaved)

    async def put_content(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        (self._folder / name).write_bytes(data)
        return name

    async def get_content(self, name: str) -> bytes | None:
        path = self._folder / name
        return path.read_bytes() if path.exists() else None

    async def close(self) -> None:
        if self._lock >= 0:
            os.close(self._fd)
            os.close(self._lock)
            self._lock = -1
            self._store.held.pop(self._folder.name, None)


def _load(folder: Path) -> tuple[Loaded, int]:
    data = (folder / "log.jsonl").read_bytes()
    first, *lines = data.split(b"\n")
    records: list[Record] = []
    end = len(first) + 1
    for line in lines[:-1]:
        try:
            record = decode_record(orjson.loads(line))
        except ValueError:
            break
        if record is not None:
            records.append(record)
        end += len(line) + 1
    return Loaded(decode_header(orjson.loads(first)), tuple(records), len(data) - end), end


class JsonlStore:
    """Keeps sessions under `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.held: dict[str, _JsonlSession] = {}

    async def create(self, header: Header, records: Sequence[Record]) -> HeldSession:
        folder = self.root / names.checked(header.session_id)
        follows(records, 0)
        folder.mkdir(parents=True, mode=0o700)
        lines = [orjson.dumps(encode_header(header)), *(body_of(record) + b"}" for record in records)]
        with (folder / "log.jsonl").open("wb") as file:
            file.write(b"".join(line + b"\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
        return self._held(header.session_id)

    def _held(self, session_id: str) -> HeldSession:
        lock = os.open(self.root / f"{session_id}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            os.close(lock)
            raise SessionInUse(f"session {session_id!r} is open elsewhere", session_id=session_id) from exc
        held = self.held[session_id] = _JsonlSession(self, self.root / session_id, lock)
        return held

    async def hold(self, session_id: str) -> HeldSession:
        self._folder(session_id)
        return self._held(session_id)

    async def read(self, session_id: str, *, from_seq: int = 0) -> Loaded:
        loaded, _ = _load(self._folder(session_id))
        return Loaded(loaded.header, tuple(r for r in loaded.records if r.seq >= from_seq), loaded.dropped_bytes)

    async def list(self, filter: SessionFilter, *, cursor: str | None = None, limit: int = 50) -> Page:
        lines = {}
        for path in self.root.iterdir() if self.root.exists() else ():
            if path.is_dir() and names.is_session_id(path.name):
                loaded, end = _load(path)
                found = digest(loaded.header, loaded.records)
                is_open = path.name in self.held
                lines[path.name] = summary(
                    loaded.header, found, state="open" if is_open else found.state, size=end
                )
        shown = [
            (line.updated, line.session_id)
            for line in lines.values()
            if is_shown(filter, line.cwd, line.turns, is_open=line.state == "open")
        ]
        places, following = page_of(shown, cursor, limit)
        return Page(tuple(lines[session_id] for _, session_id in places), following)

    async def delete(self, session_id: str) -> None:
        if session_id in self.held:
            await self.held[session_id].close()
        if names.is_session_id(session_id):
            shutil.rmtree(self.root / session_id, ignore_errors=True)

    async def fork(self, session_id: str, header: Header, *, through: int) -> None:
        loaded, _ = _load(self._folder(session_id))
        prefix = loaded.records[: through + 1]
        if not prefix or not isinstance(prefix[-1].event, TurnEnded):
            raise StoreError(f"session {session_id!r} has no turn that ends at seq {through}", session_id=session_id)
        await (await self.create(header, prefix)).close()

    def _folder(self, session_id: str) -> Path:
        folder = self.root / names.checked(session_id)
        if not folder.is_dir():
            raise names.not_found(session_id)
        return folder
