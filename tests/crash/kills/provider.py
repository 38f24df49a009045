"""A model provider that outlives the agents it serves: OpenAI's streamed chat completions over loopback.

Owns what it answered and what it was asked: every tool call carries a token that occurs nowhere else, and every request
is held against what strict providers refuse. Knows no agent; it lives in threads of the test's process.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, TypeAlias

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One tool call that the model asks for."""

    name: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: text in pieces, then tool calls, or a refusal with an HTTP status.

    Attributes:
        pause_s: what lies between any two pieces.
        wait: called before the end, behind the last piece of text.
    """

    text: Sequence[str] = ()
    calls: Sequence[Wanted] = ()
    pause_s: float = 0.0
    status: int = 200
    wait: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came."""

    messages: list[Json]

    @property
    def text(self) -> str:
        """All of it, as text to look for words in."""
        return json.dumps(self.messages, ensure_ascii=False)


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of connections that a kill broke."""


@dataclass(slots=True)
class Provider:
    """The server; `answer` makes each reply, in the order in which requests come.

    Attributes:
        asked: every request.
        rejected: what was wrong with those that a strict provider refuses.
        pieces: how many pieces of answers were sent.
        finished: how many answers were sent whole.
    """

    answer: Callable[[Asked], Reply]
    asked: list[Asked] = field(default_factory=list[Asked])
    rejected: list[str] = field(default_factory=list[str])
    pieces: int = 0
    finished: int = 0
    _server: ThreadingHTTPServer = field(init=False)

    def __enter__(self) -> Self:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                with suppress(OSError, ValueError):  # the agent was killed while it spoke, or while it listened
                    body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                    provider._serve(self, body["messages"])

            def do_GET(self) -> None:
                with suppress(OSError):
                    _send_json(self, 200, {"object": "list", "data": [{"id": "fake", "object": "model"}]})

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """What leads an agent here."""
        address = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        return {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "x", "ACP_BRIDGE_MODEL": "openai:fake"}

    def _serve(self, handler: BaseHTTPRequestHandler, messages: list[Json]) -> None:
        asked = Asked(messages)
        self.asked.append(asked)
        if wrong := faults(messages):
            self.rejected.append(f"{wrong[0]} in {asked.text[-1500:]}")
            _send_json(handler, 400, {"error": {"message": wrong[0], "type": "invalid_request_error"}})
            return
        reply = self.answer(asked)
        if reply.status != 200:
            _send_json(handler, reply.status, {"error": {"message": "the provider is ill", "type": "server_error"}})
            return
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        before = self.pieces
        for piece in _pieces(reply, len(self.asked)):
            handler.wfile.write(b"data: " + json.dumps(piece).encode() + b"\n\n")
            handler.wfile.flush()
            self.pieces += 1
            if reply.wait is not None and self.pieces - before == len(reply.text):
                reply.wait()
            time.sleep(reply.pause_s)
        handler.wfile.write(b"data: [DONE]\n\n")
        self.finished += 1


def _send_json(handler: BaseHTTPRequestHandler, code: int, value: Json) -> None:
    handler.send_response(code)
    handler.send_header("content-type", "application/json")
    handler.end_headers()
    handler.wfile.write(json.dumps(value).encode())


def _pieces(reply: Reply, number: int) -> Iterator[Json]:
    for text in reply.text:
        yield _chunk({"content": text})
    for index, call in enumerate(reply.calls):
        whole = json.dumps(call.arguments)
        half = len(whole) // 2
        function = {"name": call.name, "arguments": whole[:half]}
        yield _chunk({"tool_calls": [{"index": index, "id": f"p{number}_{index}", "type": "function"} | _of(function)]})
        yield _chunk({"tool_calls": [{"index": index} | _of({"arguments": whole[half:]})]})
    yield _chunk({}, "tool_calls" if reply.calls else "stop")
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    yield {"id": "x", "object": "chat.completion.chunk", "model": "fake", "choices": [], "usage": usage}


def _of(function: Json) -> Json:
    return {"function": function}


def _chunk(delta: Json, finish: str | None = None) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion.chunk", "model": "fake", "choices": [choice]}


def faults(messages: list[Json]) -> list[str]:
    """Return what a strict provider refuses in a transcript: unpaired calls, orphans, emptiness, a role twice."""
    found: list[str] = []
    waiting: list[str] = []
    seen: set[str] = set()
    before = ""
    for message in messages:
        role = message["role"]
        if role == "tool":
            if not waiting or message["tool_call_id"] != waiting.pop(0):
                found.append(f"result {message['tool_call_id']} without its call directly before it")
        elif waiting:
            found.append(f"calls {waiting} without results")
            waiting = []
        if role == before and role != "tool":
            found.append(f"{role} twice in a row")
        calls = message.get("tool_calls") or []
        if not _says(message.get("content")) and not calls:
            found.append(f"an empty {role} message")
        for call in calls:
            if call["id"] in seen:
                found.append(f"call id {call['id']} twice")
            seen.add(call["id"])
            waiting.append(call["id"])
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                found.append("arguments that are no object")
        before = role
    if waiting:
        found.append(f"calls {waiting} without results")
    roles = [message["role"] for message in messages if message["role"] != "system"]
    if not roles or roles[0] != "user" or roles[-1] == "assistant":
        found.append(f"it begins with {roles[:1]} and ends with {roles[-1:]}")
    return found


def _says(content: Any) -> bool:
    if isinstance(content, list):
        return any(_says(part.get("text", "…")) for part in content)
    return bool(content and content.strip())
