"""The child process behind a `local:` route: llama.cpp's server on a loopback port, gone when its parent is.

A script of its own, so that a crash or a native call that never returns hurts nobody else. It is two processes: one
holds the native library; the other only watches the pipe from the agent and ends the first when the pipe closes, since
loading a model holds Python's lock for as long as it takes. Knows nothing of the agent.

It reads one line of JSON from stdin: `model`, `n_ctx`, `threads` and `key`, which thereby stands in no argument and no
environment. It writes one to stdout: `url` and `n_ctx`, or `error`. Then it serves until its stdin ends.
"""

import importlib
import json
import os
import select
import signal
import sys
import threading
import urllib.request
from typing import Any

_ERRORS_ONLY = 1


def main() -> int:
    """Start the server in a child, watch, and return its exit code."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return 0
        line += byte
    watched, alive = os.pipe()  # its end tells that the worker has ended
    lifeline, held = os.pipe()  # its end tells the worker that nobody watches any more
    worker = os.fork()
    if not worker:
        os.close(held)
        os.close(watched)
        threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
        os._exit(_serve(json.loads(line)))
    os.close(alive)
    os.close(lifeline)
    os.close(1)
    select.select([0, watched], [], [])  # nothing else is ever sent: either has ended
    os.kill(worker, signal.SIGKILL)  # it may be at work still, and takes no other signal while it loads
    code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    return code if code >= 0 else 128 - code


def _end_with(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)


def _serve(asked: dict[str, Any]) -> int:
    """Load the model, tell where it is, and serve."""
    answer = os.dup(1)
    os.dup2(2, 1)  # what the library prints is no answer
    try:
        server = _start(asked)
        url = server.listening_address
        told = {"url": url, "n_ctx": _context_size(url, asked["key"])}
    except Exception as exc:  # noqa: BLE001 - told to the parent, which has words for it
        os.write(answer, json.dumps({"error": str(exc) or type(exc).__name__}).encode() + b"\n")
        return 1
    os.write(answer, json.dumps(told).encode() + b"\n")
    os.close(answer)
    threading.Event().wait()
    return 0


def _start(asked: dict[str, Any]) -> Any:
    library: Any = importlib.import_module("xllamacpp")  # an extra: not there for who checks the types
    params = library.CommonParams()
    params.model.path = asked["model"]
    params.n_ctx = asked["n_ctx"]
    params.n_parallel = 1  # requests queue; each has the whole context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = asked["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # any free one
    params.api_keys = [asked["key"]]  # any page in a browser reaches a loopback port
    params.ui = params.endpoint_slots = False
    params.verbosity = _ERRORS_ONLY
    return library.Server(params)


def _context_size(url: str, key: str) -> int | None:
    """Return the tokens that fit: what was asked for, or less where the model was trained for less."""
    request = urllib.request.Request(f"{url}/v1/models", headers={"Authorization": f"Bearer {key}"})  # noqa: S310 - our own server
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as response:
        return json.load(response)["data"][0].get("meta", {}).get("n_ctx")


if __name__ == "__main__":
    sys.exit(main())
