"""The way to a provider: how its SDK's client is set up, what an answer that is no 2xx brings, and the bytes of a body.

Owns timeouts, proxies, redirects, compression and the bound on an error's body, and nothing that differs between
providers. Both SDKs are made by one generator, so what is said here holds for both. Knows no message.
"""

import logging
import zlib
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any

import anyio

from acp_bridge.errors import ConfigError
from acp_bridge.limits import ERROR_BODY

from .endpoint import Endpoint
from .network import PLACE, host_of, is_loopback, public_url

logger = logging.getLogger(__name__)

RAW_RESPONSE: Mapping[str, str] = {"X-Stainless-Raw-Response": "stream"}
"""What makes either SDK return a response whose body nobody has read or parsed."""

_ERROR_BODY_S = 5.0
"""How long an error's body is read: its status has said the most."""
_PIECE = 64 * 1024
"""Bytes that are decompressed at a time: a kilobyte can hold a megabyte."""
_ZIPPED = ("gzip", "x-gzip", "deflate")


class Refused(Exception):
    """An answer that is no 2xx, with the beginning of its body."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.headers = headers
        self.body = body


class UnreadableBody(Exception):
    """A body in an encoding that was not asked for, or whose compression is broken."""


class Stalled(Exception):
    """Nothing of an answer came for as long as it may stay away, whatever kept the connection alive."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"nothing for {seconds:g} s")
        self.seconds = seconds


def http_options(base_url: str, timeout: Any) -> dict[str, Any]:
    """Return the arguments for either SDK's HTTP client.

    A proxy from the environment is for the network and not for this machine. A redirect is not followed: it would carry
    the key and the conversation to an address that nobody configured.
    """
    options: dict[str, Any] = {"timeout": timeout, "trust_env": True, "follow_redirects": False}
    options["headers"] = {"Accept-Encoding": "identity"}  # events should not wait for a compressor's block to fill
    options["event_hooks"] = {"response": [_refuse]}
    if is_loopback(base_url):
        options["trust_env"] = False
        options["mounts"] = {f"all://{host_of(base_url)}": None}  # Anthropic's client mounts proxies by itself
    if base_url.startswith("http://"):  # no certificate to check, so none of the 30 ms to load those to check by
        options["verify"] = False
    return options


@contextmanager
def setting_up(endpoint: Endpoint) -> Generator[None]:
    """Set up a client; what goes wrong is wrong in what was set for it.

    Raises:
        ConfigError: it names the variables that are read for it.
    """
    try:
        yield
    except Exception as exc:
        looked_at = sorted(name for name, value in endpoint.network.items() if value)
        hint = f"; look at {', '.join(looked_at)} {PLACE}" if looked_at else ""
        url = public_url(endpoint.base_url)
        raise ConfigError(f"{endpoint.provider} at {url} cannot be reached as it is set up: {exc}{hint}") from exc


async def _refuse(response: Any) -> None:
    """Raise for an answer that is no 2xx, before an SDK reads all of its body, which may never end."""
    if 200 <= response.status_code < 300:
        return
    body = bytearray()
    try:
        with anyio.move_on_after(_ERROR_BODY_S):
            async with aclosing(body_of(response)) as pieces:
                async for piece in pieces:
                    body += piece[: ERROR_BODY - len(body)]
                    if len(body) >= ERROR_BODY:
                        break
    except Exception as exc:  # noqa: BLE001 - of no kind that both SDKs share; what was read is enough
        logger.debug("the body of an answer of status %s broke off: %s", response.status_code, exc)
    raise Refused(response.status_code, response.headers, bytes(body))


async def body_of(response: Any) -> AsyncGenerator[bytes, None]:
    """Yield the body of a raw HTTP response in bounded pieces, decompressed where a server did what it was not asked.

    Raises:
        UnreadableBody: it cannot be decompressed.
    """
    unpacked = _unpacking(response.headers.get("content-encoding", ""))
    body: AsyncGenerator[bytes, None] = response.aiter_raw()
    async with aclosing(body) as pieces:
        async for packed in pieces:
            for piece in unpacked(packed):
                yield piece


def _unpacking(encoding: str) -> Callable[[bytes], Iterator[bytes]]:
    names = [name for part in encoding.lower().split(",") if (name := part.strip()) not in ("", "identity")]
    if not names:
        return lambda packed: iter((packed,))
    if len(names) > 1 or names[0] not in _ZIPPED:
        raise UnreadableBody(f"it is compressed as {encoding[:40]!r}, which was not asked for")
    return _Unzipping().feed


class _Unzipping:
    """Unpacks gzip and deflate a bounded piece at a time."""

    def __init__(self) -> None:
        self._zip = zlib.decompressobj(zlib.MAX_WBITS | 32)  # either, told apart by its head

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """Yield what more bytes hold."""
        try:
            full = True
            while (packed or full) and not self._zip.eof:
                piece = self._zip.decompress(packed, _PIECE)
                packed, full = self._zip.unconsumed_tail, len(piece) == _PIECE  # zlib may hold the rest back
                if piece:
                    yield piece
        except zlib.error as exc:
            raise UnreadableBody(f"its compression is broken: {exc}") from exc
