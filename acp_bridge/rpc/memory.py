"""The wire within one process: two ends that hear each other. For tests, and for programs that host the agent."""

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import anyio
from anyio.lowlevel import checkpoint

QUEUE_SIZE: Final = 4 * 1024 * 1024
LATE_SIZE: Final = 512 * 1024


class MemoryWire:
    """A `Connection`, one of a pair; leaving it closes it.

    Attributes:
        broken: never set: memory takes everything.
    """

    def __init__(self, incoming: "_Lane", outgoing: "_Lane") -> None:
        self.broken = anyio.Event()
        self._incoming = incoming
        self._outgoing = outgoing

    @classmethod
    def pair(cls) -> tuple[Self, Self]:
        """Two ends: what one sends the other receives."""
        there, back = _Lane(), _Lane()
        return cls(there, back), cls(back, there)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def receive(self) -> bytes:
        """The next bytes; `b""` once the other end is closed and all it sent was received."""
        await checkpoint()
        await self._incoming.until(lambda lane: bool(lane.blocks) or lane.closed)
        return self._incoming.take()

    def send(self, line: bytes) -> None:
        """Queue `line` for the other end. Never blocks and always accepts."""
        self._outgoing.put(line)

    @property
    def written_bytes(self) -> int:
        """How much the other end has received so far."""
        return self._outgoing.taken

    @property
    def congested(self) -> bool:
        """Whether more is queued than the bound."""
        return self._outgoing.pending > QUEUE_SIZE

    async def ready(self) -> None:
        """Wait while more is queued than the bound."""
        if self._outgoing.pending > QUEUE_SIZE:
            await self._outgoing.until(lambda lane: lane.pending <= QUEUE_SIZE)

    @property
    def behind(self) -> bool:
        """Whether much is queued."""
        return self._outgoing.pending > LATE_SIZE

    async def caught_up(self) -> None:
        """Wait while much is queued."""
        await self._outgoing.until(lambda lane: lane.pending <= LATE_SIZE // 2)

    async def drain(self, deadline_s: float) -> int:
        """Wait for the other end to receive all that was sent, `deadline_s` at most; how many bytes it did not."""
        with anyio.move_on_after(deadline_s):
            await self._outgoing.until(lambda lane: not lane.blocks)
        return self._outgoing.pending

    def close(self) -> None:
        """Send no more: the other end's input ends behind what was sent."""
        self._outgoing.close()


class _Lane:
    """One direction."""

    def __init__(self) -> None:
        self.blocks: deque[bytes] = deque()
        self.pending = 0
        self.taken = 0
        self.closed = False
        self._changed = anyio.Event()

    def put(self, line: bytes) -> None:
        if not self.closed:
            self.blocks.append(line)
            self.pending += len(line)
            self._change()

    def take(self) -> bytes:
        if not self.blocks:
            return b""
        block = self.blocks.popleft()
        self.pending -= len(block)
        self.taken += len(block)
        self._change()
        return block

    def close(self) -> None:
        self.closed = True
        self._change()

    async def until(self, holds: "Callable[[_Lane], bool]") -> None:
        while not holds(self):
            await self._changed.wait()

    def _change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
