"""The sessions that this process holds: made or taken under their locks, repaired, and let go together.

Owns which journals are open. Knows no agent and no client; which store it is, only the composition knows.
"""

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio
import anyio.to_thread

from acp_bridge.effects import pause_gc, unfreeze_gc
from acp_bridge.errors import IllegalEvent, SessionInUse, StoreUnsupported

from .events import Header, Record, SessionConfigured, SessionOpened
from .journal import Journal, ObserverSource
from .log import Log
from .recovery import Recovery, recovery_of
from .repair import closers
from .store import Loaded, Store

logger = logging.getLogger(__name__)

SESSION_ID_BYTES = 16

_MANY_RECORDS = 10_000
"""Records whose objects are too many to be looked at by every collection."""

_TOLD_BY = ("recorded", "streamed", "durable")


def milliseconds_now() -> int:
    """Return the time as records carry it."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a session works: absolute paths, `cwd` first of the roots."""

    cwd: str
    roots: tuple[str, ...]


class Sessions:
    """Journals by session id."""

    def __init__(
        self,
        store: Store,
        *,
        version: str,
        clock: Callable[[], int] = milliseconds_now,
        ids: Callable[[], str] | None = None,
        observers: Sequence[ObserverSource] = (),
    ) -> None:
        """`observers` are told of every session's events, from its opening on."""
        self.store = store
        self._observers = tuple(observers)
        self._version = version
        self._clock = clock
        self._ids = ids or (lambda: secrets.token_urlsafe(SESSION_ID_BYTES).replace("-", "_"))
        self._journals: dict[str, Journal] = {}
        self._taking: set[str] = set()

    def get(self, session_id: str) -> Journal | None:
        """Return an open session's journal."""
        return self._journals.get(session_id)

    async def new(self, place: Place, *, barriers: Sequence[str], config: dict[str, object]) -> Journal:
        """Make a session that is on disk when this returns.

        Raises:
            StoreError: it could not be made.
        """
        header = Header(
            session_id=self._ids(), created=self._clock(), version=self._version, cwd=place.cwd, roots=place.roots
        )
        log = Log(header, clock=self._clock)
        records = [log.append(self._opening_event(place, barriers))]
        if config:
            records.append(log.append(SessionConfigured(values=config)))
        held = await self.store.create(header, records)
        journal = self._journals[header.session_id] = Journal(log, held)
        self._observe(journal, records)
        return journal

    async def take(self, session_id: str, place: Place, *, barriers: Sequence[str]) -> tuple[Journal, Recovery]:
        """Take a stored session under its lock and close, in memory, what a crash left open.

        Nothing is written yet: the journal's next write is the repair, and the open barrier waits for it. Where there
        is nothing new to say, there is nothing to wait for either: what repair goes by is the last `session/opened`
        before a request, and one that would say the same over again changes nothing about that.

        Raises:
            SessionNotFound, SessionInUse, StoreCorrupt, StoreTooNew, StoreUnsupported: as the store says.
        """
        if session_id in self._journals or session_id in self._taking:
            raise SessionInUse(f"session {session_id} is open in this process", session_id=session_id)
        self._taking.add(session_id)
        try:
            held = await self.store.hold(session_id)
            try:
                opened = self._opening_event(place, barriers)
                log, unsaved, recovery = await anyio.to_thread.run_sync(self._repair, held.loaded, opened)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await held.close()
                raise
            journal = Journal(log, held, unsaved=unsaved, repair=True)
            self._journals[session_id] = journal
            self._observe(journal, unsaved)
            return journal, recovery
        finally:
            self._taking.discard(session_id)

    def _observe(self, journal: Journal, since: Sequence[Record]) -> None:
        """Have every source observe a session; one that cannot is logged and changes nothing."""
        for source in self._observers:
            try:
                observer = source.observe(journal.session_id)
                if missing := [name for name in _TOLD_BY if not callable(getattr(observer, name, None))]:
                    logger.error("the observer %s has no %s()", type(observer).__name__, missing[0])
                    continue
                journal.observe(observer, since)
            except Exception:
                logger.exception("the observer %s failed at session %s", type(source).__name__, journal.session_id)

    def _repair(self, loaded: Loaded, opened: SessionOpened) -> tuple[Log, list[Record], Recovery]:
        """Return the log, closed, what of it is not on disk, and what there is to tell. Takes long for a long log."""
        session_id = loaded.header.session_id
        with pause_gc():
            try:
                log = Log(loaded.header, loaded.records, clock=self._clock, next_seq=loaded.next_seq)
            except IllegalEvent as exc:
                raise StoreUnsupported(
                    f"session {session_id} holds events in an order that this version does not know: {exc}",
                    session_id=session_id,
                ) from exc
            closing = closers(log)
            last = log.records[-1].time if log.records else log.header.created
            unsaved = [log.append(event, synthetic=True, time=last) for event in closing]
            if closing or _is_in_doubt(loaded) or log.state.opened != opened:
                unsaved.append(log.append(opened))
            return log, unsaved, recovery_of(log.records, log.state, dropped_bytes=loaded.dropped_bytes)

    def _opening_event(self, place: Place, barriers: Sequence[str]) -> SessionOpened:
        return SessionOpened(version=self._version, barriers=tuple(barriers), cwd=place.cwd, roots=place.roots)

    async def close(self, session_id: str) -> None:
        """Save the rest of an open session and let it go; its agent must be quiet.

        Raises:
            StoreError: something could not be saved.
        """
        journal = self._journals.pop(session_id, None)
        if journal is not None:
            try:
                await journal.close()
            finally:
                if len(journal.log.records) > _MANY_RECORDS:
                    unfreeze_gc()  # of what loading it put away

    async def aclose(self) -> None:
        """Let every session go, side by side; all failures come together in one group."""
        failures: list[Exception] = []

        async def close(session_id: str) -> None:
            try:
                await self.close(session_id)
            except Exception as exc:  # noqa: BLE001  collected: one session's failure is not another's
                failures.append(exc)

        async with anyio.create_task_group() as tasks:
            for session_id in list(self._journals):
                tasks.start_soon(close, session_id)
        if failures:
            raise ExceptionGroup("sessions could not be saved", failures)


def _is_in_doubt(loaded: Loaded) -> bool:
    """Whether what was read has to be written or synced before it may be called saved."""
    return bool(loaded.dropped_bytes) or loaded.may_not_last or loaded.unconfirmed
