"""A model behind an HTTP API: the one request loop that all providers share.

Owns the order of its layers (request, bytes, events, deltas), how long an answer may stay away, what is learned from a
refusal, and that nothing heavy runs on the event loop. Knows no provider's shapes and no SDK; a `Dialect` does.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread
import orjson

from acp_bridge.content import JsonObject
from acp_bridge.session import ModelRequest

from .endpoint import Endpoint
from .failures import Provider, provider_of
from .model import Delta, Failed, Finished
from .refusals import learn, once_more
from .sanitizer import Sanitizer
from .sse import NoEvents, SseDecoder
from .wire import Stalled, body_of

T = TypeVar("T")

_DRAIN_S = 0.05
_SHARE_S = 0.02
"""The longest that a piece of the body makes way for other tasks."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A request in its provider's shapes.

    Attributes:
        headers: those that this request has beside the client's own.
    """

    body: JsonObject
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class Answer(Protocol):
    """One answer under way, in a provider's shapes.

    Attributes:
        done: whether it has come to its end, whatever else the connection brings.
    """

    done: bool

    def take(self, payload: bytes) -> list[Delta]:
        """Return the deltas that an event holds. A `Failed` among them ends the answer."""
        ...

    def end(self, junk: bytes = b"") -> Finished | Failed:
        """Return the last delta, once the stream has ended. `junk` is what came that was no event."""
        ...


class Dialect(Protocol):
    """What differs from provider to provider: the shapes of request and answer, and the SDK's client.

    Attributes:
        gives_back: whether a request returns members of earlier answers, which a server may refuse by name.
    """

    gives_back: bool

    def render(self, request: ModelRequest, endpoint: Endpoint) -> Rendered:
        """Return the request in the provider's shapes. Pure; runs in a thread."""
        ...

    def begin_answer(self, provider: Provider) -> Answer:
        """Return the reader of one answer."""
        ...

    def post(self, body: bytes, headers: Mapping[str, str]) -> Awaitable[Any]:
        """Send a request and return the SDK's raw response as soon as its head is there.

        May raise whatever the SDK raises; it is told apart in `failures`.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class HttpModel:
    """One model at one endpoint.

    What a server refuses is left out of every later request, as long as this object lives.
    """

    def __init__(self, endpoint: Endpoint, dialect: Dialect) -> None:
        self._endpoint = endpoint
        self._dialect = dialect
        self._provider = provider_of(endpoint)

    @property
    def context_window(self) -> int | None:
        """Tokens that fit, if known."""
        return self._endpoint.context_window

    @property
    def takes_images(self) -> bool:
        """Whether images are sent."""
        return self._endpoint.takes_images

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Send the request and yield the answer; the last delta is `Finished` or `Failed`."""
        async with aclosing(self._attempt(request)) as deltas:
            async for delta in deltas:
                yield self._learn(delta, request) if isinstance(delta, Failed) else delta

    async def aclose(self) -> None:
        """Close the connections."""
        await self._dialect.aclose()

    def _learn(self, failed: Failed, request: ModelRequest) -> Failed:
        """Return the failure, as one to retry at once if it says how the request has to change."""
        learned = learn(self._endpoint, failed, request, gives_back=self._dialect.gives_back)
        if learned == self._endpoint:
            return failed
        self._endpoint = learned
        return once_more(failed)

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Yield the answer to one request. Nothing that the SDK or the network raises gets out."""
        provider, dialect = self._provider, self._dialect
        sanitizer, decoder, answer = Sanitizer(provider.name), SseDecoder(), dialect.begin_answer(provider)
        try:
            # In a thread: a history of several megabytes takes tens of milliseconds, in which nobody else would run.
            body, headers = await anyio.to_thread.run_sync(
                _encode, dialect, request, self._endpoint, abandon_on_cancel=True
            )
            patience = _Patience(self._endpoint.stall_s)
            async with aclosing(_payloads(dialect.post(body, headers), decoder, answer, patience)) as payloads:
                async for payload in payloads:
                    for raw in answer.take(payload):
                        for delta in sanitizer.take(raw):
                            yield delta
                            if isinstance(delta, Failed):
                                return
                            patience.renew()  # while nobody read, nobody waited
            last = answer.end(bytes(decoder.junk))
        except Exception as exc:  # noqa: BLE001 - the boundary of a provider call; `explain` logs what it does not know
            last = provider.explain_exception(exc)
        for delta in sanitizer.take(last):
            yield delta


def _encode(dialect: Dialect, request: ModelRequest, endpoint: Endpoint) -> tuple[bytes, Mapping[str, str]]:
    rendered = dialect.render(request, endpoint)
    try:
        body = orjson.dumps(rendered.body)
    except orjson.JSONEncodeError:
        # Arguments nested deeper, or an integer longer, than orjson writes: a server's schema may hold either.
        body = json.dumps(rendered.body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return body, rendered.headers


async def _payloads(
    sending: Awaitable[Any], decoder: SseDecoder, answer: Answer, patience: "_Patience"
) -> AsyncGenerator[bytes, None]:
    """Yield the payload of each event until the answer is done or the body has ended."""
    async with AsyncExitStack() as stack:
        response: Any = await patience.wait(lambda: sending)
        stack.push_async_callback(response.close)
        pieces = await stack.enter_async_context(aclosing(body_of(response.http_response)))
        spent_s = 0.0
        while (piece := await patience.wait(anext, pieces, None)) is not None:
            await anyio.sleep(min(spent_s, _SHARE_S))  # others get as long as the piece before this one took
            began = anyio.current_time()
            try:
                found = decoder.feed(piece)
            except NoEvents:
                return
            for payload in found:
                yield payload
                if answer.done:
                    await _drain(pieces)
                    return
            spent_s = anyio.current_time() - began
    for payload in decoder.end():
        yield payload


async def _drain(pieces: AsyncGenerator[bytes, None]) -> None:
    """Read a body to its end, which leaves a connection that can be used again; one that goes on is left."""
    with anyio.move_on_after(_DRAIN_S):
        async for _ in pieces:
            pass


class _Patience:
    """How long may be waited for the next word of an answer."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self.renew()

    def renew(self) -> None:
        """Begin anew: a word has come, and whoever reads is ready for the next one."""
        self._deadline = anyio.current_time() + self._limit_s

    async def wait(self, ask: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Wait for what `ask` returns.

        Raises:
            Stalled: it did not come in time.
        """
        with anyio.CancelScope(deadline=self._deadline):
            return await ask(*arguments)
        raise Stalled(self._limit_s)
