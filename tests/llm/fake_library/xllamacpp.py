"""Stands in for the native library of local models, where what matters is the process and not the model.

Behaves as the first line of the "model" file says, behind the magic: `loads`, `noisy`, `broken`, `stuck` (in a call
that never lets go of the interpreter), `crashes` (in the middle of an answer), `endless`. Notes facts of its process in
the file that the second line names.
"""

import ctypes
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class CommonParams:
    def __init__(self) -> None:
        self.model = SimpleNamespace(path="")
        self.cpuparams = SimpleNamespace(n_threads=0)
        self.cpuparams_batch = SimpleNamespace(n_threads=0)
        self.n_ctx = 0
        self.api_keys: list[str] = []


class Server:
    def __init__(self, params: CommonParams) -> None:
        lines = Path(params.model.path).read_text().splitlines()
        behaviour = lines[0].removeprefix("GGUF ")
        for note in lines[1:2]:
            facts = {
                "pid": os.getpid(),
                "env": dict(os.environ),
                "argv": sys.argv,
                "threads": params.cpuparams.n_threads,
            }
            Path(f"{note}.part").write_text(json.dumps(facts))
            Path(f"{note}.part").rename(note)
        if behaviour == "broken":
            print("error loading model: unknown architecture 'odd'", file=sys.stderr, flush=True)
            raise RuntimeError("Failed to init server")
        if behaviour == "stuck":
            ctypes.PyDLL(None).sleep(600)
        if behaviour == "noisy":
            os.write(1, b"what a library prints\n")

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer({"data": [{"id": "m", "meta": {"n_ctx": min(params.n_ctx, 8192)}}]})

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                if self.headers["authorization"] != f"Bearer {params.api_keys[0]}":
                    self._answer({"error": {"message": "Invalid API Key", "code": 401}}, 401)
                    return
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                self._event({"choices": [{"delta": {"content": "Hello"}, "finish_reason": None}]})
                if behaviour == "crashes":
                    os.abort()
                while behaviour == "endless":
                    self._event({"choices": [{"delta": {"content": "!"}, "finish_reason": None}]})
                    time.sleep(0.01)
                self._event({"choices": [{"delta": {}, "finish_reason": "stop"}]})
                self.wfile.write(b"data: [DONE]\n\n")

            def _event(self, payload: Any) -> None:
                self.wfile.write(b"data: " + json.dumps(payload).encode() + b"\n\n")

            def _answer(self, payload: Any, status: int = 200) -> None:
                body = json.dumps(payload).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=served.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{served.server_port}"
