"""The Store port: what keeps sessions, and the hold that one opener has on one of them.

Owns the contract that `memory`, `jsonl` and other people's backends pass (`acp_bridge.testing.store_contract`).
Knows no events' meaning, and no policy: when to wait for the disk is the checkpoint policy's business.
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
        next_seq: the seq that the next record must have; more than the last one's plus one where the log ends in
            records of a type that could be ignored.
    """

    header: Header
    records: tuple[Record, ...]
    dropped_bytes: int = 0
    may_not_last: bool = False
    next_seq: int = 0
    unconfirmed: bool = False


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

    async def read(self, session_id: str, *, from_seq: int = 0) -> Loaded:
        """Read a session without its lock: a view, not settled. Records before `from_seq` are left out.

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
