"""The store as it blocks: making, opening, reading, verifying, salvaging and removing sessions under one root.

Owns the order of lock, folder and log: the lock first, then a look at what is there, then the log. Knows no event loop
and no thread; whoever calls has checked the ids.
"""

import stat
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from acp_bridge.content import JsonObject
from acp_bridge.effects import pause_gc
from acp_bridge.errors import StoreError, StoreUnsupported
from acp_bridge.session.codec import MalformedRecord, UnknownEvent, decode_record
from acp_bridge.session.events import Record, SessionSalvaged, TurnEnded
from acp_bridge.session.store import Loaded, Verification

from . import folder
from .disk import APPEND, READ, Disk, remove_tree
from .filesystem import CANNOT_BE_WRITTEN, with_remedy
from .format import body_of, parse_first_line
from .held_log import HeldLog
from .lock import Lock, Mark, acquire, acquire_to_read, peek_mark, release_on_failure
from .log import LogFile, lines_of, rewrite
from .scan import Bookmark, Scan, corruption, read_bodies, scan, skip, verification

_BOOKMARKS = 32
"""How many sessions that are read in pieces are remembered; one that is forgotten is read from its first record."""


class BlockingStore:
    """The sessions under `root`."""

    def __init__(self, disk: Disk, root: str, *, make_gen: Callable[[], str], patience_s: float) -> None:
        self.root = root
        self.disk = disk
        self.make_gen = make_gen
        self._patience_s = patience_s
        self._is_ready = False
        self._bookmarks: dict[str, Bookmark] = {}  # where readers of pieces stopped last

    def check(self) -> bool:
        """Whether the root is there; raises StoreError if it may not be used."""
        return folder.check_root(self.disk, self.root)

    def create(self, session_id: str, members: JsonObject, bodies: Sequence[bytes]) -> HeldLog:
        """Make a session and return it held."""
        lock = self._lock_for_new(session_id)
        with release_on_failure(lock):
            return self._build(lock, session_id, members, bodies, {})

    def hold(self, session_id: str) -> tuple[HeldLog, Loaded]:
        """Return the session, held, and what is in it; where it cannot be written, it is held poisoned."""
        lock = self._lock_existing(session_id, take=acquire_to_read)
        with release_on_failure(lock):
            return self._open(lock, session_id)

    def read(self, session_id: str, from_seq: int, limit: int | None) -> Loaded:
        """Return what a reader sees, without the lock, and of that no more than `limit` records in memory.

        A piece is read from where an earlier one ended, if that was in the same file: all of them cost what one does.
        """
        self._find(session_id)
        records: list[Record] = []

        def take(record: Record) -> bool:
            if record.seq >= from_seq:
                if len(records) == limit:
                    return True
                records.append(record)
            return False

        bookmark = None if limit is None else self._bookmarks.pop(session_id, None)
        if bookmark is not None and bookmark.records > from_seq:
            bookmark = None
        with self.open_log(session_id, READ) as (fd, path):
            found = self._scan(fd, session_id, path, None, take, bookmark)
        if found.stopped:
            self._bookmarks[session_id] = found.bookmark
            for oldest in tuple(self._bookmarks)[:-_BOOKMARKS]:  # of readers that went before the end
                self._bookmarks.pop(oldest, None)
        dropped = 0 if found.stopped else found.length - found.end
        return Loaded(found.first.header, tuple(records), dropped, next_seq=found.records, has_more=found.stopped)

    def verify(self, session_id: str) -> Verification:
        """Check every record, without the lock."""
        self._find(session_id)
        mark = peek_mark(self.disk, self.lock_path(session_id))
        with self.open_log(session_id, READ) as (fd, path):
            try:
                found = scan(self.disk, fd, session_id, path, mark=mark, take=skip)
            except OSError as exc:
                raise self._failure("read", session_id, exc) from exc
        return verification(session_id, path, found)

    def salvage(self, session_id: str, clock: Callable[[], int]) -> Verification:
        """Keep what is before the damage of a corrupt log in a new one, and the damaged file beside it (D26)."""
        lock = self._lock_existing(session_id)
        try:
            with self.open_log(session_id, APPEND) as (fd, path):
                found = scan(self.disk, fd, session_id, path, mark=lock.read_mark(), take=skip)
                if found.damage is None:
                    return verification(session_id, path, found)
                log = LogFile(self.disk, lock, path, fd, found.first, end=found.end, durable=found.end)
                log.set_damaged(found.length)
                return self._rewrite_without_damage(lock, log, found, clock())
        finally:
            lock.release()

    def discard(self, session_id: str) -> Callable[[], None] | None:
        """Take the session out of its name, durably; the result removes it for good. None if it is not there."""
        if not (self.check() and folder.is_session(self.disk, self.root, session_id)):
            return None
        lock = self._lock(session_id)
        with release_on_failure(lock):
            try:
                self._prepare()
                trash = folder.discard(self.disk, self.root, session_id, lock)
            except FileNotFoundError:
                lock.release()
                return None
            except OSError as exc:
                raise self._failure("delete", session_id, exc) from exc
        return partial(self._remove, trash, lock)

    def fork(self, session_id: str, new_id: str, members: JsonObject, through: int) -> None:
        """Make another session of this one's records up to seq `through`."""
        bodies, files = self._read_prefix(session_id, through)
        lock = self._lock_for_new(new_id)
        with release_on_failure(lock):
            made = self._build(lock, new_id, members, bodies, files)
        made.close()

    def lock_path(self, session_id: str) -> str:
        """Return where the session's lock file is."""
        return f"{self.root}/{session_id}.lock"

    @contextmanager
    def open_log(self, session_id: str, flags: int) -> Generator[tuple[int, str]]:
        """Open the session's log for the time of the context; give its descriptor and path."""
        fd, path = self._open_file(session_id, flags)
        try:
            yield fd, path
        finally:
            self.disk.close(fd)

    def _build(
        self, lock: Lock, session_id: str, members: JsonObject, bodies: Iterable[bytes], files: dict[str, bytes]
    ) -> HeldLog:
        gen = self.make_gen()
        lines = list(lines_of(session_id, gen, members, bodies))
        path = f"{self.root}/{session_id}/{folder.LOG}"
        try:
            fd = folder.build(self.disk, self.root, session_id, lines, files)
        except OSError as exc:
            raise self._failure("make", session_id, exc) from exc
        first = parse_first_line(lines[0][:-1], session_id, path)
        size = sum(map(len, lines))
        log = LogFile(self.disk, lock, path, fd, first, end=size, durable=size)
        log.confirm_mark()  # behind the folder's syncs, since it speaks for the names too
        return HeldLog(self.disk, lock, log, self.make_gen, records=len(lines) - 1, found=None)

    def _open(self, lock: Lock, session_id: str) -> tuple[HeldLog, Loaded]:
        records: list[Record] = []
        fd, path, refusal = self._open_locked_file(lock, session_id)
        try:
            with pause_gc():
                found = self._scan(fd, session_id, path, lock.read_mark(), records.append)
            log = LogFile(self.disk, lock, path, fd, found.first, end=found.length, durable=found.durable)
            log.poison = refusal  # what can only be read is poisoned by that, and heals as from any other poison
        except BaseException:
            self.disk.close(fd)
            raise
        loaded = Loaded(
            found.first.header,
            tuple(records),
            found.length - found.end,
            may_not_last=found.may_not_last,
            next_seq=found.records,
            unconfirmed=not found.is_confirmed,
        )
        return HeldLog(self.disk, lock, log, self.make_gen, records=found.records, found=found), loaded

    def _open_locked_file(self, lock: Lock, session_id: str) -> tuple[int, str, OSError | None]:
        """Open the log of a locked session for writing or, where that is refused, for reading; say why."""
        refusal = lock.refusal
        if refusal is None:
            try:
                return (*self._open_file(session_id, APPEND), None)
            except StoreError as exc:
                refusal = exc.__cause__
                if not (isinstance(refusal, OSError) and refusal.errno in CANNOT_BE_WRITTEN):
                    raise
        return (*self._open_file(session_id, READ), refusal)  # shown as it was, rather than not at all (D17)

    def _open_file(self, session_id: str, flags: int) -> tuple[int, str]:
        path = f"{self.root}/{session_id}/{folder.LOG}"
        try:
            return self.disk.open(path, flags), path
        except FileNotFoundError as exc:
            raise folder.not_found(session_id) from exc  # it was deleted meanwhile, or its making was undone by halves
        except OSError as exc:
            raise self._failure("open", session_id, exc) from exc

    def _scan(
        self,
        fd: int,
        session_id: str,
        path: str,
        mark: Mark | None,
        take: Callable[[Record], bool | None],
        bookmark: Bookmark | None = None,
    ) -> Scan:
        def decode(envelope: JsonObject) -> bool | None:
            record = decode_record(envelope)
            return None if record is None else take(record)

        try:
            found = scan(self.disk, fd, session_id, path, mark=mark, take=decode, bookmark=bookmark)
        except (UnknownEvent, MalformedRecord) as exc:
            raise StoreUnsupported(
                f"session {session_id!r} cannot be read by this version: {exc} ({path}); upgrade acp-stdio-bridge",
                session_id=session_id,
                path=path,
            ) from exc
        except OSError as exc:
            raise self._failure("read", session_id, exc) from exc
        if found.damage is not None:
            raise corruption(session_id, path, found.damage)
        return found

    def _rewrite_without_damage(self, lock: Lock, log: LogFile, found: Scan, time: int) -> Verification:
        session_id = found.first.header.session_id
        copy = f"cut-{found.first.gen}.jsonl"
        event = SessionSalvaged(lost_bytes=found.length - found.end, first_lost_seq=found.records, kept_file=copy)
        kept = read_bodies(self.disk, log.fd, found.first, found.end)
        last = body_of(Record(found.records, time, event, synthetic=True))
        try:
            self.disk.sync_folder(self.root)  # the mark that follows speaks for this name too
            new = rewrite(self.disk, lock, log, kept, [last], gen=self.make_gen(), copy=copy)
            try:
                new.finish_rewrite()
            finally:
                self.disk.close(new.fd)
        except OSError as exc:
            raise self._failure("salvage", session_id, exc) from exc
        return verification(session_id, log.path, found, kept_file=f"{self.root}/{session_id}/{copy}")

    def _read_prefix(self, session_id: str, through: int) -> tuple[list[bytes], dict[str, bytes]]:
        """Return the bodies of the records up to seq `through`, and the content files they need."""
        self._find(session_id)
        records: list[Record] = []
        with self.open_log(session_id, READ) as (fd, path):
            found = self._scan(fd, session_id, path, None, records.append)
            bodies = [
                body for seq, body in enumerate(read_bodies(self.disk, fd, found.first, found.end)) if seq <= through
            ]
        kept = [record for record in records if record.seq <= through]
        if not kept or kept[-1].seq != through or not isinstance(kept[-1].event, TurnEnded):
            raise StoreError(f"session {session_id!r} has no turn that ends at seq {through}", session_id=session_id)
        return bodies, folder.read_contents(self.disk, f"{self.root}/{session_id}", folder.content_needed(kept))

    def _remove(self, trash: str, lock: Lock) -> None:
        try:
            with suppress(OSError):  # the next sweep finds it
                remove_tree(self.disk, trash)
        finally:
            lock.release()

    def _find(self, session_id: str) -> None:
        """Raise SessionNotFound unless there is such a session, StoreError if it is a link."""
        if not self.check():
            raise folder.not_found(session_id)
        path = f"{self.root}/{session_id}"
        try:
            status = self.disk.lstat(path)  # one look: it may get its name between two
        except FileNotFoundError as exc:
            raise folder.not_found(session_id) from exc
        except OSError as exc:
            raise self._failure("find", session_id, exc) from exc
        if not stat.S_ISDIR(status.st_mode):
            raise StoreError(f"{path!r} is no folder, or a link to one", session_id=session_id, path=path)

    def _lock_existing(self, session_id: str, *, take: Callable[..., Lock] = acquire) -> Lock:
        """Return the lock of a session that is there, taken by `take`."""
        self._find(session_id)  # an unknown id must not leave a lock file
        lock = take(self.disk, self.lock_path(session_id), session_id, patience_s=self._patience_s)
        with release_on_failure(lock):
            self._find(session_id)  # whoever had the lock may have deleted it
        return lock

    def _lock_for_new(self, session_id: str) -> Lock:
        try:
            self._prepare()
        except OSError as exc:
            raise self._failure("make", session_id, exc) from exc
        return self._lock(session_id)

    def _lock(self, session_id: str) -> Lock:
        return acquire(self.disk, self.lock_path(session_id), session_id, patience_s=self._patience_s)

    def _prepare(self) -> None:
        """Make the root, durably, once a process."""
        if not self._is_ready:
            folder.make_root(self.disk, self.root)
            self._is_ready = True
        self.check()

    def _failure(self, verb: str, session_id: str, exc: OSError) -> StoreError:
        """Return the error that says what could not be done to which session."""
        path = f"{self.root}/{session_id}"
        said = with_remedy(f"cannot {verb} session {session_id!r} in {path}: {exc}", exc)
        return StoreError(said, session_id=session_id, path=path)
