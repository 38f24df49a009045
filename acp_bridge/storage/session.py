"""A session on the disk, held: which thread does what, and what may be closed when.

Owns the session's threads. Appends run on its own; a rewrite runs on one made for it. While either is under way nothing
else writes the session, its descriptors stay open and its lock is kept (D32). Knows no bytes and no system calls.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from acp_bridge.errors import StoreBusy, StoreError, StoreReplaced
from acp_bridge.session.events import Record
from acp_bridge.session.store import Loaded

from . import folder
from .disk import Disk
from .format import bodies_of
from .held_log import HeldLog
from .worker import Call, Worker, in_own_thread, start

T = TypeVar("T")

LINGER_S = 1.0
"""After how long a cancelled waiter leaves a write to its thread; on a dead disk it would wait for ever."""

CLOSE_PATIENCE_S = 1.0
"""How long closing waits for a write that is under way; most take milliseconds, on a dead disk it never ends."""


class JsonlSession:
    """The hold on one session; see `HeldSession` for the contract."""

    def __init__(
        self, disk: Disk, held: HeldLog, loaded: Loaded, *, warning: str, let_go: Callable[["JsonlSession"], None]
    ) -> None:
        self._disk, self._held, self._loaded = disk, held, loaded
        self._warning, self._let_go = warning, let_go
        self._worker = Worker(f"append {self._id}")
        self._writing: Call[int] | None = None
        self._content_writes: set[Call[None]] = set()
        self._closed: StoreError | None = None
        self._own_content: set[str] = set()
        self._first_own = loaded.next_seq  # what is before it, this hold has not written
        self._waiter_left = False  # whether one ever went without having been told how its write ended

    @property
    def loaded(self) -> Loaded:
        return self._loaded

    @property
    def warning(self) -> str:
        return self._warning

    async def append(self, records: Sequence[Record]) -> int:
        self._check_open()
        missing = self._missing(records)
        return await self._save(missing) if missing else 0

    async def confirm(self) -> None:
        if self._closed is not None:  # the kernel keeps the lock as long as its descriptor is open
            raise self._closed

    async def repair(self, closers: Sequence[Record]) -> None:
        self._check_open()
        missing = self._missing(closers)
        if missing or self._held.must_rewrite:
            await self._save(missing)

    async def salvage(self, unsaved: Sequence[Record]) -> None:
        self._check_open()
        missing = self._unwritten(unsaved)
        if self._held.is_poisoned:
            await self._write(self._held.rewrite, missing, rewriting=True)
        elif missing:
            await self._save(missing)

    async def put_content(self, data: bytes) -> str:
        if self._closed is not None:
            raise self._closed
        name = folder.content_name(data)
        if name in self._own_content:  # only what this hold has synced is there for sure
            return name
        call = Call(partial(self._write_content, name, data))
        self._content_writes = {other for other in self._content_writes if not other.ended} | {call}
        start(call, f"content {self._id}")
        await _see_through(call)
        try:
            call.result()
        except OSError as exc:
            path = f"{self._held.folder}/{name}"
            raise StoreError(f"cannot store {path}: {exc}", session_id=self._id, path=path) from exc
        self._own_content.add(name)
        return name

    def _write_content(self, name: str, data: bytes) -> None:
        try:
            folder.write_content(self._disk, self._held.folder, name, data)
        except OSError:
            self._held.check_in_place()  # the whole folder may be gone, and the log with it
            raise

    async def get_content(self, name: str) -> bytes | None:
        return await in_own_thread(
            partial(folder.read_content, self._disk, self._held.folder, name), f"content {self._id}"
        )

    async def close(self) -> None:
        if self._closed is not None:
            return
        with anyio.move_on_after(CLOSE_PATIENCE_S, shield=True):
            for call in self._under_way():
                await call.wait_until_over()
        busy = self._under_way()
        if busy:
            for call in busy:
                call.give_up(self._busy_error())  # the waiter need not hang as well; lock and descriptors stay (D32)
            raise self._busy_error()
        self._shut(StoreError(f"session {self._id!r} is closed; load it again", session_id=self._id))

    @property
    def _id(self) -> str:
        return self._loaded.header.session_id

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed
        if self._writing is not None and not self._writing.ended:
            raise self._busy_error()

    def _missing(self, records: Sequence[Record]) -> Sequence[Record]:
        """Leave out what a write that nobody waited for to its end has saved."""
        return self._unwritten(records) if self._waiter_left else records

    def _unwritten(self, records: Sequence[Record]) -> Sequence[Record]:
        """Leave out what this hold has written, and nothing else: a seq that the file had before is a disagreement."""
        written = range(self._first_own, self._held.next_seq)
        return [record for record in records if record.seq not in written]

    def _under_way(self) -> list[Call[int] | Call[None]]:
        calls = [*self._content_writes, *([self._writing] if self._writing else [])]
        return [call for call in calls if not call.ended]

    def _busy_error(self) -> StoreBusy:
        return StoreBusy(
            f"session {self._id!r} is being written; its lock is kept until that ends",
            session_id=self._id,
            path=self._held.path,
        )

    def _shut(self, reason: StoreError) -> None:
        self._closed = reason
        self._worker.stop()
        self._held.close()
        self._let_go(self)

    async def _save(self, records: Sequence[Record]) -> int:
        return await self._write(self._held.save, records, rewriting=self._held.must_rewrite)

    async def _write(self, work: Callable[[list[bytes]], int], records: Sequence[Record], *, rewriting: bool) -> int:
        """Do `work` in a thread and see it through, also if the waiter is cancelled, but then not for ever."""
        self._writing = call = Call(partial(work, bodies_of(records, self._held.next_seq)))
        if rewriting:
            start(call, f"rewrite {self._id}")  # it may take long; the thread that appends stays free of it
        else:
            self._worker.submit(call)
        try:
            await _see_through(call)
            return call.result()
        except BaseException as exc:
            self._waiter_left = True
            if isinstance(exc, StoreReplaced) and self._closed is None:
                self._shut(exc)  # whatever is in the log's place now, it is not ours to hold
            raise


async def _see_through(call: Call[T]) -> None:
    """Wait for `call`; a cancelled waiter still does, unless the call has taken `LINGER_S` already."""
    while True:
        with anyio.move_on_after(LINGER_S, shield=True):
            await call.wait()
            return
        await checkpoint_if_cancelled()
