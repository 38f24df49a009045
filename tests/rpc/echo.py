"""A process that serves JSON-RPC on its standard descriptors and does what it is asked; driven by the tests."""

import os
import sys
from collections.abc import Callable
from typing import Any

import anyio

from acp_bridge.rpc import METHOD_NOT_FOUND, Handler, Notification, Peer, Request, RpcError, Wire, open_stdio


def peak_bytes() -> int:
    with open("/proc/self/status") as status:
        [line] = [line for line in status if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


class Methods:
    peer: Peer

    async def echo(self, params: Any) -> Any:
        return params

    async def fail(self, params: Any) -> Any:
        raise ValueError("secret")

    async def wait(self, params: Any) -> Any:
        await anyio.sleep_forever()

    async def surrogate(self, params: Any) -> Any:
        return "\ud800"

    async def peak(self, params: Any) -> Any:
        return peak_bytes()

    async def noise(self, params: Any) -> Any:
        print("print")
        print("unflushed", end="")
        os.write(1, b"descriptor\n")
        await anyio.run_process("echo child; cat; echo error >&2", stdin=None, stdout=None, stderr=None)
        return "quiet"

    async def ask(self, params: Any) -> Any:
        return await self.peer.request("client/ask", params)

    async def bulk(self, params: Any) -> Any:
        for n in range(params["count"]):
            await self.peer.ready()
            self.peer.send_notification("n", {"n": n, "text": "x" * params["size"]})
        return params["count"]

    async def flood(self, params: Any) -> Any:
        for n in range(params["count"]):
            self.peer.send_notification("n", {"n": n, "text": "x" * params["size"]})
        return params["count"]


def admit_to(methods: Methods) -> Callable[[Request], Handler]:
    def admit(request: Request) -> Handler:
        method = getattr(methods, request.method, None)
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, "no such method")
        return lambda: method(request.params)

    return admit


async def main(wire: Wire) -> int:
    methods = Methods()

    def notify(notification: Notification) -> None:
        pass

    async with wire:
        async with Peer(wire, admit=admit_to(methods), notify=notify) as peer:
            methods.peer = peer
            await peer.serve()
            with anyio.move_on_after(0.2):
                await peer.idle()
        undelivered = await wire.drain(5)
    return 1 if undelivered or wire.broken.is_set() else 0


if __name__ == "__main__":
    code = anyio.run(main, open_stdio(), backend=sys.argv[1])
    print(end="", flush=True)  # what lies unflushed must not reach the protocol even now
    os._exit(code)
