"""The store on the disk: `root/ID/log.jsonl`, one record a line, readable with `jq` and `tail -f`.

Owns the port, and who in this process holds which session. Leaves the work to `blocking` and `session`, in threads;
what a line, a log, a lock and a folder are is said in their own modules.

    root/ID/log.jsonl          the log
    root/ID/SHA-256            a content file
    root/ID/cut-GEN.jsonl      a log as it was before a repair cut it or a salvage went round damage
    root/ID/unsaved-TIME.jsonl what could not be saved because somebody else changed the log; as unsaved-ID-TIME.jsonl
                               in root, above it or among temporary files where root/ID is gone
    root/ID.lock               the lock and the mark; never deleted
    root/tmp-ID, trash-ID      a session that is being made, or removed
    root/index.cache           the listing's memory; may be deleted

Decision: daemon threads, one a held session and one a longer piece of work, not anyio's worker threads: those are
waited for at exit, and a write that hangs on a dead disk must not keep the process alive.
"""

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Thread

from acp_bridge.errors import SessionInUse, StoreError
from acp_bridge.session.codec import encode_header
from acp_bridge.session.events import Header, Record
from acp_bridge.session.store import HeldSession, Loaded, Page, SessionFilter, Verification

from .blocking import BlockingStore
from .disk import Disk, OsDisk
from .filesystem import network_warning, read_only_warning
from .folder import is_session_id, require_session_id
from .format import bodies_of, new_gen
from .held_log import HeldLog
from .index import Index
from .session import JsonlSession
from .sweep import sweep
from .worker import in_own_thread

EMPTY_FOR_S = 7 * 24 * 3600.0
"""How long a session without a turn is kept."""


def now_ms() -> int:
    """Return the milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class JsonlStore:
    """Keeps sessions under `root`, a folder that is made when the first session is."""

    def __init__(
        self,
        root: Path,
        *,
        disk: Disk | None = None,
        make_gen: Callable[[], str] = new_gen,
        clock: Callable[[], int] = now_ms,
        patience_s: float = 2.0,
    ) -> None:
        self._disk = disk or OsDisk()
        self._blocking = BlockingStore(self._disk, str(root.absolute()), make_gen=make_gen, patience_s=patience_s)
        self._index = Index(self._disk, self._blocking.root)
        self._held: dict[str, JsonlSession] = {}
        self._clock = clock
        self._network_warning: str | None = None

    async def create(self, header: Header, records: Sequence[Record]) -> HeldSession:
        session_id = require_session_id(header.session_id)
        bodies = bodies_of(records, 0)
        work = partial(self._blocking.create, session_id, encode_header(header), bodies)
        log = await in_own_thread(work, f"create {session_id}", undo=HeldLog.close)
        loaded = Loaded(header, tuple(records))
        return self._hold(log, loaded)

    async def hold(self, session_id: str) -> HeldSession:
        require_session_id(session_id)
        if session_id in self._held:  # the kernel would refuse it too, but only after its patience
            raise SessionInUse(
                f"session {session_id!r} is open in this process", session_id=session_id, holder="this process"
            )
        log, loaded = await in_own_thread(
            partial(self._blocking.hold, session_id), f"load {session_id}", undo=lambda result: result[0].close()
        )
        return self._hold(log, loaded)

    def _hold(self, log: HeldLog, loaded: Loaded) -> JsonlSession:
        warning = self._warning()
        if log.refusal is not None:
            warning = f"{read_only_warning(log.path, log.refusal)}. {warning}".removesuffix(". ")
        held = JsonlSession(self._disk, log, loaded, warning=warning, let_go=self._forget)
        self._held[loaded.header.session_id] = held
        return held

    def _warning(self) -> str:
        if self._network_warning is None:
            self._network_warning = network_warning(os.path.realpath(self._blocking.root))
        return self._network_warning

    def _forget(self, held: JsonlSession) -> None:
        session_id = held.loaded.header.session_id
        if self._held.get(session_id) is held:
            del self._held[session_id]

    async def read(self, session_id: str, *, from_seq: int = 0, limit: int | None = None) -> Loaded:
        require_session_id(session_id)
        return await in_own_thread(partial(self._blocking.read, session_id, from_seq, limit), f"read {session_id}")

    async def list(self, filter: SessionFilter, *, cursor: str | None = None, limit: int = 50) -> Page:
        work = partial(self._list, filter, cursor, limit, frozenset(self._held))
        return await in_own_thread(work, "list sessions")

    def _list(self, filter: SessionFilter, cursor: str | None, limit: int, is_open: frozenset[str]) -> Page:
        self._blocking.check()
        try:
            return self._index.page(filter, cursor, limit, is_open=is_open)
        except OSError as exc:
            raise StoreError(f"cannot list {self._blocking.root}: {exc}", path=self._blocking.root) from exc

    async def delete(self, session_id: str) -> None:
        if not is_session_id(session_id):
            return
        held = self._held.get(session_id)
        if held is not None:
            await held.close()  # raises while a write is under way: then nothing may be removed
        remove = await in_own_thread(partial(self._blocking.discard, session_id), f"delete {session_id}")
        if remove is not None:
            Thread(target=remove, name=f"remove {session_id}", daemon=True).start()

    async def fork(self, session_id: str, header: Header, *, through: int) -> None:
        require_session_id(session_id)
        require_session_id(header.session_id)
        work = partial(self._blocking.fork, session_id, header.session_id, encode_header(header), through)
        await in_own_thread(work, f"fork {session_id}")

    async def sweep(self) -> int:
        """Remove what killed processes left half-made or half-removed, and sessions that stayed empty for a week.

        Returns how many folders went. Whatever is locked or cannot be removed is left for the next time.
        """
        return await in_own_thread(self._sweep, "sweep sessions")

    def _sweep(self) -> int:
        if not self._blocking.check():
            return 0
        before = self._clock() - int(EMPTY_FOR_S * 1000)
        try:
            entries = self._index.entries().items()
            empty = [
                session_id
                for session_id, entry in entries
                if entry.turns == 0 and entry.updated < before and not (entry.is_damaged or entry.is_unreadable)
            ]
            return sweep(self._blocking, empty)
        except OSError as exc:
            raise StoreError(f"cannot sweep {self._blocking.root}: {exc}", path=self._blocking.root) from exc

    async def verify(self, session_id: str) -> Verification:
        require_session_id(session_id)
        return await in_own_thread(partial(self._blocking.verify, session_id), f"verify {session_id}")

    async def salvage(self, session_id: str) -> Verification:
        require_session_id(session_id)
        if session_id in self._held:  # the kernel would refuse it too, but only after its patience
            raise SessionInUse(
                f"session {session_id!r} is open in this process", session_id=session_id, holder="this process"
            )
        work = partial(self._blocking.salvage, session_id, self._clock)
        return await in_own_thread(work, f"salvage {session_id}")
