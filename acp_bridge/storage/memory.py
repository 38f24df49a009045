"""Sessions in memory, for tests and for those who want nothing kept.

Owns what a store must remember, and can be told to fail as a disk does. Passes the same contract as the disk's. Keeps
nothing past its process, so it has nothing to sync, to sweep or to lose in part.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import anyio.lowlevel

from acp_bridge.errors import SessionInUse, StoreError, StorePoisoned
from acp_bridge.session.codec import encode_record
from acp_bridge.session.events import Header, Record, TurnEnded
from acp_bridge.session.store import HeldSession, Loaded, Page, SessionFilter, SessionSummary, Verification

from .folder import not_found, require_session_id
from .format import check_order, size_of_record
from .listing import Digest, Selection, page_of


@dataclass(slots=True)
class _Kept:
    header: Header
    records: list[Record]
    content: dict[str, bytes] = field(default_factory=dict[str, bytes])
    holder: "_MemorySession | None" = None


class _MemorySession:
    """A hold on one session of a `MemoryStore`."""

    def __init__(self, store: "MemoryStore", kept: _Kept) -> None:
        self._store = store
        self._kept = kept
        self._poisoned = False
        self._loaded = Loaded(kept.header, tuple(kept.records))
        kept.holder = self

    @property
    def loaded(self) -> Loaded:
        return self._loaded

    @property
    def warning(self) -> str:
        return ""

    async def append(self, records: Sequence[Record]) -> int:
        with anyio.CancelScope(shield=True):  # a write that has begun runs to its end, as on a disk (D19)
            await anyio.lowlevel.checkpoint()
        self._check_held()
        return self._write(records)

    async def confirm(self) -> None:
        self._check_held()

    async def repair(self, closers: Sequence[Record]) -> None:
        await self.append(closers)

    async def salvage(self, unsaved: Sequence[Record]) -> None:
        self._check_held()
        was, self._poisoned = self._poisoned, False  # one try with the poison off: it heals, or is as before
        try:
            self._write([record for record in unsaved if record.seq >= len(self._kept.records)])
        except BaseException:
            self._poisoned = self._poisoned or was
            raise

    async def put_content(self, data: bytes) -> str:
        self._check_held()
        if self._store.failing:
            raise StoreError("no content file can be written: the store is failing", session_id=self._id)
        name = hashlib.sha256(data).hexdigest()
        self._kept.content[name] = data
        return name

    async def get_content(self, name: str) -> bytes | None:
        return self._kept.content.get(name)

    async def close(self) -> None:
        if self._kept.holder is self:
            self._kept.holder = None

    @property
    def _id(self) -> str:
        return self._kept.header.session_id

    def _check_held(self) -> None:
        if self._kept.holder is not self:
            raise StoreError(f"session {self._id!r} is closed; load it again", session_id=self._id)

    def _write(self, records: Sequence[Record]) -> int:
        check_order(records, len(self._kept.records))
        self._poisoned = self._poisoned or (self._store.failing and bool(records))
        if self._poisoned:
            raise StorePoisoned(f"session {self._id!r} cannot be saved until it is salvaged", session_id=self._id)
        size = sum(size_of_record(record) for record in records)
        self._kept.records.extend(map(_without_bytes, records))
        return size


class MemoryStore:
    """Keeps sessions as long as it lives.

    Attributes:
        failing: every write poisons its session, as on a full disk, until this is False and the session is salvaged.
    """

    def __init__(self) -> None:
        self.failing = False
        self._sessions: dict[str, _Kept] = {}

    def crash(self) -> None:
        """Forget every hold, as if the process had been killed: what was appended stays, locks are free."""
        for kept in self._sessions.values():
            kept.holder = None

    async def create(self, header: Header, records: Sequence[Record]) -> HeldSession:
        await anyio.lowlevel.checkpoint()
        return _MemorySession(self, self._make(header, records))

    async def hold(self, session_id: str) -> HeldSession:
        await anyio.lowlevel.checkpoint()
        kept = self._find(session_id)
        if kept.holder is not None:
            raise _in_use(session_id)
        return _MemorySession(self, kept)

    async def read(self, session_id: str, *, from_seq: int = 0, limit: int | None = None) -> Loaded:
        await anyio.lowlevel.checkpoint()
        kept = self._find(session_id)
        first, end = max(from_seq, 0), len(kept.records)
        next_seq = end if limit is None else min(first + limit, end)
        return Loaded(kept.header, tuple(kept.records[first:next_seq]), next_seq=next_seq, has_more=next_seq < end)

    async def list(self, filter: SessionFilter, *, cursor: str | None = None, limit: int = 50) -> Page:
        await anyio.lowlevel.checkpoint()
        lines = {line.session_id: line for line in map(self._summary, self._sessions.values())}
        wanted = Selection(filter)
        shown = [
            (line.updated, line.session_id)
            for line in lines.values()
            if wanted.takes(line.cwd, line.turns, is_open=line.state == "open")
        ]
        places, following = page_of(shown, cursor, limit)
        return Page(tuple(lines[session_id] for _, session_id in places), following)

    async def delete(self, session_id: str) -> None:
        await anyio.lowlevel.checkpoint()
        kept = self._sessions.pop(session_id, None)
        if kept is not None:
            kept.holder = None

    async def sweep(self) -> int:
        """There is nothing to sweep: what is in memory goes with its process."""
        return 0

    async def fork(self, session_id: str, header: Header, *, through: int) -> None:
        await anyio.lowlevel.checkpoint()
        source = self._find(session_id)
        prefix = source.records[: through + 1]
        if through < 0 or len(prefix) != through + 1 or not isinstance(prefix[-1].event, TurnEnded):
            raise StoreError(f"session {session_id!r} has no turn that ends at seq {through}", session_id=session_id)
        self._make(header, prefix).content.update(source.content)

    async def verify(self, session_id: str) -> Verification:
        await anyio.lowlevel.checkpoint()
        kept = self._find(session_id)
        size = sum(map(size_of_record, kept.records))
        return Verification(
            session_id=session_id, path="memory", records=len(kept.records), size=size, durable=size, dropped_bytes=0
        )

    async def salvage(self, session_id: str) -> Verification:
        """There is nothing to go round: what is in memory is never damaged."""
        if self._find(session_id).holder is not None:
            raise _in_use(session_id)
        return await self.verify(session_id)

    def _find(self, session_id: str) -> _Kept:
        kept = self._sessions.get(require_session_id(session_id))
        if kept is None:
            raise not_found(session_id)
        return kept

    def _make(self, header: Header, records: Sequence[Record]) -> _Kept:
        session_id = require_session_id(header.session_id)
        check_order(records, 0)
        if self.failing or session_id in self._sessions:
            reason = "the store is failing" if self.failing else "it exists"
            raise StoreError(f"session {session_id!r} cannot be made: {reason}", session_id=session_id)
        for record in records:
            encode_record(record)  # what no JSON carries is refused here, too
        kept = self._sessions[session_id] = _Kept(header, list(records))
        return kept

    def _summary(self, kept: _Kept) -> SessionSummary:
        found, header = Digest(), kept.header
        for record in kept.records:
            found.take(encode_record(record))
        return SessionSummary(
            session_id=header.session_id,
            cwd=header.cwd,
            roots=header.roots,
            title=found.title,
            created=header.created,
            updated=found.updated or header.created,
            turns=found.turns,
            state="open" if kept.holder else found.state,
            size=sum(map(size_of_record, kept.records)) + sum(map(len, kept.content.values())),
        )


def _in_use(session_id: str) -> SessionInUse:
    return SessionInUse(f"session {session_id!r} is open in this process", session_id=session_id, holder="this process")


def _without_bytes(record: Record) -> Record:
    """Return the record as it is kept: its JSON would be a second copy of it."""
    return replace(record, encoded=b"") if record.encoded else record
