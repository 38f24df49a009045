"""Spawn → first line on stdout, beside two floors: a process that imports orjson, or anyio and orjson, and answers.

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


def first_line_ms(argv: list[str], env: dict[str, str]) -> float:
    """Return the milliseconds from the spawn to the first line."""
    began = time.perf_counter()
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(INITIALIZE + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
        took = (time.perf_counter() - began) * 1000
        assert line.startswith(b'{"jsonrpc"'), line
        process.stdin.close()
    return took


def main(runs: int) -> None:
    """Time both in turn and print minimum, median and their ratio."""
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, "ACP_BRIDGE_HOME": home, "ACP_BRIDGE_MODEL": "demo"}
        contenders = {
            "floor": [sys.executable, "-c", FLOOR],
            "with a loop": [sys.executable, "-c", LOOP_FLOOR],
            "acp-bridge": [str(Path(sys.executable).parent / "acp-bridge")],  # what an editor starts
        }
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for argv in contenders.values():
            first_line_ms(argv, env)  # compiles modules
        for _ in range(runs):
            for name, argv in contenders.items():
                times[name].append(first_line_ms(argv, env))
    for name, values in times.items():
        print(f"{name:<12} min {min(values):6.1f} ms   median {statistics.median(values):6.1f} ms")
    ratios = [ours / floor for floor, ours in zip(times["floor"], times["acp-bridge"], strict=True)]
    print(f"{'ratio':<12} min {min(ratios):6.2f}      median {statistics.median(ratios):6.2f}      (aim: 1.5 or less)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
