"""The one way from a session's events to its disk: appends in order, joins streamed text, writes in groups.

Owns what is unsaved and what is durable. Knows neither when a barrier is due (the policy's business) nor what a
record looks like on disk (the store's). A write is never cancelled: the store sees it through, and its waiters leave.

Decision: one writer task a journal takes its batch after the loop has run once, so that barriers which fall due
together share a write and a sync; whatever nobody waits for is written in the background, at most five times a second.
"""

import hashlib
import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint

from acp_bridge.errors import PART_FAILURES, IllegalEvent, StoreError, StorePoisoned, StoreReplaced
from acp_bridge.text import mended_text

from .codec import encode_event
from .events import AssistantDelta, AssistantMessage, DeltaKind, Event, Record, contents_named
from .log import Log
from .pictures import pictures_in, with_newest_pictures, without_pictures
from .store import HeldSession
from .transcript import ModelRequest

logger = logging.getLogger(__name__)

BACKGROUND_S = 0.2
"""The longest that an event waits for a write nobody asked for."""

_JOIN_LIMIT = 32 * 1024
"""Characters of streamed text that are held back to be joined into one event."""


class Observer(Protocol):
    """Who is told of a session's events, in order, at once and synchronously."""

    def recorded(self, record: Record) -> None:
        """An event was logged; it need not be on disk yet."""
        ...

    def streamed(self, message_id: str, kind: DeltaKind, text: str) -> None:
        """A piece of an answer arrived."""
        ...

    def durable(self, seq: int) -> None:
        """Every event up to `seq` is on disk."""
        ...


class ObserverSource(Protocol):
    """Who gives an observer to each session that is opened in this process."""

    def observe(self, session_id: str) -> Observer:
        """Return who is told of this session's events, from its opening on."""
        ...


class _Round:
    """One write, waited for by those who asked for it."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.error: StoreError | None = None


class Journal:
    """The log of one held session and its way to the disk.

    Attributes:
        log: the events in memory and their folds.
        durable_seq: every event up to this seq is on disk.
        failure: why nothing can be saved now; cleared by a salvage that succeeds.
    """

    def __init__(self, log: Log, held: HeldSession, *, unsaved: Sequence[Record] = (), repair: bool = False) -> None:
        """`unsaved` are the last records of `log`, not on disk yet; `repair` makes their write a repair."""
        self.log = log
        self.held = held
        self.failure: StoreError | None = None
        self.durable_seq = log.last_seq - len(unsaved)
        self._unsaved: list[Record] = list(unsaved)
        self._observers: list[Observer] = []
        self._on_failure: list[Callable[[StoreError], None]] = []
        self._joining: tuple[int, int, str, DeltaKind] | None = None
        self._pieces: list[str] = []
        self._pieces_size = 0
        self._dirty = anyio.Event()
        self._wanted = anyio.Event()
        self._round = _Round()
        self._salvaging = anyio.Lock(fast_acquire=True)
        self._attached: dict[str, bytes] = {}  # until the records that name them are on disk
        self._stored: set[str] = set()  # those of them that are
        self._repairing = repair
        self._stopped = False
        self._closed = False
        self.bytes_written = 0

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.log.header.session_id

    @property
    def last_seq(self) -> int:
        """Seq of the last event logged, streamed text included."""
        self.seal()
        return self.log.last_seq

    def observe(self, observer: Observer, since: Sequence[Record] = ()) -> Callable[[], None]:
        """Tell `observer` of every event from now on, and first of those `since`; what is returned undoes it."""
        self._observers.append(observer)
        for record in since:
            _tell_observer(observer.recorded, record)

        def undo() -> None:
            with suppress(ValueError):  # it was undone before: a session may be closed again after the end of all
                self._observers.remove(observer)

        return undo

    def on_failure(self, tell: Callable[[StoreError], None]) -> None:
        """Call `tell` once when a background write fails."""
        self._on_failure.append(tell)

    def append(self, event: Event, *, synthetic: bool = False) -> Record:
        """Log `event` in memory and tell the observers. It is on disk once a `flush` through its seq returned.

        Raises:
            IllegalEvent: the nesting forbids it here, or JSON cannot carry it; nothing has changed.
        """
        encoded = _encode(event)
        repeated = isinstance(event, AssistantMessage) and self._joining is not None and self._joining[2] == event.id
        if not repeated:
            self.seal()
        record = self.log.append(event, synthetic=synthetic)
        if repeated:
            self._discard()  # the message holds the same text whole
        # Only what waits for the disk carries its bytes: the log in memory would be twice as large.
        self._keep(Record(record.seq, record.time, event, record.synthetic, encoded))
        for observer in self._observers:
            _tell_observer(observer.recorded, record)
        return record

    def attach(self, data: bytes, name: str = "") -> str:
        """Take the bytes of a content file that the next event names; return the name. They are stored before it.

        Args:
            data: what the file holds.
            name: its SHA-256 in hex, where that was made already, e.g. in a thread.
        """
        name = name or hashlib.sha256(data).hexdigest()
        self._attached[name] = data
        return name

    def unsaved_content(self, event: Event) -> dict[str, bytes]:
        """Return the bytes of the content files that an event names, as far as its record is not on disk yet."""
        return {name: self._attached[name] for name in contents_named(event) if name in self._attached}

    async def request(self, *, takes_images: bool = True) -> ModelRequest:
        """Return the model request that the log makes now, with its content files; lost ones are left out."""
        request = self.log.request()
        if not self.log.transcript.files:
            return request
        if not takes_images:
            return replace(request, messages=without_pictures(request.messages))
        messages = with_newest_pictures(request.messages)
        names = dict.fromkeys(image.file for image in pictures_in(messages))
        return replace(request, messages=messages, files=await self.contents(names))

    async def contents(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes of content files by name; lost ones are left out."""
        found: dict[str, bytes] = {}
        for name in names:
            data = self._attached.get(name) or await self.held.get_content(name)
            if data is not None:
                found[name] = data
        return found

    def stream(self, turn: int, step: int, message_id: str, kind: DeltaKind, text: str) -> None:
        """Take a piece of an answer: shown at once, joined with its neighbours into one event for the log."""
        key = (turn, step, message_id, kind)
        if key != self._joining:
            self.seal()
            self._joining = key
            self._dirty.set()
        self._pieces.append(text)
        self._pieces_size += len(text)
        for observer in self._observers:
            _tell_observer(observer.streamed, message_id, kind, text)
        if self._pieces_size > _JOIN_LIMIT:
            self.seal()

    def seal(self) -> None:
        """Make one event of the streamed pieces that wait."""
        if self._joining is None:
            return
        (turn, step, message_id, kind), text = self._joining, mended_text("".join(self._pieces))
        self._discard()
        event = AssistantDelta(turn=turn, step=step, message_id=message_id, kind=kind, text=text)
        self._keep(self.log.append(event))

    def _discard(self) -> None:
        self._joining = None
        self._pieces.clear()
        self._pieces_size = 0

    def _keep(self, record: Record) -> None:
        self._unsaved.append(record)
        self._dirty.set()

    async def flush(self, through: int) -> int:
        """Wait until every event up to seq `through` is on disk; return the bytes written meanwhile.

        Costs no system call if it is. Cancelling the wait leaves the write to go on.

        Raises:
            StoreError: it may not be, now or because of an earlier failure.
        """
        before = self.bytes_written
        while self.durable_seq < through:
            if self.failure is not None:
                raise StorePoisoned(
                    f"session {self.session_id} cannot be saved: {self.failure}", session_id=self.session_id
                ) from self.failure
            if self._stopped:
                raise StorePoisoned(f"session {self.session_id} is closed", session_id=self.session_id)
            waited_for = self._round
            self._wanted.set()
            await waited_for.done.wait()
            if waited_for.error is not None and self.durable_seq < through:
                raise waited_for.error
        return self.bytes_written - before

    async def confirm(self) -> None:
        """Make sure that the session is still held; if it is somebody else's, nothing is saved here any more.

        Raises:
            StoreError: it is not, or that cannot be told now.
        """
        try:
            with self._defects_as_store_errors():
                await self.held.confirm()
        except StoreReplaced as exc:
            self._fail(exc)  # no later barrier may pass, and whoever streams is told
            raise

    async def run(self) -> None:
        """Write what is wanted, and in the background what is not, until cancelled."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write_what_nobody_waits_for)
                while True:
                    await self._wanted.wait()
                    await checkpoint()  # barriers that fall due together share the write
                    self._wanted = anyio.Event()
                    await self._write()
        finally:
            self._stopped = True
            self._announce()  # nobody writes any more: whoever waits is told

    async def _write_what_nobody_waits_for(self) -> None:
        while True:
            await self._dirty.wait()
            await anyio.sleep(BACKGROUND_S)
            self._dirty = anyio.Event()
            self.seal()
            if self._unsaved and self.failure is None:
                self._wanted.set()

    async def _write(self) -> StoreError | None:
        """Write what is unsaved; return why it still is."""
        self.seal()
        if self.failure is not None or not self._unsaved:
            self._announce()
            return self.failure
        batch = tuple(self._unsaved)
        try:
            await self._write_content()
        except StoreReplaced:  # the log is gone too: its own write says so, and keeps elsewhere what it can
            pass
        except StoreError as exc:  # what a record needs is not there: the barrier fails, and the log is sound
            self._announce(exc)
            return exc
        try:
            with self._defects_as_store_errors():
                if self._repairing:
                    await self.held.repair(batch)
                    self._repairing = False
                else:
                    self.bytes_written += await self.held.append(batch)
        except StoreError as exc:
            self._fail(exc)
        else:
            self._mark_saved(batch)
        return self.failure

    async def _write_content(self) -> None:
        """Store the content files that unsaved records need, before them."""
        for name, data in list(self._attached.items()):
            if name not in self._stored:
                with self._defects_as_store_errors():
                    await self.held.put_content(data)
                self._stored.add(name)

    @contextmanager
    def _defects_as_store_errors(self) -> Generator[None]:
        try:
            yield
        except StoreError:
            raise
        except Exception as exc:
            logger.exception("the store of session %s failed", self.session_id)
            raise StorePoisoned(f"the store failed inside: {exc!r}", session_id=self.session_id) from exc

    def _fail(self, failure: StoreError) -> None:
        self.failure = failure
        logger.error("session %s cannot be saved: %s", self.session_id, failure)
        self._announce()
        for tell in self._on_failure:
            _tell_observer(tell, failure)

    def _mark_saved(self, batch: Sequence[Record]) -> None:
        del self._unsaved[: len(batch)]
        self.durable_seq = max(self.durable_seq, batch[-1].seq)
        for observer in self._observers:
            _tell_observer(observer.durable, self.durable_seq)
        self._announce()
        if self._attached:
            awaited = set[str]().union(*(contents_named(record.event) for record in self._unsaved))
            for name in self._stored - awaited:
                self._attached.pop(name, None)
            self._stored &= awaited

    def _announce(self, error: StoreError | None = None) -> None:
        ended, self._round = self._round, _Round()
        ended.error = error
        ended.done.set()

    async def salvage(self) -> None:
        """Try to heal a failed log by a rewrite from memory; does nothing if there is no failure.

        Raises:
            StoreError: it cannot be saved now either.
        """
        async with self._salvaging:  # a prompt and a change may both try; whoever comes second finds it done
            if self.failure is None:
                return
            self.seal()
            batch = tuple(self._unsaved)
            await self._write_content()
            with self._defects_as_store_errors():
                await self.held.salvage(batch)
            self.failure = None
            self._repairing = False
            if batch:
                self._mark_saved(batch)

    async def close(self) -> None:
        """Write the rest, salvaging once if need be, and let the session go. Closing twice does nothing.

        Needs no other task: `run` may be gone.

        Raises:
            StoreError: something could not be saved; the session is let go all the same.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if self.failure is not None:
                await self.salvage()
            if (unsaved := await self._write()) is not None:
                raise unsaved
        finally:
            self._announce()
            await self.held.close()


def _encode(event: Event) -> bytes:
    """Return the event as JSON, and keep out what no store could write: it would leave all that follow it unsaved."""
    try:
        return encode_event(event)
    except ValueError as exc:
        raise IllegalEvent(str(exc)) from exc


def _tell_observer(tell: Callable[..., None], *args: object) -> None:
    """Call an observer; one that raises is logged by its name and changes nothing."""
    try:
        tell(*args)
    except PART_FAILURES:
        logger.exception("the observer %s failed", getattr(tell, "__qualname__", tell))
