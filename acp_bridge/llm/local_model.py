"""A model file on this machine: llama.cpp's own server in a child process, spoken to as any OpenAI-compatible one.

Owns when the child lives: started with the first request, started again if it died, ended with the model. Knows no
message; the OpenAI adapter does. A request that is cancelled while the model loads leaves the loading to go on for the
next one.
"""

import importlib.util
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import anyio

from acp_bridge.content import Failure
from acp_bridge.errors import ConfigError
from acp_bridge.session import ModelRequest

from .endpoint import Endpoint
from .http_model import HttpModel
from .local_process import END_S, NEWS_S, LocalProcess
from .model import Delta, Failed, Finished
from .openai import OpenAIChat

DEFAULT_CONTEXT = 16_384
"""Tokens of context if nobody says: the memory for it is taken at once, whatever a model could be trained for."""


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
        self._path = _check_file(endpoint.model)
        self._endpoint = endpoint
        self._environ = environ
        self._n_ctx = endpoint.context_window or DEFAULT_CONTEXT
        self._starting = anyio.Lock()
        self._child: LocalProcess | None = None
        self._http: HttpModel | None = None
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
        http = await self._ready()
        if isinstance(http, Failed):
            yield http
            return
        async with aclosing(http.stream(request)) as deltas:
            async for delta in deltas:
                yield await self._explain(delta) if isinstance(delta, Failed) else delta
                if isinstance(delta, Finished | Failed):
                    return

    async def aclose(self) -> None:
        """End the child, whatever it is in."""
        self._closed = True
        await self._discard()

    async def _ready(self) -> HttpModel | Failed:
        async with self._starting:
            if self._child is not None and self._child.exit_status() is not None:
                await self._discard()
            if self._http is not None:
                return self._http
            if self._closed:
                return _unavailable("the model is closed", retryable=False)
            try:
                child = self._child = self._child or LocalProcess(self._path, self._n_ctx, self._environ)
            except OSError as exc:
                return _unavailable(f"the process for the local model could not be started: {exc.strerror}")
            url = await child.url()
            if url is None:
                reason = child.reason()
                await self._discard()
                return _unavailable(f"{self._path.name} could not be loaded: {reason}", retryable=False)
            endpoint = replace(self._endpoint, base_url=f"{url}/v1", key=child.key)
            self._http = HttpModel(endpoint, OpenAIChat(endpoint))
            return self._http

    async def _explain(self, failed: Failed) -> Failed:
        """Say that the child died, where that is why the connection broke."""
        child = self._child
        if failed.failure.kind not in ("connection", "broken_stream") or child is None:
            return failed
        with anyio.move_on_after(NEWS_S):
            await child.wait()
        ended = child.exit_status()
        if ended is None:
            return failed
        return replace(failed, failure=replace(failed.failure, message=f"the local model's process ended: {ended}"))

    async def _discard(self) -> None:
        http, self._http = self._http, None
        child, self._child = self._child, None
        with anyio.CancelScope(shield=True):  # bounded: by the child's own limit, and closing idle connections
            if child is not None:
                await child.end()
            if http is not None:
                with anyio.move_on_after(END_S):
                    await http.aclose()


def _check_file(text: str) -> Path:
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


def _unavailable(message: str, *, retryable: bool = True) -> Failed:
    return Failed(Failure(kind="unavailable", message=message), retryable=retryable)
