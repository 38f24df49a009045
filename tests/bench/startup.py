"""Spawn → answers to `initialize` and `session/new`, beside processes that import orjson, or anyio too, and answer.

Run by hand: `python tests/bench/startup.py [RUNS]`. Prints; asserts nothing.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson

FLOOR = """
import os
import orjson

request = orjson.loads(os.read(0, 65536))
os.write(1, orjson.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {}}) + b"\\n")
"""

LOOP_FLOOR = """
import os, sys
import anyio, orjson

async def main():
    request = orjson.loads(os.read(0, 65536))
    os.write(1, orjson.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {}}) + b"\\n")

anyio.run(main)
"""

INITIALIZE = orjson.dumps(
    {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}}
)


def session_new(cwd: str) -> bytes:
    """Return the request for a session in `cwd`."""
    params = {"cwd": cwd, "mcpServers": []}
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": params})


def answered_ms(argv: list[str], env: dict[str, str], *requests: bytes) -> float:
    """Return the milliseconds from the spawn to the answer to the last of `requests`, each sent once it may be."""
    began = time.perf_counter()
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdin is not None and process.stdout is not None
        for number, request in enumerate(requests):
            process.stdin.write(request + b"\n")
            process.stdin.flush()
            answer = orjson.loads(process.stdout.readline())
            while answer.get("id") != number:
                answer = orjson.loads(process.stdout.readline())
            assert "result" in answer, answer
        took = (time.perf_counter() - began) * 1000
        process.stdin.close()
    return took


def main(runs: int) -> None:
    """Time all in turn and print minimum, median and their ratios."""
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, "ACP_BRIDGE_HOME": home, "ACP_BRIDGE_MODEL": "demo"}
        remote = {**env, "ACP_BRIDGE_MODEL": "openai:gpt-5", "OPENAI_API_KEY": "sk-0123456789abcdef"}
        program = [str(Path(sys.executable).parent / "acp-bridge")]  # what an editor starts
        both = (INITIALIZE, session_new(home))
        contenders = {
            "floor": ([sys.executable, "-c", FLOOR], env, (INITIALIZE,)),
            "floor with a loop": ([sys.executable, "-c", LOOP_FLOOR], env, (INITIALIZE,)),
            "initialize": (program, env, (INITIALIZE,)),
            "session/new, demo": (program, env, both),
            "session/new, openai": (program, remote, both),
        }
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for argv, variables, requests in contenders.values():
            answered_ms(argv, variables, *requests)  # compiles modules
        for _ in range(runs):
            for name, (argv, variables, requests) in contenders.items():
                times[name].append(answered_ms(argv, variables, *requests))
    for name, values in times.items():
        print(f"{name:<20} min {min(values):6.1f} ms   median {statistics.median(values):6.1f} ms")
    for name, floor, aim in (
        ("initialize", "floor", 1.5),
        ("session/new, demo", "floor with a loop", 2.5),
        ("session/new, openai", "floor with a loop", 2.5),
    ):
        ratios = [ours / bare for bare, ours in zip(times[floor], times[name], strict=True)]
        said = f"min {min(ratios):6.2f}      median {statistics.median(ratios):6.2f}"
        print(f"{name:<20} {said}      of the {floor} (aim: {aim:g} or less)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
