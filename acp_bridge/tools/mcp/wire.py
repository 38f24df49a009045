"""A server's pipes as messages: its answers are handed on, its requests declined, everything else is left.

Owns what waits to be written, and that nothing a server sends or refuses to read can fill memory or hold up a caller.
Knows no process.
"""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import anyio
import anyio.lowlevel
from anyio.abc import ByteReceiveStream, ByteSendStream

from acp_bridge.content import JsonObject
from acp_bridge.limits import SERVER_LINE
from acp_bridge.lines import LineSplitter, LongLine
from acp_bridge.rpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Failure,
    Invalid,
    Request,
    RequestId,
    Success,
    encode,
)

from .lines import LINE_COST, Throttle, message_in

OUTBOX = 64
"""Messages that may wait for a server that is slow to read."""
BLOCK = 16 * 1024
"""Bytes taken at once; a block full of junk keeps the loop for some milliseconds."""

Deliver: TypeAlias = Callable[[Success | Failure], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Talk:
    """What can be said to a server.

    Attributes:
        begin: shakes hands within so many seconds; returns whether it has tools.
        ask: sends a request and returns its result, within so many seconds. Both raise ToolError with words about the
            server, `TIMED_OUT` if it does not answer, and BrokenResourceError if its pipes are closed.
    """

    begin: Callable[[float], Awaitable[bool]]
    ask: Callable[[str, JsonObject, float], Awaitable[JsonObject]]


class Wire:
    """The pipes of one server."""

    def __init__(self, stdin: ByteSendStream, stdout: ByteReceiveStream) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._outbox, self._waiting = anyio.create_memory_object_stream[bytes](OUTBOX)
        self._lines = LineSplitter(SERVER_LINE)
        self._throttle = Throttle()
        self._awaited: set[RequestId] = set()
        self.ended = anyio.Event()
        self.junk = 0
        self.first_junk = ""

    async def run(self, deliver: Deliver) -> None:
        """Carry messages until either pipe is closed."""
        try:
            async with anyio.create_task_group() as tg:
                tg.start_soon(_ending, partial(self._read, deliver), tg.cancel_scope)
                tg.start_soon(_ending, self._write, tg.cancel_scope)
        finally:
            self.ended.set()
            self._outbox.close()
            self._waiting.close()

    def post(self, line: bytes, *, awaited: RequestId = None) -> None:
        """Have a line written, and expect an answer if it is a request.

        Never waits: a cancelled call posts its last words.

        Raises:
            BrokenResourceError, ClosedResourceError: the pipes are closed.
            WouldBlock: the server does not read.
        """
        self._outbox.send_nowait(line)
        if awaited is not None:
            self._awaited.add(awaited)

    def forget(self, request_id: RequestId) -> None:
        """Expect no answer to a request any more."""
        self._awaited.discard(request_id)

    async def _write(self) -> None:
        async for line in self._waiting:
            await self._stdin.send(line)

    async def _read(self, deliver: Deliver) -> None:
        while True:
            block = await self._stdout.receive(BLOCK)
            await self._throttle.pay(len(block) + LINE_COST * block.count(b"\n"))
            for line in self._lines.feed(block):
                if isinstance(line, LongLine):
                    await self._drop(deliver)
                elif line and not line.isspace():
                    await self._heard(bytes(line), deliver)

    async def _heard(self, line: bytes, deliver: Deliver) -> None:
        match message_in(line):
            case Success(request_id, result) if not isinstance(result, dict):
                self._awaited.discard(request_id)
                await deliver(Failure(request_id, INTERNAL_ERROR, "the answer is no object"))
            case Success() | Failure() as answer:
                self._awaited.discard(answer.id)
                await deliver(answer)
            case Request(request_id, "ping"):
                await self._outbox.send(encode(Success(request_id, {})))  # waits: who does not read is not read
            case Request(request_id, method):
                words = f"{method[:60]} is not offered by this client"
                await self._outbox.send(encode(Failure(request_id, METHOD_NOT_FOUND, words)))
            case Invalid():
                self.junk += 1
                self.first_junk = self.first_junk or line[:65536].decode("utf-8", "replace").strip()
            case _:
                await anyio.lowlevel.checkpoint()

    async def _drop(self, deliver: Deliver) -> None:
        """A line was too long to be held. If one answer is awaited, it was that."""
        self.junk += 1
        if len(self._awaited) == 1:
            words = f"the answer was longer than {SERVER_LINE >> 20} MiB and was dropped"
            await deliver(Failure(self._awaited.pop(), INVALID_REQUEST, words))


async def _ending(carry: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
    """Carry one way until its pipe is closed, and then end the other."""
    with contextlib.suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        await carry()
    scope.cancel()
