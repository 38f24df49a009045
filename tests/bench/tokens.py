"""Tokens a second from a provider over HTTP to the agent's pipe, beside the floor: the same bytes read and counted.

Run by hand: `python tests/bench/tokens.py [TOKENS]`. Prints; asserts nothing on time, but that no token is missing.

The provider is a process of its own that sends each token as a server-sent event and a chunk of HTTP, as fast as it is
taken. A reader that keeps pace gets each in a line of its own; one that does not, several in one.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson

PROVIDER = """
import json, socket, sys

tokens = int(sys.argv[1])
events = [b"data: %s\\n\\n" % json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1700000000,
    "model": "m", "choices": [{"index": 0, "delta": {"content": "%d " % n}, "finish_reason": None}]}).encode()
    for n in range(tokens)]
end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
events += [b"data: %s\\n\\n" % json.dumps(end).encode(), b"data: [DONE]\\n\\n"]
chunks = [b"%x\\r\\n%s\\r\\n" % (len(event), event) for event in events] + [b"0\\r\\n\\r\\n"]
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    stream, _ = listener.accept()
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    asked = b""
    while b"\\r\\n\\r\\n" not in asked:
        asked += stream.recv(65536)
    stream.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n")
    try:
        for start in range(0, len(chunks), 4):  # as a server under load writes them
            stream.sendall(b"".join(chunks[start : start + 4]))
        stream.recv(65536)
    except OSError:
        pass
    stream.close()
"""


class Provider:
    """The process with the answer."""

    def __init__(self, tokens: int) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", PROVIDER, str(tokens)], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def agent_rate(provider: Provider, tokens: int, *, pause_s: float = 0) -> tuple[float, int]:
    """Return tokens a second as they come out of the agent's pipe, and in how many lines.

    The reader sleeps `pause_s` after each 64 KiB.
    """
    with tempfile.TemporaryDirectory() as folder:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "ACP_BRIDGE_HOME": str(Path(folder, "home")),
            "ACP_BRIDGE_MODEL": "openai:m",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{provider.port}/v1",
            "OPENAI_API_KEY": "sk-bench-0123456789",
        }
        argv = [sys.executable, "-m", "acp_bridge"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, bufsize=0) as process:
            assert process.stdin is not None and process.stdout is not None
            source = process.stdout.fileno()

            def send(request_id: int, method: str, params: dict[str, Any]) -> None:
                assert process.stdin is not None
                message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
                process.stdin.write(orjson.dumps(message) + b"\n")

            held = b""

            def lines(pause_s: float = 0) -> list[bytes]:
                nonlocal held
                block = os.read(source, 65536)
                assert block, "the agent has ended"
                *whole, held = (held + block).split(b"\n")
                if pause_s:
                    time.sleep(pause_s)
                return whole

            def answer(request_id: int) -> dict[str, Any]:
                while True:
                    for line in lines():
                        message = orjson.loads(line)
                        if message.get("id") == request_id:
                            return message

            send(0, "initialize", {"protocolVersion": 1})
            answer(0)
            send(1, "session/new", {"cwd": folder, "mcpServers": []})
            session_id = answer(1)["result"]["sessionId"]
            send(2, "session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": "go"}]})
            began, ended, kept = 0.0, 0.0, list[bytes]()
            while not ended:
                for line in lines(pause_s):
                    if b'"agent_message_chunk"' in line:
                        began = began or time.perf_counter()
                        kept.append(line)
                    elif b'"id":2' in line:
                        ended = time.perf_counter()
            process.stdin.close()
    text = "".join(orjson.loads(line)["params"]["update"]["content"]["text"] for line in kept)
    assert text == "".join(f"{n} " for n in range(tokens)), "tokens are missing or out of order"
    return tokens / (ended - began), len(kept)


FLOOR = """
import os, socket, sys
stream = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
stream.sendall(b"POST / HTTP/1.1\\r\\n\\r\\n")
rest = b""
while b"[DONE]" not in rest:
    *events, rest = (rest + stream.recv(65536)).split(b"\\n\\n")
    for event in events:
        os.write(1, event[event.index(b"data: ") :] + b"\\n")
        rest = event if b"[DONE]" in event else rest
"""


def floor_rate(provider: Provider, tokens: int) -> float:
    """Return tokens a second of a process that writes each payload as a line and does nothing else."""
    argv = [sys.executable, "-c", FLOOR, str(provider.port)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        seen, began = 0, 0.0
        while block := os.read(process.stdout.fileno(), 65536):
            began = began or time.perf_counter()
            seen += block.count(b'"content"')
        assert seen == tokens, f"{tokens - seen} are missing"
        return tokens / (time.perf_counter() - began)


def main(tokens: int) -> None:
    """Print three runs, each beside its floor, and one with a slow reader."""
    provider = Provider(tokens)
    try:
        best = 0.0
        for _ in range(3):
            rate, lines = agent_rate(provider, tokens)
            floor = floor_rate(provider, tokens)
            print(f"tokens/s {rate:9,.0f}   floor {floor:9,.0f}   ratio {rate / floor:.2f}   lines {lines:,}")
            best = max(best, rate)
        rate, lines = agent_rate(provider, tokens, pause_s=0.05)
        print(f"slow reader: tokens/s {rate:9,.0f}   lines {lines:,} of {tokens:,}, none missing")
        print(f"best     {best:9,.0f}   (aim: 10,000 or more)")
    finally:
        provider.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60_000)
