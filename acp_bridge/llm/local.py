"""A model file on this machine: llama.cpp's own server in a child process, spoken to as any OpenAI-compatible one.

Owns the child: started with the first request, started again if it died, ended with the model. Knows no message; the
OpenAI adapter does. A request that is cancelled while the model loads leaves the loading to go on for the next one.
"""

import contextlib
import importlib.util
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import anyio
import orjson

from acp_bridge.content import Failure
from acp_bridge.errors import ConfigError
from acp_bridge.session import ModelRequest

from .endpoint import Endpoint
from .http_model import HttpModel
from .model import Delta, Failed, Finished
from .openai import OpenAIChat

DEFAULT_CONTEXT = 16_384
"""Tokens of context if nobody says: the memory for it is taken at once, whatever a model could be trained for."""

_SCRIPT = str(Path(__file__).with_name("_local_server.py"))
_END_S = 2.0
_NEWS_S = 0.2
"""What the end of the child may take to be seen behind the end of its connections."""
_MAX_REASON = 500
_SIGNALS = frozenset(signal.valid_signals())


class LocalModel:
    """The model in one `.gguf` file.

    Args:
        endpoint: `model` is the file's path; address and key are made here.
        environ: what the child gets as its environment.
    """

    def __init__(self, endpoint: Endpoint, environ: Mapping[str, str]) -> None:
        """Check that it can be had.

        Raises:
            ConfigError: there is no such file, it holds no model, or the extra `local` is not installed.
        """
        self._path = _checked(endpoint.model)
        self._endpoint = endpoint
        self._environ = environ
        self._n_ctx = endpoint.context_window or DEFAULT_CONTEXT
        self._starting = anyio.Lock()
        self._child: _Child | None = None
        self._served: HttpModel | None = None
        self._closed = False

    @property
    def context_window(self) -> int | None:
        """Tokens that fit: known once the model is loaded."""
        child = self._child
        return (child.n_ctx if child is not None else None) or self._endpoint.context_window

    @property
    def takes_images(self) -> bool:
        """Never: pictures need a second file, which a route has no place for."""
        return False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Load the model if need be, and stream the answer; the last delta is `Finished` or `Failed`."""
        served = await self._ready()
        if isinstance(served, Failed):
            yield served
            return
        async with aclosing(served.stream(request)) as deltas:
            async for delta in deltas:
                yield await self._explained(delta) if isinstance(delta, Failed) else delta
                if isinstance(delta, Finished | Failed):
                    return

    async def aclose(self) -> None:
        """End the child, whatever it is in."""
        self._closed = True
        await self._discard()

    async def _ready(self) -> HttpModel | Failed:
        async with self._starting:
            if self._child is not None and self._child.ended() is not None:
                await self._discard()
            if self._served is not None:
                return self._served
            if self._closed:
                return _failed("the model is closed", retryable=False)
            try:
                child = self._child = self._child or _Child(self._path, self._n_ctx, self._environ)
            except OSError as exc:
                return _failed(f"the process for the local model could not be started: {exc.strerror}")
            url = await child.url()
            if url is None:
                reason = child.reason()
                await self._discard()
                return _failed(f"{self._path.name} could not be loaded: {reason}", retryable=False)
            endpoint = replace(self._endpoint, base_url=f"{url}/v1", key=child.key)
            self._served = HttpModel(endpoint, OpenAIChat(endpoint))
            return self._served

    async def _explained(self, failed: Failed) -> Failed:
        """Say that the child died, where that is why the connection broke."""
        child = self._child
        if failed.failure.kind not in ("connection", "broken_stream") or child is None:
            return failed
        with anyio.move_on_after(_NEWS_S):
            await child.gone()
        ended = child.ended()
        if ended is None:
            return failed
        return replace(failed, failure=replace(failed.failure, message=f"the local model's process ended: {ended}"))

    async def _discard(self) -> None:
        served, self._served = self._served, None
        child, self._child = self._child, None
        with anyio.CancelScope(shield=True):  # bounded: by the child's own limit, and closing idle connections
            if child is not None:
                await child.end()
            if served is not None:
                with anyio.move_on_after(_END_S):
                    await served.aclose()


@dataclass(slots=True, eq=False)
class _Child:
    """The process, from its start to its end."""

    path: Path
    n_ctx: int | None
    environ: Mapping[str, str]
    key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _told: dict[str, Any] | None = None
    _heard: bytearray = field(default_factory=bytearray)
    _said: IO[bytes] = field(default_factory=tempfile.TemporaryFile)
    _process: "subprocess.Popen[bytes]" = field(init=False)

    def __post_init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,  # a file: nobody has to read it, and it is small, as only errors go there
            bufsize=0,
            env=dict(self.environ),
            start_new_session=True,  # a signal for the agent's group is not for it; the pipe tells it to end
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        asked = {"model": str(self.path), "n_ctx": self.n_ctx, "threads": _threads(), "key": self.key}
        with contextlib.suppress(BrokenPipeError):  # it has ended already, and `url` will tell
            self._process.stdin.write(orjson.dumps(asked) + b"\n")

    async def url(self) -> str | None:
        """Wait until the model is loaded; return where, None if it could not be. Cancelled, ask again."""
        while self._told is None:
            self._told = await self._line()
        self.n_ctx = self._told.get("n_ctx") or self.n_ctx
        return self._told.get("url")

    async def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        while not self._heard.endswith(b"\n"):
            try:
                await anyio.wait_readable(self._process.stdout)
            except anyio.ClosedResourceError:
                return {"error": "the model was closed"}
            block = os.read(self._process.stdout.fileno(), 65536)
            if not block:
                with anyio.move_on_after(_NEWS_S):
                    await self.gone()
                return {"error": f"its process ended: {self.ended() or 'nothing more is known'}"}
            self._heard += block
        return orjson.loads(self._heard)

    def ended(self) -> str | None:
        """Return how the process ended, None if it runs."""
        code = self._process.poll()
        if code is None:
            return None
        number = -code if code < 0 else code - 128
        return f"signal {signal.Signals(number).name}" if number in _SIGNALS else f"exit code {code}"

    async def gone(self) -> None:
        """Wait until it has ended."""
        while self._process.poll() is None:  # noqa: ASYNC110 - no event comes from a process
            await anyio.sleep(0.005)

    def reason(self) -> str:
        """Return why it could not load the model, as the library says it."""
        words = [str((self._told or {}).get("error", ""))]
        if not self._said.closed:
            self._said.seek(0)
            lines = self._said.read(1 << 20).decode(errors="replace").splitlines()
            words += [line.strip() for line in lines if line.strip()][:3]  # the first is the cause, the others follow
        return "; ".join(words)[:_MAX_REASON]

    async def end(self) -> None:
        """Let go of it, wait a moment, and end it by force if need be."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        with anyio.move_on_after(_END_S, shield=True):
            await self.gone()
        self._process.kill()
        self._process.poll()
        anyio.notify_closing(self._process.stdout)
        self._process.stdout.close()
        self._said.close()


def _checked(text: str) -> Path:
    path = Path(text).expanduser().absolute()
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except FileNotFoundError:
        raise ConfigError(
            f"there is no model file {str(path)!r}; write the route as 'local:/path/to/model.gguf'"
        ) from None
    except OSError as exc:
        raise ConfigError(f"the model file {str(path)!r} cannot be read: {exc.strerror}") from exc
    if magic != b"GGUF":
        raise ConfigError(f"{str(path)!r} is no model file in the GGUF format, which 'local:' takes")
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigError(
            "local models need the extra 'local': pip install 'acp-stdio-bridge[local]', "
            "into the environment that acp-bridge is installed in"
        )
    return path


def _threads() -> int:
    """Return the number of cores: half of what counts as one. The threads spin, and others want to work too."""
    return max(1, (os.cpu_count() or 1) // 2)


def _failed(message: str, *, retryable: bool = True) -> Failed:
    return Failed(Failure(kind="unavailable", message=message), retryable=retryable)
