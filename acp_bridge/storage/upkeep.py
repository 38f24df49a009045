"""Looking after sessions that nobody has open: sweeping leftovers, verifying a log, going round its damage.

Each is done under the session's lock, or without it and changing nothing. Knows no event loop.
"""

from collections.abc import Callable, Iterable
from functools import partial

from acp_bridge.content import JsonObject
from acp_bridge.errors import SessionInUse, StoreError
from acp_bridge.session.events import Record, SessionSalvaged

from . import folder, lock, names
from .disk import APPEND, READ, remove_tree
from .lock import Lock
from .log import OpenLog
from .offline import Verification, verification
from .record import body_of
from .rewrite import rewrite
from .scan import Scan, read_bodies, scan
from .shelf import Shelf


class Upkeep:
    """What is done to the sessions of a shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def sweep(self, empty: Iterable[str]) -> int:
        """Remove leftovers, and those sessions of `empty` that are still without a turn; return how many."""
        gone = 0
        for name in self._shelf.disk.names(self._shelf.root):
            prefix, _, session_id = name.partition("-")
            if f"{prefix}-" in (folder.BUILT, folder.REMOVED) and names.is_session_id(session_id):
                gone += self._swept(session_id, partial(self._remove_leftover, name))
            elif names.is_session_id(name) and folder.has_no_log(self._shelf.disk, f"{self._shelf.root}/{name}"):
                gone += self._swept(name, partial(self._remove_if_without_log, name))
        for session_id in empty:
            gone += self._swept(session_id, partial(self._remove_if_empty, session_id))
        return gone

    def verify(self, session_id: str) -> Verification:
        """Check every record, without the lock."""
        self._shelf.find(session_id)
        mark = lock.peek_mark(self._shelf.disk, self._shelf.lock_path(session_id))
        with self._shelf.log_of(session_id, READ) as (fd, path):
            try:
                found = scan(self._shelf.disk, fd, session_id, path, mark=mark, take=_ignore)
            except OSError as exc:
                raise self._shelf.failed("read", session_id, exc) from exc
            return verification(session_id, path, found)

    def salvage(self, session_id: str, clock: Callable[[], int]) -> Verification:
        """Go round the damage of a corrupt log."""
        held = self._shelf.lock_of(session_id)
        try:
            with self._shelf.log_of(session_id, APPEND) as (fd, path):
                found = scan(self._shelf.disk, fd, session_id, path, mark=held.read_mark(), take=_ignore)
                if found.damage is None:
                    return verification(session_id, path, found)
                log = OpenLog(self._shelf.disk, held, path, fd, found.first, end=found.end, durable=found.end)
                log.explain(found.length)
                return self._salvaged(held, log, found, clock())
        finally:
            held.release()

    def _salvaged(self, held: Lock, log: OpenLog, found: Scan, time: int) -> Verification:
        session_id = found.first.header.session_id
        copy = f"cut-{found.first.gen}.jsonl"
        event = SessionSalvaged(lost_bytes=found.length - found.end, first_lost_seq=found.records, kept_file=copy)
        kept = read_bodies(self._shelf.disk, log.fd, found.first, found.end)
        last = body_of(Record(found.records, time, event, synthetic=True))
        try:
            self._shelf.disk.sync_folder(self._shelf.root)  # the mark that follows speaks for this name too
            new = rewrite(self._shelf.disk, held, log, kept, [last], gen=self._shelf.make_gen(), copy=copy)
            try:
                new.settle()
            finally:
                self._shelf.disk.close(new.fd)
        except OSError as exc:
            raise self._shelf.failed("salvage", session_id, exc) from exc
        return verification(session_id, log.path, found, kept_file=f"{self._shelf.root}/{session_id}/{copy}")

    def _swept(self, session_id: str, remove: Callable[[Lock], object]) -> int:
        """Call `remove` under the session's lock, if it is free; what fails is left for the next time."""
        try:
            held = lock.acquire(self._shelf.disk, self._shelf.lock_path(session_id), session_id, patience_s=0)
        except (SessionInUse, StoreError):
            return 0
        try:
            return 0 if remove(held) is False else 1
        except (OSError, StoreError):
            return 0
        finally:
            held.release()

    def _remove_leftover(self, name: str, _held: Lock) -> None:
        remove_tree(self._shelf.disk, f"{self._shelf.root}/{name}")

    def _remove_if_empty(self, session_id: str, held: Lock) -> bool:
        """Remove a session unless it got a turn since it was listed; called under its lock."""
        seen: list[JsonObject] = []
        with self._shelf.log_of(session_id, READ) as (fd, path):
            found = scan(self._shelf.disk, fd, session_id, path, take=seen.append)
        if found.damage or any(record["type"] == "turn/start" for record in seen):
            return False
        remove_tree(self._shelf.disk, folder.discard(self._shelf.disk, self._shelf.root, session_id, held))
        return True

    def _remove_if_without_log(self, session_id: str, _held: Lock) -> bool:
        """Remove what an undone making left under the session's name; called under its lock."""
        path = f"{self._shelf.root}/{session_id}"
        if not folder.has_no_log(self._shelf.disk, path):
            return False
        remove_tree(self._shelf.disk, path)
        return True


def _ignore(record: JsonObject) -> None:
    """Take a record for no more than its checksum."""
