"""The Store port: what keeps sessions, and the hold that one opener has on one of them.

Owns the contract that `memory`, `jsonl` and other people's backends pass (`acp_bridge.testing.store_contract`).
Knows no events' meaning, and no policy: when to wait for the disk is the checkpoint policy's business.

    Store                                       HeldSession
      create(header, records) -> HeldSession      loaded -> Loaded
      hold(session_id) -> HeldSession             warning -> str
      read(session_id, from_seq, limit)           append(records) -> int
        -> Loaded                                 confirm()
      list(filter, cursor, limit) -> Page         repair(closers)
      fork(session_id, header, through)           salvage(unsaved)
      delete(session_id)                          put_content(data) -> str
      sweep() -> int                              get_content(name) -> bytes | None
      verify(session_id) -> Verification          close()
      salvage(session_id) -> Verification

All are coroutines but `loaded` and `warning`. `fixtures/examples/noting_store.py` is a store that a configuration can
name. A store that is entered (`__aenter__`, `__aexit__`) is left when every session is saved and let go.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from .events import Header, Record

SessionState: TypeAlias = Literal["idle", "interrupted", "open", "damaged"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A session as it was read.

    Attributes:
        records: every record that holds, in order of `seq`.
        dropped_bytes: what followed the last record that holds and was not known durable; told to the user.
        may_not_last: the bytes read may be in the cache alone: a sync of them was attempted and not confirmed.
        unconfirmed: nothing says that all of what was read, and its name, were ever synced; the next save does it.
        next_seq: the seq that the next record has or must have; more than the last one's plus one behind records of a
            type that could be ignored.
        has_more: records of `next_seq` and later were left out because the reader asked for so many.
    """

    header: Header
    records: tuple[Record, ...]
    dropped_bytes: int = 0
    may_not_last: bool = False
    next_seq: int = 0
    unconfirmed: bool = False
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class Damage:
    """Where a log is corrupt: the 1-based line, its first byte, and what is wrong with it."""

    line: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A session's log, checked record by record.

    Attributes:
        path: the file, or what else a person finds the log by.
        records: how many hold.
        size: bytes of the log.
        durable: how many of them are known durable.
        dropped_bytes: what follows the records that hold and was not known durable: a crash's rest, no damage.
        damage: the first line that should hold and does not.
        kept_file: where a salvage left the damaged log.
    """

    session_id: str
    path: str
    records: int
    size: int
    durable: int
    dropped_bytes: int
    damage: Damage | None = None
    kept_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A line of a listing.

    Attributes:
        updated: time of the last record, milliseconds since the epoch.
        size: bytes on disk, content files included.
    """

    session_id: str
    cwd: str
    roots: tuple[str, ...]
    title: str
    created: int
    updated: int
    turns: int
    state: SessionState
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Which sessions a listing shows: those whose working directory is `cwd`, once both are resolved."""

    cwd: str | None = None
    with_empty: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Summaries, newest first, and the opaque cursor of the next page, if there is one."""

    sessions: tuple[SessionSummary, ...]
    cursor: str | None = None
    damaged: tuple[str, ...] = field(default=())


class HeldSession(Protocol):
    """One session under its lock, from `create` or `hold` until `close`. Calls do not overlap.

    `loaded` is what was on disk when it was taken.
    """

    @property
    def loaded(self) -> Loaded:
        """The session as it was when its lock was taken."""
        ...

    @property
    def warning(self) -> str:
        """What the user should know about where this session lies (a network file system), or `""`."""
        ...

    async def append(self, records: Sequence[Record]) -> int:
        """Make `records` durable, wholly or not at all, and return how many bytes that took.

        Returns only once they would survive a power cut. Cancelled, the write still runs to its end; the call waits for
        that a bounded time and then leaves it. The next call gets the same records again and skips what was written.

        Raises:
            StorePoisoned: a write or sync failed now or before; the records may not be on disk.
            StoreReplaced: somebody else touched the log; it is closed in this process.
        """
        ...

    async def confirm(self) -> None:
        """Make sure that this process still holds the session; called behind every barrier, before what it guards.

        A store whose locks the kernel keeps returns at once, without a system call. One whose hold can end without its
        doing, a lease at a service, asks there: else a second opener could be at work, and both would act.

        Raises:
            StoreReplaced: the session is somebody else's by now; it is closed in this process.
            StoreError: it cannot be told, or the session is closed; what is behind this barrier does not happen.
        """
        ...

    async def repair(self, closers: Sequence[Record]) -> None:
        """Make the log end in `closers`: cut what did not hold, rewrite what may not last, append durably.

        Raises:
            StorePoisoned, StoreReplaced: as `append`.
        """
        ...

    async def salvage(self, unsaved: Sequence[Record]) -> None:
        """Rewrite a poisoned log: what is known durable, then `unsaved`. Heals poison and nothing else.

        Raises:
            StorePoisoned: it could not be done now; the log stays poisoned.
            StoreReplaced: the file at the path is not the one that is held.
        """
        ...

    async def put_content(self, data: bytes) -> str:
        """Store a content file that a record is about to need, durably, and return its name (SHA-256 in hex).

        Raises:
            StoreError: it is not on disk. The log is not poisoned by that.
        """
        ...

    async def get_content(self, name: str) -> bytes | None:
        """Return the content file's bytes, or None if it is lost: missing, or not what its name says."""
        ...

    async def close(self) -> None:
        """Let go of the lock and of every descriptor. Closing twice does nothing.

        Raises:
            StoreBusy: a write is still in a thread; lock and descriptors are left to the process's exit.
        """
        ...


class Store(Protocol):
    """Append-only home of sessions; one writer each."""

    async def create(self, header: Header, records: Sequence[Record]) -> HeldSession:
        """Make a session that exists on disk, with `records` in it, when this returns.

        Raises:
            StoreError: it could not be made; nothing half-made is left to be listed.
        """
        ...

    async def hold(self, session_id: str) -> HeldSession:
        """Take the session's lock and load it, changing nothing.

        Raises:
            SessionNotFound, SessionInUse, StoreCorrupt, StoreTooNew, StoreUnsupported.
        """
        ...

    async def read(self, session_id: str, *, from_seq: int = 0, limit: int | None = None) -> Loaded:
        """Read a session without its lock: what holds now, and may be cut by its next opener.

        Args:
            session_id: the session, open or not.
            from_seq: records before it are left out.
            limit: how many records to return at most, so that a long log can be read in bounded pieces: go on from
                `Loaded.next_seq` while `Loaded.has_more`. 0 gives the header alone, None all there is.

        Raises:
            SessionNotFound, StoreCorrupt, StoreTooNew, StoreUnsupported.
        """
        ...

    async def list(self, filter: SessionFilter, *, cursor: str | None = None, limit: int = 50) -> Page:
        """Return a page of sessions, newest first; each is on exactly one page.

        Raises:
            ValueError: the cursor is not one of ours.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Remove the session for good. Deleting what is not there does nothing.

        Raises:
            SessionInUse: another process holds it.
            StoreBusy: this process is writing it.
        """
        ...

    async def fork(self, session_id: str, header: Header, *, through: int) -> None:
        """Make a session of `header` from the records of another up to seq `through`, a `turn/end`.

        Raises:
            SessionNotFound, StoreCorrupt, StoreTooNew, StoreUnsupported; StoreError if it could not be made.
        """
        ...

    async def sweep(self) -> int:
        """Remove what dead processes left half-made or half-removed, and sessions empty for a week; return how many.

        Takes each one's lock and looks again under it. Cancelling leaves the rest for another time.
        """
        ...

    async def verify(self, session_id: str) -> Verification:
        """Check every record of a session, without its lock and changing nothing.

        Raises:
            SessionNotFound, StoreTooNew; StoreCorrupt if not even the header can be read. Other damage is in the
            result.
        """
        ...

    async def salvage(self, session_id: str) -> Verification:
        """Go round a corrupt log's damage, under its lock: keep the records before it and, beside them, the whole log.

        Appends `session/salvaged`. Does nothing to a log that is not corrupt. Returns what was found before.

        Raises:
            SessionNotFound, SessionInUse, StoreTooNew; StoreCorrupt if not even the header can be read, so that nothing
            can be kept; StoreError if it could not be written.
        """
        ...
