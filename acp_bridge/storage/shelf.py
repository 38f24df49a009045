"""What a store does in a thread: making, opening, reading, removing and mending sessions under one root.

Owns the order of lock, folder and log. Knows no event loop; whoever calls has checked the ids.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from acp_bridge.content import JsonObject
from acp_bridge.effects import pause_gc
from acp_bridge.errors import StoreError, StoreUnsupported
from acp_bridge.session.codec import MalformedRecord, UnknownEvent, decode_record
from acp_bridge.session.events import Record, TurnEnded
from acp_bridge.session.store import Loaded

from . import content, folder, lock, names
from .disk import APPEND, READ, Disk, remove_tree
from .filesystem import CANNOT_BE_WRITTEN, with_remedy
from .header import FirstLine, parsed
from .held import HeldLog
from .lock import Lock
from .log import OpenLog
from .mark import Mark
from .rewrite import file_lines
from .scan import Scan, corrupt, read_bodies, scan


class Shelf:
    """The sessions under `root`."""

    def __init__(self, disk: Disk, root: str, *, make_gen: Callable[[], str], patience_s: float) -> None:
        self.root = root
        self.disk = disk
        self.make_gen = make_gen
        self._patience_s = patience_s
        self._is_ready = False

    def check(self) -> bool:
        """Whether the root is there; raises StoreError if it may not be used."""
        return folder.check_root(self.disk, self.root)

    def create(self, session_id: str, members: JsonObject, bodies: Sequence[bytes]) -> HeldLog:
        """Make a session and return it held."""
        held = self._lock_for_new(session_id)
        try:
            return self._build(held, session_id, members, bodies, {})
        except BaseException:
            held.release()
            raise

    def hold(self, session_id: str) -> tuple[HeldLog, Loaded]:
        """Return the session, held, and what is in it; where it cannot be written, it is held poisoned."""
        held = self.lock_of(session_id, take=lock.acquire_to_read)
        try:
            return self._open(held, session_id)
        except BaseException:
            held.release()
            raise

    def read(self, session_id: str, from_seq: int) -> Loaded:
        """Return what a reader sees, without the lock."""
        self.find(session_id)
        records: list[Record] = []
        with self.log_of(session_id, READ) as (fd, path):
            found = self._scan(fd, session_id, path, None, records)
        first = next((at for at, record in enumerate(records) if record.seq >= from_seq), len(records))
        return Loaded(found.first.header, tuple(records[first:]), found.length - found.end)

    def discard(self, session_id: str) -> Callable[[], None] | None:
        """Take the session out of its name, durably; the result removes it for good. None if it is not there."""
        if not (self.check() and folder.is_session(self.disk, self.root, session_id)):
            return None
        held = self._lock(session_id)
        try:
            self._prepare()
            trash = folder.discard(self.disk, self.root, session_id, held)
        except FileNotFoundError:
            held.release()
            return None
        except OSError as exc:
            held.release()
            raise self.failed("delete", session_id, exc) from exc
        except BaseException:
            held.release()
            raise
        return partial(self._remove, trash, held)

    def fork(self, session_id: str, new_id: str, members: JsonObject, through: int) -> None:
        """Make another session of this one's records up to seq `through`."""
        bodies, files = self._prefix(session_id, through)
        held = self._lock_for_new(new_id)
        try:
            made = self._build(held, new_id, members, bodies, files)
        except BaseException:
            held.release()
            raise
        made.close()

    def _build(
        self, held: Lock, session_id: str, members: JsonObject, bodies: Iterable[bytes], files: dict[str, bytes]
    ) -> HeldLog:
        gen = self.make_gen()
        lines = list(file_lines(session_id, gen, members, bodies))
        path = f"{self.root}/{session_id}/{folder.LOG}"
        try:
            fd = folder.build(self.disk, self.root, session_id, lines, files)
        except OSError as exc:
            raise self.failed("make", session_id, exc) from exc
        first: FirstLine = parsed(lines[0][:-1], session_id, path)
        size = sum(map(len, lines))
        log = OpenLog(self.disk, held, path, fd, first, end=size, durable=size)
        log.confirm_mark()
        return HeldLog(self.disk, held, log, self.make_gen, records=len(lines) - 1, found=None)

    def _open(self, held: Lock, session_id: str) -> tuple[HeldLog, Loaded]:
        records: list[Record] = []
        fd, path, refusal = self._open_log_of(held, session_id)
        try:
            with pause_gc():
                found = self._scan(fd, session_id, path, held.read_mark(), records)
            log = OpenLog(self.disk, held, path, fd, found.first, end=found.length, durable=found.durable)
            log.poison = refusal
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
        return HeldLog(self.disk, held, log, self.make_gen, records=found.records, found=found), loaded

    def _open_log_of(self, held: Lock, session_id: str) -> tuple[int, str, OSError | None]:
        """Open the log of a locked session for writing or, where that is refused, for reading; say why."""
        refusal = held.refusal
        if refusal is None:
            try:
                return (*self._open_log(session_id, APPEND), None)
            except StoreError as exc:
                refusal = exc.__cause__
                if not (isinstance(refusal, OSError) and refusal.errno in CANNOT_BE_WRITTEN):
                    raise
        return (*self._open_log(session_id, READ), refusal)

    def _scan(self, fd: int, session_id: str, path: str, mark: Mark | None, records: list[Record]) -> Scan:
        def take(envelope: JsonObject) -> None:
            record = decode_record(envelope)
            if record is not None:
                records.append(record)

        try:
            found = scan(self.disk, fd, session_id, path, mark=mark, take=take)
        except (UnknownEvent, MalformedRecord) as exc:
            raise StoreUnsupported(
                f"session {session_id!r} cannot be read by this version: {exc} ({path}); upgrade acp-stdio-bridge",
                session_id=session_id,
                path=path,
            ) from exc
        except OSError as exc:
            raise self.failed("read", session_id, exc) from exc
        if found.damage is not None:
            raise corrupt(session_id, path, found.damage)
        return found

    def _prefix(self, session_id: str, through: int) -> tuple[list[bytes], dict[str, bytes]]:
        """Return what the records up to seq `through` are made of, and the content files they need."""
        self.find(session_id)
        records: list[Record] = []
        with self.log_of(session_id, READ) as (fd, path):
            found = self._scan(fd, session_id, path, None, records)
            bodies = [
                body for seq, body in enumerate(read_bodies(self.disk, fd, found.first, found.end)) if seq <= through
            ]
        kept = [record for record in records if record.seq <= through]
        if not kept or kept[-1].seq != through or not isinstance(kept[-1].event, TurnEnded):
            raise StoreError(f"session {session_id!r} has no turn that ends at seq {through}", session_id=session_id)
        return bodies, folder.copied_content(self.disk, f"{self.root}/{session_id}", content.needed(kept))

    def find(self, session_id: str) -> None:
        """Raise SessionNotFound unless there is such a session, StoreError if it is a link."""
        if not self.check():
            raise names.not_found(session_id)
        path = f"{self.root}/{session_id}"
        try:
            if folder.is_session(self.disk, self.root, session_id):
                return
            self.disk.lstat(path)
        except FileNotFoundError as exc:
            raise names.not_found(session_id) from exc
        except OSError as exc:
            raise self.failed("find", session_id, exc) from exc
        raise StoreError(f"{path!r} is no folder, or a link to one", session_id=session_id, path=path)

    def lock_of(self, session_id: str, *, take: Callable[..., Lock] = lock.acquire) -> Lock:
        """Return the lock of a session that is there, taken by `take`."""
        self.find(session_id)  # an unknown id must not leave a lock file
        held = take(self.disk, self.lock_path(session_id), session_id, patience_s=self._patience_s)
        try:
            self.find(session_id)
        except BaseException:
            held.release()
            raise
        return held

    def _lock_for_new(self, session_id: str) -> Lock:
        try:
            self._prepare()
        except OSError as exc:
            raise self.failed("make", session_id, exc) from exc
        return self._lock(session_id)

    def _lock(self, session_id: str) -> Lock:
        return lock.acquire(self.disk, self.lock_path(session_id), session_id, patience_s=self._patience_s)

    def lock_path(self, session_id: str) -> str:
        """Return where the session's lock file is."""
        return f"{self.root}/{session_id}.lock"

    def _prepare(self) -> None:
        """Make the root, durably, once a process."""
        if not self._is_ready:
            folder.make_root(self.disk, self.root)
            self._is_ready = True
        self.check()

    @contextmanager
    def log_of(self, session_id: str, flags: int) -> Generator[tuple[int, str]]:
        """Open the session's log for the time of the context; give its descriptor and path."""
        fd, path = self._open_log(session_id, flags)
        try:
            yield fd, path
        finally:
            self.disk.close(fd)

    def _open_log(self, session_id: str, flags: int) -> tuple[int, str]:
        path = f"{self.root}/{session_id}/{folder.LOG}"
        try:
            return self.disk.open(path, flags), path
        except FileNotFoundError as exc:
            raise names.not_found(session_id) from exc  # it was deleted meanwhile, or its making was undone by halves
        except OSError as exc:
            raise self.failed("open", session_id, exc) from exc

    def _remove(self, trash: str, held: Lock) -> None:
        try:
            with suppress(OSError):  # the next sweep finds it
                remove_tree(self.disk, trash)
        finally:
            held.release()

    def failed(self, verb: str, session_id: str, exc: OSError) -> StoreError:
        """Return the error that says what could not be done to which session."""
        path = f"{self.root}/{session_id}"
        said = with_remedy(f"cannot {verb} session {session_id!r} in {path}: {exc}", exc)
        return StoreError(said, session_id=session_id, path=path)
