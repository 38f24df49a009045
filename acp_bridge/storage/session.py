"""A session under its lock: which thread does what, in which order, and what may be closed when.

Owns the worker, the open log and the lock. Appends run on the session's own thread; a rewrite runs on one made for it.
While either is under way nothing else writes the session, its descriptors stay open and its lock is kept.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import TypeVar

import anyio

from acp_bridge.errors import StoreBusy, StoreError, StoreReplaced
from acp_bridge.session.events import Record
from acp_bridge.session.store import Loaded

from . import content
from .disk import Disk
from .header import BadLine
from .lock import Lock
from .log import OpenLog
from .record import body_of, follows, opened
from .rewrite import rewrite
from .scan import Scan, read_bodies
from .worker import Call, Worker, in_own_thread, start

T = TypeVar("T")

CLOSE_PATIENCE_S = 1.0
"""How long closing waits for a write that is under way; most take milliseconds, on a dead disk it never ends."""


class JsonlSession:
    """The hold on one session; see `HeldSession` for the contract."""

    def __init__(
        self,
        disk: Disk,
        lock: Lock,
        log: OpenLog,
        loaded: Loaded,
        *,
        found: Scan | None,
        new_gen: Callable[[], str],
        warning: str,
        let_go: Callable[["JsonlSession"], None],
    ) -> None:
        self._disk, self._lock, self._log = disk, lock, log
        self._loaded, self._warning = loaded, warning
        self._new_gen, self._let_go = new_gen, let_go
        self._folder = log.path.rpartition("/")[0]
        self._worker = Worker(f"append {self._id}")
        self._writing: Call[int] | None = None
        self._putting: set[Call[None]] = set()
        self._closed: StoreError | None = None
        self._own_content: set[str] = set()
        # What is not known durable is kept as it was read: after a failed sync the file is no proof of it.
        self._tail = [opened(line) for _, line in found.tail] if found else []
        self._next_seq = found.records if found else len(loaded.records)
        self._cut = loaded.dropped_bytes > 0
        self._must_rewrite = self._cut or loaded.may_not_last
        self._names_are_durable = found is None

    @property
    def loaded(self) -> Loaded:
        return self._loaded

    @property
    def warning(self) -> str:
        return self._warning

    async def append(self, records: Sequence[Record]) -> int:
        self._check_open()
        if not records:
            return 0
        bodies = self._bodies(records)
        return await self._write(partial(self._saved, bodies), rewriting=self._must_rewrite)

    async def repair(self, closers: Sequence[Record]) -> None:
        self._check_open()
        if closers or self._must_rewrite:
            bodies = self._bodies(closers)
            await self._write(partial(self._saved, bodies), rewriting=self._must_rewrite)

    async def salvage(self, unsaved: Sequence[Record]) -> None:
        self._check_open()
        missing = [record for record in unsaved if record.seq >= self._next_seq]  # a write given up may have succeeded
        if self._log.poison is None:
            await self.append(missing)
            return
        bodies = self._bodies(missing)
        await self._write(partial(self._rewritten, bodies), rewriting=True)

    async def put_content(self, data: bytes) -> str:
        self._check_open()
        name = content.name_of(data)
        if name in self._own_content:
            return name
        call = Call(partial(content.put, self._disk, self._folder, name, data))
        self._putting = {other for other in self._putting if not other.ended} | {call}
        start(call, f"content {self._id}")
        await self._shielded(call)
        try:
            call.result()
        except OSError as exc:
            path = f"{self._folder}/{name}"
            raise StoreError(f"cannot store {path}: {exc}", session_id=self._id, path=path) from exc
        self._own_content.add(name)
        return name

    async def get_content(self, name: str) -> bytes | None:
        return await in_own_thread(partial(content.get, self._disk, self._folder, name), f"content {self._id}")

    async def close(self) -> None:
        if self._closed is not None:
            return
        for call in self._under_way():
            with anyio.move_on_after(CLOSE_PATIENCE_S, shield=True):
                await call.wait()
        busy = self._under_way()
        if busy:
            for call in busy:
                call.give_up(self._busy())
            raise self._busy()
        self._shut(StoreError(f"session {self._id!r} is closed; load it again", session_id=self._id))

    @property
    def _id(self) -> str:
        return self._loaded.header.session_id

    def _bodies(self, records: Sequence[Record]) -> list[bytes]:
        follows(records, self._next_seq)
        return [body_of(record) for record in records]

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed
        if self._writing is not None and not self._writing.ended:
            raise self._busy()

    def _under_way(self) -> list[Call[int] | Call[None]]:
        calls = [*self._putting, *([self._writing] if self._writing else [])]
        return [call for call in calls if not call.ended]

    def _busy(self) -> StoreBusy:
        return StoreBusy(
            f"session {self._id!r} is being written; its lock is kept until that ends",
            session_id=self._id,
            path=self._log.path,
        )

    def _shut(self, reason: StoreError) -> None:
        self._closed = reason
        self._worker.stop()
        self._disk.close(self._log.fd)
        self._lock.release()
        self._let_go(self)

    async def _write(self, work: Callable[[], int], *, rewriting: bool) -> int:
        """Do `work` in a thread and see it through, also if the waiter is cancelled."""
        self._writing = call = Call(work)
        if rewriting:
            start(call, f"rewrite {self._id}")  # it may take long; the thread that appends stays free of it
        else:
            self._worker.submit(call)
        await self._shielded(call)
        try:
            return call.result()
        except StoreReplaced as exc:
            if self._closed is None and call.ended:
                self._shut(exc)
            raise

    async def _shielded(self, call: Call[T]) -> None:
        with anyio.CancelScope(shield=True):  # bounded by `close`, which gives a stuck call up
            await call.wait()

    def _saved(self, bodies: Sequence[bytes]) -> int:
        """Append, in the thread, or rewrite where what was loaded has to be cut or may not last."""
        self._log.refuse_if_poisoned()
        if self._must_rewrite:
            return self._rewritten(bodies)
        try:
            self._make_names_durable()
            size = self._log.append(bodies)
        except StoreReplaced as exc:
            raise self._with_unsaved_kept(exc, bodies) from exc
        self._next_seq += len(bodies)
        self._tail = []
        return size

    def _make_names_durable(self) -> None:
        """Sync the folders once a hold: a process that made or renamed the log may not have lived to do so."""
        if self._names_are_durable:
            return
        try:
            self._disk.sync_folder(self._folder)
            self._disk.sync_folder(os.path.dirname(self._folder))
        except OSError as exc:
            raise self._log.poisoned_by(exc) from exc
        self._names_are_durable = True

    def _rewritten(self, bodies: Sequence[bytes]) -> int:
        """Put a new file in the log's place, in the thread: what is known durable, what was read, then `bodies`."""
        old = self._log
        kept = chain(read_bodies(self._disk, old.fd, old.first, old.durable), self._tail)
        copy = f"cut-{old.first.gen}.jsonl" if self._cut else ""
        try:
            new = rewrite(self._disk, self._lock, old, kept, bodies, gen=self._new_gen(), copy=copy)
        except (OSError, BadLine) as exc:
            raise old.poisoned_by(exc if isinstance(exc, OSError) else OSError(str(exc))) from exc
        except StoreReplaced as exc:
            raise self._with_unsaved_kept(exc, bodies) from exc
        self._log, self._tail, self._cut = new, [], False
        self._disk.close(old.fd)
        self._names_are_durable = self._names_are_durable or self._root_synced(new)
        size = new.settle()
        self._must_rewrite = False
        self._next_seq += len(bodies)
        return size

    def _root_synced(self, log: OpenLog) -> bool:
        try:
            self._disk.sync_folder(os.path.dirname(self._folder))
        except OSError as exc:
            raise log.poisoned_by(exc) from exc
        return True

    def _with_unsaved_kept(self, replaced: StoreReplaced, bodies: Sequence[bytes]) -> StoreReplaced:
        path = self._log.write_unsaved(bodies) if bodies else ""
        told = f"; what was not saved is in {path}" if path else ""
        return StoreReplaced(f"{replaced}{told}", session_id=self._id, path=replaced.path)
