"""A streamed answer from the first byte to the last delta, the same for every provider over HTTP.

Owns the order of its layers (bytes, events, deltas, border), how long it may stay without a word, and that others get
their turn meanwhile. Knows no provider's shapes and no SDK.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from typing import Any, Protocol, TypeVar

import anyio

from .border import Border
from .failures import Provider
from .model import Delta, Failed, Finished
from .sse import NoEvents, SseDecoder
from .wire import Stalled, body_of

T = TypeVar("T")

_DRAIN_S = 0.05
_SHARE_S = 0.02
"""The longest that a piece of the body makes way for other tasks."""


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


async def answered(
    send: Callable[[], AbstractAsyncContextManager[Any]], answer: Answer, provider: Provider, stall_s: float
) -> AsyncGenerator[Delta, None]:
    """Send a request and yield its answer; the last delta is `Finished` or `Failed`.

    `send` makes an SDK's raw streaming response. Nothing that it or the network raises gets out.
    """
    border = Border(provider.name)
    patience = _Patience(stall_s)
    decoder = SseDecoder()
    try:
        async with aclosing(_payloads(send, decoder, answer, patience)) as payloads:
            async for payload in payloads:
                for raw in answer.take(payload):
                    for delta in border.take(raw):
                        yield delta
                        if isinstance(delta, Failed):
                            return
                        patience.renew()  # while nobody read, nobody waited
        last = answer.end(bytes(decoder.junk))
    except Exception as exc:  # noqa: BLE001 - the boundary of a provider call; `raised` logs what it does not know
        last = provider.raised(exc)
    for delta in border.take(last):
        yield delta


async def _payloads(
    send: Callable[[], AbstractAsyncContextManager[Any]], decoder: SseDecoder, answer: Answer, patience: "_Patience"
) -> AsyncGenerator[bytes, None]:
    """Yield the payload of each event until the answer is done or the body has ended."""
    async with AsyncExitStack() as stack:
        response: Any = await patience.wait(stack.enter_async_context, send())
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
                    await _drained(pieces)
                    return
            spent_s = anyio.current_time() - began
    for payload in decoder.end():
        yield payload


async def _drained(pieces: AsyncGenerator[bytes, None]) -> None:
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
