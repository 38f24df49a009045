"""The child process behind a `local:` route, as its parent sees it: started, request for its address, exit_status.

Owns the pipes and what is told of its end. The child itself is `_local_server`. Knows no model's answers.
"""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import anyio
import orjson

END_S = 2.0
"""How long the child may take to end once it is let go of, in seconds; then it is killed."""

NEWS_S = 0.2
"""What the end of the child may take to be seen behind the end of its connections."""

_SCRIPT = str(Path(__file__).with_name("_local_server.py"))
_MAX_REASON = 500
_SIGNALS = frozenset(signal.valid_signals())


@dataclass(slots=True, eq=False)
class LocalProcess:
    """The process, from its start to its end."""

    path: Path
    n_ctx: int | None
    environ: Mapping[str, str]
    key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _answer: dict[str, Any] | None = None
    _output: bytearray = field(default_factory=bytearray)
    _errors: IO[bytes] = field(default_factory=tempfile.TemporaryFile)
    _process: "subprocess.Popen[bytes]" = field(init=False)

    def __post_init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,  # a file: nobody has to read it, and it is small, as only errors go there
            bufsize=0,
            env=dict(self.environ),
            start_new_session=True,  # a signal for the agent's group is not for it; the pipe tells it to end
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        request = {"model": str(self.path), "n_ctx": self.n_ctx, "threads": _threads(), "key": self.key}
        with contextlib.suppress(BrokenPipeError):  # it has ended already, and `url` will tell
            self._process.stdin.write(orjson.dumps(request) + b"\n")

    async def url(self) -> str | None:
        """Wait until the model is loaded; return where, None if it could not be. Cancelled, ask again."""
        while self._answer is None:
            self._answer = await self._line()
        self.n_ctx = self._answer.get("n_ctx") or self.n_ctx
        return self._answer.get("url")

    async def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        while not self._output.endswith(b"\n"):
            try:
                await anyio.wait_readable(self._process.stdout)
            except anyio.ClosedResourceError:
                return {"error": "the model was closed"}
            block = os.read(self._process.stdout.fileno(), 65536)
            if not block:
                with anyio.move_on_after(NEWS_S):
                    await self.wait()
                return {"error": f"its process ended: {self.exit_status() or 'nothing more is known'}"}
            self._output += block
        return orjson.loads(self._output)

    def exit_status(self) -> str | None:
        """Return how the process ended, None if it runs."""
        code = self._process.poll()
        if code is None:
            return None
        number = -code if code < 0 else code - 128
        return f"signal {signal.Signals(number).name}" if number in _SIGNALS else f"exit code {code}"

    async def wait(self) -> None:
        """Wait until it has ended."""
        while self._process.poll() is None:  # noqa: ASYNC110 - no event comes from a process
            await anyio.sleep(0.005)

    def reason(self) -> str:
        """Return why it could not load the model, as the library says it."""
        words = [str((self._answer or {}).get("error", ""))]
        if not self._errors.closed:
            self._errors.seek(0)
            lines = self._errors.read(1 << 20).decode(errors="replace").splitlines()
            words += [line.strip() for line in lines if line.strip()][:3]  # the first is the cause, the others follow
        return "; ".join(words)[:_MAX_REASON]

    async def end(self) -> None:
        """Let go of it, wait a moment, and end it by force if need be."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        with anyio.move_on_after(END_S, shield=True):
            await self.wait()
        self._process.kill()
        self._process.poll()
        anyio.notify_closing(self._process.stdout)
        self._process.stdout.close()
        self._errors.close()


def _threads() -> int:
    """Return the number of cores: half of what counts as one. The threads spin, and others want to work too."""
    return max(1, (os.cpu_count() or 1) // 2)
