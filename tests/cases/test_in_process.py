"""Dispose where the agent is hosted: in the test's own process, over two pipes, with a store that tells the order."""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from support.loops import TRIO_WHEN_SLOW
from support.script import hang, say, use, written

from acp_bridge.app import serve
from acp_bridge.config import load
from acp_bridge.rpc import METHOD_NOT_FOUND, Handler, MemoryWire, Notification, Peer, Request, RpcError, Wire
from acp_bridge.session import Header, HeldSession, Record
from acp_bridge.storage import MemoryStore

pytestmark = pytest.mark.anyio


class Traced:
    """A held session that notes what becomes durable, and when it is let go."""

    def __init__(self, held: HeldSession, trace: list[str]) -> None:
        self._held, self._trace = held, trace

    def __getattr__(self, name: str) -> Any:
        return getattr(self._held, name)

    async def append(self, records: Sequence[Record]) -> int:
        written_bytes = await self._held.append(records)
        self._trace += [record.event.type for record in records]
        return written_bytes

    async def close(self) -> None:
        self._trace.append("closed")
        await self._held.close()


class TracedStore(MemoryStore):
    """A store in memory that gives traced sessions."""

    def __init__(self) -> None:
        super().__init__()
        self.trace: list[str] = []

    async def create(self, header: Header, records: Sequence[Record]) -> HeldSession:
        held: Any = Traced(await super().create(header, records), self.trace)
        return held


class Host:
    """The client's ends of the two pipes."""

    def __init__(self) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        self.wire_ends = theirs_in, theirs_out
        self.received: list[dict[str, Any]] = []
        self._held = b""

    def send(self, number: int, method: str, params: Any) -> None:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        os.write(self._out, json.dumps(message).encode() + b"\n")

    def hang_up(self) -> None:
        os.close(self._out)

    async def until(self, word: str) -> dict[str, Any]:
        """Return the first message that has `word` in it."""
        while True:
            for message in self.received:
                if word in json.dumps(message):
                    return message
            block = await anyio.to_thread.run_sync(os.read, self._in, 65536)
            assert block, f"the output ended before {word}"
            *lines, self._held = (self._held + block).split(b"\n")
            self.received += [json.loads(line) for line in lines]

    def close(self) -> None:
        os.close(self._in)


@pytest.mark.parametrize("phase", ["idle", "stream it", "run it"])
async def test_storage_closes_after_the_turns_real_end_and_the_prompts_answer(tmp_path: Path, phase: str) -> None:
    script = written(
        tmp_path / "s.json",
        hang("I begin", when="stream it"),
        use("run_command", command="echo begun; sleep 600", when="run it"),
        say("Hello."),
    )
    environment = {"ACP_BRIDGE_MODEL": f"scripted:{script}", "ACP_BRIDGE_MODE": "full", "PATH": os.environ["PATH"]}
    store, host, codes, answer = TracedStore(), Host(), list[int](), dict[str, Any]()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:

            async def agent() -> None:
                codes.append(await serve(load(environment), Wire(*host.wire_ends), store=store))

            tasks.start_soon(agent)
            host.send(1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
            host.send(2, "session/new", {"cwd": str(tmp_path), "mcpServers": []})
            session = (await host.until('"id": 2'))["result"]["sessionId"]
            host.send(3, "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": phase}]})
            await host.until({"idle": '"id": 3', "stream it": "I begin", "run it": "begun"}[phase])
            host.hang_up()
            answer = await host.until('"id": 3')
    host.close()
    assert codes == [0]
    assert answer["result"] == {"stopReason": "end_turn" if phase == "idle" else "cancelled"}
    assert store.trace[-3:] == ["step/end", "turn/end", "closed"]


@TRIO_WHEN_SLOW
async def test_a_host_outlives_the_agent_that_it_served(tmp_path: Path) -> None:
    """The watchdog guards the end of the agent, and not the life of the process behind it."""
    environment = {"ACP_BRIDGE_MODEL": f"scripted:{written(tmp_path / 's.json')}", "ACP_BRIDGE_HOME": str(tmp_path)}
    host = Host()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:

            async def agent() -> None:
                await serve(load(environment), Wire(*host.wire_ends), store=MemoryStore())

            tasks.start_soon(agent)
            host.send(1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
            await host.until('"id": 1')
            host.hang_up()
    host.close()
    began = time.monotonic()
    await anyio.sleep(3)  # longer than the deadline and the watchdog behind it
    assert time.monotonic() - began >= 3


async def test_an_agent_is_served_through_memory_and_ends_with_its_client(tmp_path: Path) -> None:
    script = written(tmp_path / "s.json", say("Hello."))
    environment = {"ACP_BRIDGE_MODEL": f"scripted:{script}", "PATH": os.environ["PATH"]}
    store, codes = TracedStore(), list[int]()
    agents_end, editors_end = MemoryWire.pair()
    said: list[Notification] = []
    answer: Any = None

    def refuse(request: Request) -> Handler:
        raise RpcError(METHOD_NOT_FOUND, request.method)

    async def agent() -> None:
        codes.append(await serve(load(environment), agents_end, store=store))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent)
            editor = Peer(editors_end, admit=refuse, notify=said.append)
            async with editors_end, editor, anyio.create_task_group() as hearing:
                hearing.start_soon(editor.serve)
                await editor.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
                session = await editor.request("session/new", {"cwd": str(tmp_path), "mcpServers": []})
                prompt = {"sessionId": session["sessionId"], "prompt": [{"type": "text", "text": "Hi"}]}
                answer = await editor.request("session/prompt", prompt)
                hearing.cancel_scope.cancel()
    assert answer == {"stopReason": "end_turn"}
    assert any("Hello." in str(notification.params) for notification in said)
    assert codes == [0]
    assert store.trace[-3:] == ["step/end", "turn/end", "closed"]
