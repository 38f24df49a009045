"""Somebody else's store behind one boundary: what it raises or returns wrongly is a `StoreError` that names it.

Owns the words about a store that does not keep its port. Knows no store by name.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar, cast

from typing_extensions import get_protocol_members

from acp_bridge.effects import no_stray_cancellation
from acp_bridge.errors import PART_FAILURES, StoreError, StorePoisoned
from acp_bridge.text import describe

from .events import Header, Record
from .store import HeldSession, Loaded, Page, SessionFilter, Store, Verification

logger = logging.getLogger(__name__)

T = TypeVar("T")

_HELD_METHODS: Final = tuple(sorted(get_protocol_members(HeldSession) - {"loaded", "warning"}))
"""What is looked for at once; the two properties may fail, and are read when they are needed."""


class _Boundary:
    """Calls of one part, and what they may come to."""

    def __init__(self, part: str, session_id: str = "", kind: type[StoreError] = StoreError) -> None:
        self.part = part
        self._session_id = session_id
        self._kind = kind

    async def call(self, method: str, body: Callable[[], Awaitable[T]], *wanted: type) -> T:
        """Return what the part's method returned; a `StoreError` of its own goes through as it is."""
        try:
            async with no_stray_cancellation():
                value = await body()
        except StoreError:
            raise
        except PART_FAILURES as exc:
            logger.exception("the store %s failed in %s()", self.part, method)
            raise self.error(f"failed in {method}(): {describe(exc)}") from exc
        if wanted and not isinstance(value, wanted):
            raise self.error(f"returned {_name_of(value)} from {method}(), and not {wanted[0].__name__}")
        return value

    def error(self, what: str) -> StoreError:
        """Return the error of this kind."""
        return self._kind(f"the store {self.part} {what}", session_id=self._session_id)


class ContainedStore:
    """A store whose failures are its own.

    Args:
        store: keeps the port, or does not.
        part: what it is named by, e.g. `'mine:SqlStore'`.
    """

    def __init__(self, store: Store, part: str) -> None:
        self.inner = store
        self._part = part
        self._whole = _Boundary(part)

    async def create(self, header: Header, records: Sequence[Record]) -> HeldSession:
        """Make a session."""
        boundary = _Boundary(self._part, header.session_id)
        held = await boundary.call("create", lambda: self.inner.create(header, records))
        return self._contain(held, header.session_id, "create")

    async def hold(self, session_id: str) -> HeldSession:
        """Take a session's lock."""
        held = await _Boundary(self._part, session_id).call("hold", lambda: self.inner.hold(session_id))
        return self._contain(held, session_id, "hold")

    async def read(self, session_id: str, *, from_seq: int = 0, limit: int | None = None) -> Loaded:
        """Read a session without its lock; a piece that ends nowhere, or holds more than was asked for, is refused."""
        boundary = _Boundary(self._part, session_id)
        loaded = await boundary.call(
            "read", lambda: self.inner.read(session_id, from_seq=from_seq, limit=limit), Loaded
        )
        if limit is not None and len(loaded.records) > limit:
            raise boundary.error(f"returned {len(loaded.records)} records from read(), where {limit} were asked for")
        if limit and loaded.has_more and loaded.next_seq <= from_seq:  # else its reader would go round for ever
            raise boundary.error(f"says that there is more behind record {from_seq}, and not where")
        return loaded

    async def list(self, filter: SessionFilter, *, cursor: str | None = None, limit: int = 50) -> Page:
        """Return a page of sessions; a cursor that is refused goes through as the `ValueError` that the port names."""

        async def list_page() -> Page | ValueError:
            try:
                return await self.inner.list(filter, cursor=cursor, limit=limit)
            except ValueError as exc:
                if cursor is None:  # then it is not the caller's mistake
                    raise
                return exc

        page = await self._whole.call("list", list_page)
        if isinstance(page, ValueError):
            raise page
        if not isinstance(cast("object", page), Page):
            raise self._whole.error(f"returned {_name_of(page)} from list(), and not Page")
        return page

    async def delete(self, session_id: str) -> None:
        """Remove a session."""
        await _Boundary(self._part, session_id).call("delete", lambda: self.inner.delete(session_id))

    async def fork(self, session_id: str, header: Header, *, through: int) -> None:
        """Make a session from another's records."""
        boundary = _Boundary(self._part, session_id)
        await boundary.call("fork", lambda: self.inner.fork(session_id, header, through=through))

    async def sweep(self) -> int:
        """Remove leftovers."""
        return await self._whole.call("sweep", self.inner.sweep, int)

    async def verify(self, session_id: str) -> Verification:
        """Check a session's records."""
        boundary = _Boundary(self._part, session_id)
        return await boundary.call("verify", lambda: self.inner.verify(session_id), Verification)

    async def salvage(self, session_id: str) -> Verification:
        """Go round damage."""
        boundary = _Boundary(self._part, session_id)
        return await boundary.call("salvage", lambda: self.inner.salvage(session_id), Verification)

    def _contain(self, held: HeldSession, session_id: str, method: str) -> HeldSession:
        if missing := [name for name in _HELD_METHODS if not callable(getattr(held, name, None))]:
            boundary = _Boundary(self._part, session_id)
            raise boundary.error(
                f"returned {_name_of(held)} from {method}(), which has no {', '.join(missing)}: it is no HeldSession"
            )
        return _ContainedSession(held, self._part, session_id)


class _ContainedSession:
    """A hold whose failed writes poison its log, as the port says."""

    def __init__(self, held: HeldSession, part: str, session_id: str) -> None:
        self.inner = held
        self._boundary = _Boundary(part, session_id, StorePoisoned)
        self._plain = _Boundary(part, session_id)

    @property
    def loaded(self) -> Loaded:
        """What was on disk."""
        try:
            loaded = cast("object", self.inner.loaded)
        except PART_FAILURES as exc:
            raise self._plain.error(f"failed in loaded: {describe(exc)}") from exc
        if not isinstance(loaded, Loaded):
            raise self._plain.error(f"has as loaded {_name_of(loaded)}, and not Loaded")
        return loaded

    @property
    def warning(self) -> str:
        """What the user should know."""
        try:
            return str(self.inner.warning)
        except PART_FAILURES:
            logger.exception("the store %s has no warning that can be read", self._plain.part)
            return ""

    async def append(self, records: Sequence[Record]) -> int:
        """Make records durable."""
        return await self._boundary.call("append", lambda: self.inner.append(records), int)

    async def confirm(self) -> None:
        """Make sure that the session is held; failing at it says nothing about what was written."""
        await self._plain.call("confirm", self.inner.confirm)

    async def repair(self, closers: Sequence[Record]) -> None:
        """Make the log end in closers."""
        await self._boundary.call("repair", lambda: self.inner.repair(closers))

    async def salvage(self, unsaved: Sequence[Record]) -> None:
        """Rewrite a poisoned log."""
        await self._boundary.call("salvage", lambda: self.inner.salvage(unsaved))

    async def put_content(self, data: bytes) -> str:
        """Store a content file."""
        return await self._plain.call("put_content", lambda: self.inner.put_content(data), str)

    async def get_content(self, name: str) -> bytes | None:
        """Return a content file's bytes."""
        return await self._plain.call("get_content", lambda: self.inner.get_content(name), bytes, type(None))

    async def close(self) -> None:
        """Let go of the lock."""
        await self._plain.call("close", self.inner.close)


def _name_of(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
