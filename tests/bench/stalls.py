"""How long one session's answer stands still while another session is loaded, edits a large file, or changes its model.

Run by hand: `python tests/bench/stalls.py [EVENTS]`. Prints the longest gap between two pieces of a streamed answer, as
its client receives them, beside the longest in a quiet spell of the same run; asserts nothing on time.

The aim is a stall of 50 ms at most. The provider sends a piece each 10 ms, so 10 is the least that can be shown.
"""

import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio

from acp_bridge.content import Text, ToolRequest
from acp_bridge.session import (
    AssistantMessage,
    Event,
    InputQueued,
    Place,
    Sessions,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from acp_bridge.storage import JsonlStore

SPACING_S = 0.01
OTHER = "anthropic:claude-sonnet-4-5"
BARRIERS = ("step", "request", "tool", "result", "turn", "open", "answer")
LARGE = "a line of a large file\n" * 400_000  # some 9 MB


class Provider(BaseHTTPRequestHandler):
    """Streams for ever; asked to edit, it asks for the tool once."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        last = request["messages"][-1]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            if last["role"] == "tool":
                self._end({"content": "done"}, "stop")
            elif "edit" in str(last["content"]):
                call = {"path": "large.txt", "old_text": "the needle", "new_text": "the thread"}
                function = {"name": "edit_file", "arguments": json.dumps(call)}
                self._end({"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]}, "stop")
            else:
                while True:
                    self._event({"choices": [{"index": 0, "delta": {"content": "word "}}]})
                    time.sleep(SPACING_S)
        except OSError:
            pass

    def _end(self, delta: dict[str, Any], reason: str) -> None:
        self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, event: dict[str, Any]) -> None:
        self.wfile.write(b"data: %s\n\n" % json.dumps(event).encode())
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def providing() -> Generator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()


async def stored(home: Path, cwd: Path, events: int) -> str:
    """Store a session of so many events; return its id."""
    sessions = Sessions(JsonlStore(home / "sessions"), version="1")
    place = Place(cwd=str(cwd), roots=(str(cwd),))
    journal = await sessions.new(place, barriers=BARRIERS, config={})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(journal.run)
        for turn in range(1, events // 9 + 1):
            for event in turn_of(turn):
                journal.append(event)
            if turn % 500 == 0:
                await journal.flush(journal.last_seq)
        await journal.flush(journal.last_seq)
        tasks.cancel_scope.cancel()
    await sessions.aclose()
    return journal.session_id


def turn_of(turn: int) -> list[Event]:
    said, call_id = (Text(text=f"Do it for the time {turn}."),), f"call_{turn}_1_1"
    request = ToolRequest(
        call_id=call_id, name="read_file", arguments='{"path": "a.txt"}', title="Read a.txt", kind="read", locations=()
    )
    return [
        InputQueued(id=f"input_{turn}", content=said, source="client"),
        TurnStarted(turn=turn),
        UserMessage(id=f"input_{turn}", content=said, source="client"),
        StepStarted(turn=turn, step=1),
        AssistantMessage(turn=turn, step=1, id=f"msg_{turn}_1", content=(Text(text="So. " * 50), request)),
        ToolCalled(turn=turn, step=1, call_id=call_id, name="read_file", arguments={"path": "a.txt"}, effect="read"),
        ToolResult(turn=turn, step=1, call_id=call_id, content=(Text(text="line\n" * 100),), is_error=False),
        StepEnded(turn=turn, step=1),
        TurnEnded(turn=turn, reason="completed"),
    ]


class Agent:
    """An agent process, and when each piece of one session's answer came."""

    def __init__(self, environment: dict[str, str]) -> None:
        argv = [sys.executable, "-P", "-m", "acp_bridge"]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, bufsize=0
        )
        self._ids = itertools.count(1)
        self._answers: dict[int, Any] = {}
        self._answered = threading.Condition()
        self._times: list[float] = []
        self.watched = b"no session yet"
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in io.BufferedReader(self._process.stdout, 1 << 20):  # pyright: ignore[reportArgumentType]
            if self.watched in line and b"agent_message_chunk" in line:
                self._times.append(time.perf_counter())
            elif line.startswith(b'{"jsonrpc":"2.0","id":'):
                answer = json.loads(line)
                with self._answered:
                    self._answers[answer["id"]] = answer
                    self._answered.notify_all()

    def send(self, method: str, **params: Any) -> int:
        assert self._process.stdin is not None
        request_id = next(self._ids)
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        return request_id

    def call(self, method: str, **params: Any) -> Any:
        request_id = self.send(method, **params)
        with self._answered:
            assert self._answered.wait_for(lambda: request_id in self._answers, 120), f"{method} was not answered"
        answer = self._answers[request_id]
        assert "result" in answer, answer
        return answer["result"]

    def longest_ms(self, act: Callable[[], object]) -> tuple[float, float]:
        """Return the longest gap between two pieces while `act` runs, in ms, and how long it ran, in s."""
        began = time.perf_counter()
        act()
        ended = time.perf_counter()
        time.sleep(0.2)
        times = [t for t in self._times if began - 0.1 <= t <= ended + 0.2]
        return max((b - a for a, b in itertools.pairwise(times)), default=float("nan")) * 1000, ended - began

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def main(events: int) -> None:
    with tempfile.TemporaryDirectory() as folder, providing() as url:
        home, work = Path(folder, "home"), Path(folder, "work")
        work.mkdir()
        (work / "large.txt").write_text(LARGE + "the needle\n")
        large = anyio.run(stored, home, work, events)
        environment = {
            "ACP_BRIDGE_HOME": str(home),
            "ACP_BRIDGE_MODEL": "openai:m",
            "ACP_BRIDGE_MODELS": OTHER,
            "ACP_BRIDGE_MODE": "full",
            "OPENAI_BASE_URL": url,
            "OPENAI_API_KEY": "sk-bench-0123456789",
            "ANTHROPIC_API_KEY": "sk-bench-0123456789",
            "PATH": os.environ["PATH"],
            "HOME": folder,
        }
        agent = Agent(environment)
        try:
            measure(agent, str(work), large, events)
        finally:
            agent.close()


def measure(agent: Agent, work: str, large: str, events: int) -> None:
    place = {"cwd": work, "mcpServers": []}
    agent.call("initialize", protocolVersion=1, clientCapabilities={})
    streaming, other = (agent.call("session/new", **place)["sessionId"] for _ in range(2))
    agent.watched = streaming.encode()
    agent.send("session/prompt", sessionId=streaming, prompt=[{"type": "text", "text": "talk"}])
    time.sleep(1)

    def choose(model: str) -> None:
        agent.call("session/set_config_option", sessionId=other, configId="model", value=model)

    def edit() -> None:
        agent.call("session/prompt", sessionId=other, prompt=[{"type": "text", "text": "edit"}])

    def load() -> None:
        agent.call("session/load", sessionId=large, **place)

    def ask() -> None:
        agent.send("session/prompt", sessionId=large, prompt=[{"type": "text", "text": "talk"}])
        time.sleep(3)

    def show(name: str, act: Callable[[], object]) -> None:
        longest, took = agent.longest_ms(act)
        print(f"{name:28} longest gap {longest:7.1f} ms, took {took:6.2f} s", flush=True)

    show("quiet", lambda: time.sleep(2))
    show("a switch of model", lambda: choose(OTHER))
    choose("openai:m")
    show(f"an edit of {len(LARGE) >> 20} MiB", edit)
    show(f"a load of {events:,} events", load)
    show("the first request of it", ask)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
