"""Stands between a hostile client and the agent: `relay.py RECORD plain|mended COMMAND…`.

Passes lines both ways and keeps the agent's. With `mended`, the two words of the client's dialect that keep it from
getting anywhere are translated. When the client ends it, with SIGTERM or by hanging up, the agent is asked one more
question, and RECORD is written: the agent's lines, its answer, its exit code and what was on its stderr.
"""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

LAST_ID = "still there?"
ANSWERED_IN_S = 10.0


def main(record: Path, way: str, *command: str) -> None:
    with record.with_suffix(".stderr").open("w+b") as stderr:
        agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
        over, answered = threading.Event(), threading.Event()
        lines: list[str] = []
        signal.signal(signal.SIGTERM, lambda *_: over.set())
        threading.Thread(target=_back, args=(agent, lines, answered), daemon=True).start()
        threading.Thread(target=_forth, args=(agent, way == "mended", over), daemon=True).start()
        while not over.wait(0.05):  # in pieces, so that the signal is heard
            pass
        _ask(agent)
        there = answered.wait(ANSWERED_IN_S)
        agent.terminate()
        code = agent.wait(10)
        stderr.seek(0)
        told = {"lines": lines, "answered": there, "code": code, "stderr": stderr.read().decode(errors="replace")}
    record.write_text(json.dumps(told))


def mended(line: bytes) -> bytes:
    """Return a line with the protocol's words for the version and for a prompt's content."""
    message: dict[str, Any] = json.loads(line)
    params: dict[str, Any] = message.get("params") or {}
    if "protocolVersion" in params:
        params["protocolVersion"] = int(params["protocolVersion"])
    if message.get("method") == "session/prompt" and "content" in params:
        params["prompt"] = params.pop("content")
    return json.dumps(message).encode() + b"\n"


def _ask(agent: "subprocess.Popen[bytes]") -> None:
    assert agent.stdin is not None
    question = {"jsonrpc": "2.0", "id": LAST_ID, "method": "_test/nothing"}
    agent.stdin.write(b"\n" + json.dumps(question).encode() + b"\n")
    agent.stdin.flush()


def _forth(agent: "subprocess.Popen[bytes]", mend: bool, over: threading.Event) -> None:
    assert agent.stdin is not None
    for line in sys.stdin.buffer:
        agent.stdin.write(mended(line) if mend else line)
        agent.stdin.flush()
    over.set()


def _back(agent: "subprocess.Popen[bytes]", lines: list[str], answered: threading.Event) -> None:
    assert agent.stdout is not None
    for line in agent.stdout:
        lines.append(line.decode())
        if LAST_ID.encode() in line:
            answered.set()
            continue
        try:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        except OSError:  # the client no longer reads
            continue


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
