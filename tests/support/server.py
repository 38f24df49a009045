"""An HTTP server that answers exactly the bytes it is told to, for tests of anything that talks to a provider.

    async with serving([sse(openai.text("hi"), ...), status(429, {...})]) as server:
        ... server.url, server.requests, await server.hung_up.wait()

Each connection is answered once and closed. A reply is a list of steps: bytes go out as they are, each in a write of
its own; `Gate` waits for an event; `STALL` waits until the client hangs up; `CUT` resets the connection.
"""

import socket
import struct
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
import anyio.abc
import orjson


@dataclass(frozen=True, slots=True)
class Gate:
    """Wait for `event` before the next bytes."""

    event: anyio.Event


@dataclass(frozen=True, slots=True)
class Stall:
    """Wait until the client hangs up."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Reset the connection."""


STALL, CUT = Stall(), Cut()
Step: TypeAlias = bytes | Gate | Stall | Cut
Reply: TypeAlias = Sequence[Step]


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return orjson.loads(self.body)


@dataclass(slots=True)
class Server:
    """What a test sees of the server.

    Attributes:
        requests: in the order in which they came.
        hung_up: set when a client left while its reply stalled.
        repeat_last: whether the last reply serves every further request; else they get a 500 that says so.
    """

    port: int
    requests: list[Request] = field(default_factory=list[Request])
    hung_up: anyio.Event = field(default_factory=anyio.Event)
    asked: anyio.Event = field(default_factory=anyio.Event)

    @property
    def url(self) -> str:
        """The base address, without a path."""
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def serving(
    replies: Iterable[Reply] | Callable[[Request], Reply], *, repeat_last: bool = False
) -> AsyncGenerator[Server]:
    """Serve `replies`, one a request in order of arrival, or what a function makes of each request."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    server = Server(listener.extra(anyio.abc.SocketAttribute.local_port))
    queue = [] if callable(replies) else list(replies)

    def reply_to(request: Request) -> Reply:
        if callable(replies):
            return replies(request)
        if not queue:
            return status(500, {"error": {"message": "the test's server has no reply left"}})
        return queue[0] if repeat_last and len(queue) == 1 else queue.pop(0)

    async def handle(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            try:
                request = await _read(stream)
                if request is None:
                    return
                server.requests.append(request)
                server.asked.set()
                await _play(stream, reply_to(request), server)
            except (anyio.BrokenResourceError, anyio.EndOfStream):
                server.hung_up.set()

    async with listener, anyio.create_task_group() as tg:
        tg.start_soon(listener.serve, handle)
        try:
            yield server
        finally:
            tg.cancel_scope.cancel()


async def _read(stream: anyio.abc.SocketStream) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        try:
            data += await stream.receive()
        except anyio.EndOfStream:
            return None
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += await stream.receive()
    method, path, _ = first.split(" ", 2)
    return Request(method, path, headers, body)


async def _play(stream: anyio.abc.SocketStream, reply: Reply, server: Server) -> None:
    raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for step in reply:
        match step:
            case bytes():
                await stream.send(step)
            case Gate(event):
                await event.wait()
            case Stall():
                while True:
                    await stream.receive()
            case Cut():
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return


def head(code: int = 200, headers: dict[str, str] | None = None) -> bytes:
    """Return the head of an answer whose body ends with the connection."""
    lines = {"content-type": "text/event-stream", "connection": "close", **(headers or {})}
    return f"HTTP/1.1 {code} X\r\n".encode() + b"".join(f"{k}: {v}\r\n".encode() for k, v in lines.items()) + b"\r\n"


def chunk(data: bytes) -> bytes:
    """Return `data` as one HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"
CHUNKED = head(headers={"transfer-encoding": "chunked"})


def event(payload: Any, name: str = "") -> bytes:
    """Return a payload, JSON or text, as one server-sent event."""
    data = payload.encode() if isinstance(payload, str) else orjson.dumps(payload)
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + data + b"\n\n"


def sse(*payloads: Any) -> list[Step]:
    """Return a whole streamed answer, each payload in a chunk of its own."""
    return [CHUNKED, *(chunk(event(payload)) for payload in payloads), LAST_CHUNK]


def status(code: int, body: Any = None, headers: dict[str, str] | None = None) -> list[Step]:
    """Return a whole answer with a JSON, text or empty body."""
    data = b"" if body is None else body.encode() if isinstance(body, str) else orjson.dumps(body)
    kind = "text/html" if isinstance(body, str) else "application/json"
    return [head(code, {"content-type": kind, "content-length": str(len(data)), **(headers or {})}) + data]
