"""A SOCKS5 proxy that leads every name to one port of this machine, and remembers who was asked for."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream


@dataclass(slots=True)
class Proxy:
    """Where it listens, and the names and ports that it was asked for."""

    port: int
    targets: list[str] = field(default_factory=list[str])


@asynccontextmanager
async def socks_proxy(to_port: int) -> AsyncGenerator[Proxy]:
    """Serve until the block is left (RFC 1928: no authentication, CONNECT by name)."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    proxy = Proxy(listener.extra(anyio.abc.SocketAttribute.local_port))

    async def handle(client: anyio.abc.SocketStream) -> None:
        async with client, await anyio.connect_tcp("127.0.0.1", to_port) as server:
            reader = BufferedByteReceiveStream(client)
            _, methods = await reader.receive_exactly(2)
            await reader.receive_exactly(methods)
            await client.send(b"\x05\x00")
            *_, kind, length = await reader.receive_exactly(5)
            assert kind == 3, "a name, not an address: names are looked up by the proxy"
            name = (await reader.receive_exactly(length)).decode()
            proxy.targets.append(f"{name}:{int.from_bytes(await reader.receive_exactly(2))}")
            await client.send(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_pump, reader, server)
                await _pump(server, client)
                tasks.cancel_scope.cancel()

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        try:
            yield proxy
        finally:
            tasks.cancel_scope.cancel()


async def _pump(source: anyio.abc.ByteReceiveStream, target: anyio.abc.ByteSendStream) -> None:
    try:
        async for data in source:
            await target.send(data)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return
