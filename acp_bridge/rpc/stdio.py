r"""The wire to one other process: two descriptors, a thread that reads and a thread that writes.

Owns the descriptors and the bytes on their way. Knows lines only as bytes that end in a newline, and no JSON.
"""

import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

import anyio
from anyio import from_thread
from anyio.lowlevel import EventLoopToken, checkpoint, current_token

from acp_bridge.descriptors import claim_stdio

READ_SIZE: Final = 64 * 1024
READ_AHEAD: Final = 4  # blocks read and not yet received; a pipe holds one
JOIN_SIZE: Final = 256 * 1024
QUEUE_SIZE: Final = 4 * 1024 * 1024
LATE_SIZE: Final = 512 * 1024  # far more than a reader that keeps pace leaves
BURST_SIZE: Final = 64 * 1024

logger = logging.getLogger(__name__)


def open_stdio() -> "Wire":
    """Return the wire over stdin and stdout, which nothing else can reach from now on (see `claim_stdio`)."""
    return Wire(*claim_stdio())


class Wire:
    """A `Transport` over two descriptors, which it owns: each thread closes its own when it ends.

    `async with wire:` runs the threads. Leaving waits for nothing: what is queued is still written, as long as the
    process lives; `drain` first, within a deadline, and then leave. Both threads are daemons, so that neither a
    read that never returns nor a client that never reads can hold up the end of the process.

    Everything but the threads' own loops belongs to the event loop's thread.

    Attributes:
        broken: set once the other side stopped taking what is sent. The input ends with it.
    """

    def __init__(self, source: int, sink: int, read: bytes = b"") -> None:
        """`read` is what was read from `source` already: it is received first."""
        self.broken = anyio.Event()
        self._source = source
        self._sink = sink
        self._token: EventLoopToken | None = None
        self._closing = False

        self._blocks: deque[bytes] = deque([read] if read else [])
        self._room = threading.Semaphore(READ_AHEAD - len(self._blocks))
        self._arrived = anyio.Event()
        self._ended = False

        self._queue: deque[bytes] = deque()
        self._wake = threading.Event()
        self._failed = False
        self._yielded = 0
        self._accepted = 0  # bytes, counted by `send` alone
        self._written = 0  # bytes, counted by the writer alone: so the difference needs no lock
        self._waiters: list[tuple[int, anyio.Event]] = []

    async def __aenter__(self) -> Self:
        self._token = current_token()
        for loop, name in ((self._read, "rpc-reader"), (self._write, "rpc-writer")):
            threading.Thread(target=loop, name=name, daemon=True).start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing = True
        self._wake.set()
        self._room.release()

    # --- in ---

    async def receive(self) -> bytes:
        """The next bytes; `b""` at the end of the input, or once the wire is broken, and from then on."""
        await checkpoint()
        while not (self._ended or self.broken.is_set()):
            if self._blocks:
                block = self._blocks.popleft()
                self._room.release()
                self._ended = not block
                return block
            self._arrived = anyio.Event()
            await self._arrived.wait()
        return b""

    def _read(self) -> None:
        try:
            block = b"\n"
            while block and not self._closing:
                block = _read_block(self._source)
                self._room.acquire()  # a reader that falls behind holds up the sender, not the memory
                if self._closing or not self._in_loop(self._deliver, block):
                    return
        finally:
            os.close(self._source)

    def _deliver(self, block: bytes) -> None:
        self._blocks.append(block)
        self._arrived.set()

    # --- out ---

    @property
    def pending_bytes(self) -> int:
        """How much was sent and is not with the operating system yet; what a broken wire dropped included."""
        return self._accepted - self._written

    @property
    def written_bytes(self) -> int:
        """How much the operating system has taken so far."""
        return self._written

    def send(self, line: bytes) -> None:
        """Queue `line` behind all that was sent before. Never blocks and always accepts; on a broken wire it drops."""
        self._accepted += len(line)
        if self._failed:
            return
        self._queue.append(line)
        if not self._wake.is_set():
            self._wake.set()

    @property
    def congested(self) -> bool:
        """Whether more is queued than the bound, and a reader may still take it."""
        return self._accepted - self._written > QUEUE_SIZE and not self._failed

    async def ready(self) -> None:
        """Wait while more is queued than the bound. For whoever sends in bulk."""
        if self.pending_bytes > QUEUE_SIZE and not self._failed:
            await self._until_pending(QUEUE_SIZE // 2)
        elif self._accepted - self._yielded > BURST_SIZE:  # however fast the client is, others have their turn
            await checkpoint()
        else:
            return
        self._yielded = self._accepted

    @property
    def behind(self) -> bool:
        """Whether more is queued than a reader that keeps pace leaves."""
        return self._accepted - self._written > LATE_SIZE and not self._failed

    async def caught_up(self) -> None:
        """Wait while the other side is behind."""
        await self._until_pending(LATE_SIZE // 2)

    async def drain(self, deadline_s: float) -> int:
        """Wait for all that was sent to be written, `deadline_s` at most; how many bytes were not."""
        with anyio.move_on_after(deadline_s):
            await self._until_pending(0)
        return self.pending_bytes

    async def _until_pending(self, most: int) -> None:
        waiter = (most, anyio.Event())
        self._waiters.append(waiter)  # before the look: the writer looks for waiters after it has counted
        try:
            if self.pending_bytes > most and not self._failed:
                await waiter[1].wait()
        finally:
            self._waiters.remove(waiter)

    def _write(self) -> None:
        try:
            while True:
                batch = self._next_batch()
                if batch:
                    self._write_batch(batch)
                    continue
                self._wake.clear()
                if self._queue:  # sent between the look and the clearing
                    continue
                if self._closing:
                    return
                self._wake.wait()
        except OSError as exc:
            self._failed = True
            self._queue.clear()
            self._in_loop(self._break, exc)
        finally:
            os.close(self._sink)

    def _next_batch(self) -> bytes:
        queue = self._queue
        if not queue:
            return b""
        first = queue.popleft()
        size = len(first)
        batch = [first]
        while queue and size + len(queue[0]) <= JOIN_SIZE:
            line = queue.popleft()
            size += len(line)
            batch.append(line)
        return first if len(batch) == 1 else b"".join(batch)

    def _write_batch(self, batch: bytes) -> None:
        view = memoryview(batch)
        while view:
            done = _write_some(self._sink, view[:JOIN_SIZE])
            view = view[done:]
            self._written += done
            if self._waiters:
                pending = self.pending_bytes
                if any(pending <= most for most, _ in self._waiters.copy()):
                    self._in_loop(self._release)

    def _release(self) -> None:
        for most, event in self._waiters:
            if self._failed or self.pending_bytes <= most:
                event.set()

    def _break(self, exc: OSError) -> None:
        logger.info("the other side takes no more: %s", exc)
        self.broken.set()
        self._arrived.set()
        self._release()

    def _in_loop(self, act: Callable[..., None], *args: Any) -> bool:
        """Let the event loop do `act`; whether there still was one."""
        try:
            from_thread.run_sync(act, *args, token=self._token)
        except RuntimeError:  # the loop has ended: nobody is left to be told
            return False
        return True


def _read_block(fd: int) -> bytes:
    while True:
        try:
            return os.read(fd, READ_SIZE)
        except BlockingIOError:  # whoever started us set the shared description to non-blocking
            select.select([fd], [], [])
        except OSError as exc:
            logger.info("the input cannot be read any further: %s", exc)
            return b""


def _write_some(fd: int, data: memoryview) -> int:
    while True:
        try:
            return os.write(fd, data)
        except BlockingIOError:  # as above; changing it back would change it for them too
            select.select([], [fd], [])
