"""A small ACP client over a real agent process: for tests, for the tour, and for anybody who wants to drive an agent.

Owns the process and the exchange. Knows no agent's inside: it speaks bytes on pipes, as an editor does.
"""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
from anyio.abc import Process

from acp_bridge.rpc import METHOD_NOT_FOUND, Notification, Peer, Request, RpcError

Json: TypeAlias = dict[str, Any]
Answerer: TypeAlias = Callable[[Json], Awaitable[Json]]

CHILD_GONE_S = 5.0
"""How long an agent may take to end once its input is closed; then it is killed."""


def allowing(kind: str) -> Answerer:
    """Return an answerer of permission questions that picks the first option of `kind`, e.g. `"allow_once"`."""

    async def answer(params: Json) -> Json:
        for option in params["options"]:
            if option["kind"] == kind:
                return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
        return {"outcome": {"outcome": "cancelled"}}

    return answer


class _ProcessWire:
    """The agent's pipes as a transport."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._unsent: list[bytes] = []
        self._filled = anyio.Event()

    @property
    def congested(self) -> bool:
        return False

    async def receive(self) -> bytes:
        assert self._process.stdout is not None, "the process was made with a pipe"
        try:
            return await self._process.stdout.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return b""

    def send(self, line: bytes) -> None:
        self._unsent.append(line)
        self._filled.set()

    async def ready(self) -> None:
        pass

    @property
    def behind(self) -> bool:
        return False

    async def caught_up(self) -> None:
        pass

    async def drain(self, deadline_s: float) -> int:
        del deadline_s
        return 0

    async def pump(self) -> None:
        """Write what is sent, until cancelled or the agent stops reading."""
        assert self._process.stdin is not None, "the process was made with a pipe"
        while True:
            await self._filled.wait()
            self._filled = anyio.Event()
            lines, self._unsent = self._unsent, []
            try:
                await self._process.stdin.send(b"".join(lines))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


@dataclass(slots=True, eq=False)
class Client:
    """One connection to an agent process.

    Attributes:
        updates: params of every `session/update` so far, in order.
        permission: answers `session/request_permission`; replace it at any time.
    """

    process: Process
    peer: Peer
    updates: list[Json] = field(default_factory=list[Json])
    permission: Answerer = field(default_factory=lambda: allowing("allow_once"))
    on_update: Callable[[Json], None] = lambda _params: None

    async def initialize(self, capabilities: Json | None = None) -> Json:
        """Exchange versions and capabilities."""
        return await self.request("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities or {}})

    async def new_session(self, cwd: str) -> str:
        """Make a session and return its id."""
        result = await self.request("session/new", {"cwd": cwd, "mcpServers": []})
        return str(result["sessionId"])

    async def prompt(self, session_id: str, text: str) -> Json:
        """Send a text and wait for the turn's end."""
        return await self.request(
            "session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}
        )

    async def request(self, method: str, params: Json) -> Json:
        """Ask the agent.

        Raises:
            RpcError: it answered with an error, or is gone.
        """
        return await self.peer.request(method, params)

    def kill(self) -> None:
        """End the agent's whole process group with SIGKILL, as editors do."""
        os.killpg(self.process.pid, signal.SIGKILL)


@asynccontextmanager
async def running_agent(
    argv: Sequence[str] = (sys.executable, "-m", "acp_bridge"),
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> AsyncGenerator[Client]:
    """Start an agent and connect to it; leaving closes its input and, if it does not end, kills it."""
    process = await anyio.open_process(
        list(argv),
        env=env,
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None,
        start_new_session=True,  # a group of its own, so that `kill` ends all that the agent started
    )
    try:
        async with connected(process) as client:
            yield client
    finally:
        with anyio.CancelScope(shield=True):  # each wait in it is bounded, and a cancelled test leaves no agent behind
            await _end(process)


@asynccontextmanager
async def connected(process: Process) -> AsyncGenerator[Client]:
    """Speak to a process over its pipes."""
    wire = _ProcessWire(process)
    clients: list[Client] = []

    def admit(request: Request) -> Callable[[], Awaitable[Any]]:
        if request.method != "session/request_permission":
            raise RpcError(METHOD_NOT_FOUND, f"this client does not know {request.method}")
        return lambda: clients[0].permission(request.params)

    def notify(notification: Notification) -> None:
        if notification.method == "session/update":
            clients[0].updates.append(notification.params)
            clients[0].on_update(notification.params)

    peer = Peer(wire, admit=admit, notify=notify)
    clients.append(Client(process, peer))
    async with peer, anyio.create_task_group() as tasks:
        tasks.start_soon(wire.pump)
        tasks.start_soon(peer.serve)
        yield clients[0]
        tasks.cancel_scope.cancel()


async def _end(process: Process) -> None:
    if process.stdin is not None:
        with anyio.move_on_after(1):
            await process.stdin.aclose()
    with anyio.move_on_after(CHILD_GONE_S):
        await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()
    await process.aclose()
