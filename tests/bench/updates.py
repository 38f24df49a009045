"""Updates a second from the Model port to the pipe, beside the floor: `os.write` of the same lines to the same reader.

Run by hand: `python tests/bench/updates.py [CHUNKS]`. Prints; asserts nothing on time, but that no chunk is missing.
What is counted are the model's pieces: to a reader that is behind, several come joined in one line.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

import orjson

FLOOR = """
import os, sys
line = sys.argv[1].encode() + b"\\n"
for _ in range(int(sys.argv[2])):
    os.write(1, line)
"""


def timed_lines(source: IO[bytes], marker: bytes, chunks: int) -> tuple[float, int]:
    """Read until `chunks` occurrences of `marker` have passed; return the seconds since the first, and the count."""
    seen, began, tail = 0, 0.0, b""
    descriptor = source.fileno()
    while seen < chunks:
        block = os.read(descriptor, 1 << 20)
        if not block:
            break
        if not began and marker in block:
            began = time.perf_counter()
        whole, newline, rest = (tail + block).rpartition(b"\n")
        seen += whole.count(marker) if newline else 0
        tail = rest if newline else tail + block
    return time.perf_counter() - began, seen


def agent_rate(chunks: int) -> tuple[float, str]:
    """Return updates a second of the real agent, and one of its lines."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.json")
        script.write_bytes(orjson.dumps([{"deltas": [{"text": "word ", "repeat": chunks}]}]))
        env = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "ACP_BRIDGE_HOME": str(Path(folder, "home")),
            "ACP_BRIDGE_MODEL": f"scripted:{script}",
        }
        argv = [sys.executable, "-m", "acp_bridge"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, bufsize=0) as process:
            assert process.stdin is not None and process.stdout is not None

            def send(request_id: int, method: str, params: dict[str, Any]) -> None:
                assert process.stdin is not None
                message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
                process.stdin.write(orjson.dumps(message) + b"\n")

            def answer() -> dict[str, Any]:
                assert process.stdout is not None
                while "id" not in (message := orjson.loads(process.stdout.readline())):
                    pass
                return message

            send(0, "initialize", {"protocolVersion": 1})
            answer()
            send(1, "session/new", {"cwd": folder, "mcpServers": []})
            session_id = answer()["result"]["sessionId"]
            send(2, "session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": "go"}]})
            seconds, seen = timed_lines(process.stdout, b"word ", chunks)
            assert seen == chunks, f"{chunks - seen} chunks are missing"
            process.stdin.close()
            line = orjson.dumps(
                {
                    "jsonrpc": "2.0",
                    "method": "session/update",
                    "params": {
                        "sessionId": session_id,
                        "update": {
                            "sessionUpdate": "agent_message_chunk",
                            "messageId": "msg_1_1",
                            "content": {"type": "text", "text": "word "},
                        },
                    },
                }
            )
            return chunks / seconds, line.decode()


def floor_rate(line: str, chunks: int) -> float:
    """Return lines a second of a process that does nothing but write them."""
    argv = [sys.executable, "-c", FLOOR, line, str(chunks)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        seconds, seen = timed_lines(process.stdout, b"word ", chunks)
        assert seen == chunks
        return chunks / seconds


def main(chunks: int) -> None:
    """Print the best of three, each beside its floor."""
    best = (0.0, 0.0)
    for _ in range(3):
        ours, line = agent_rate(chunks)
        floor = floor_rate(line, chunks)
        print(f"updates/s {ours:10,.0f}   floor {floor:10,.0f}   ratio {ours / floor:.2f}")
        best = max(best, (ours, ours / floor))
    print(f"best      {best[0]:10,.0f}   (aim: 50,000 or more, and 0.25 of the floor or more)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
