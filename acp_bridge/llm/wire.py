"""The way to a provider: how its SDK's client is set up, and the payloads of a streamed answer.

Owns timeouts, proxies and redirects, and nothing that differs between providers. Both SDKs are made by one generator,
so what is said here holds for both. Knows no message.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import anyio

from .sse import SseDecoder

DONE = b"[DONE]"
_DRAIN_S = 0.05


def is_loopback(url: str) -> bool:
    """Whether `url` names this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def http_options(base_url: str, timeout: Any) -> dict[str, Any]:
    """Return the arguments for either SDK's HTTP client.

    A proxy from the environment is for the network and not for this machine. A redirect is not followed: it would carry
    the key and the conversation to an address that nobody configured.
    """
    options: dict[str, Any] = {"timeout": timeout, "trust_env": True, "follow_redirects": False}
    if is_loopback(base_url):
        options["trust_env"] = False
        options["mounts"] = {f"all://{_host(base_url)}": None}  # Anthropic's client mounts proxies by itself
    if base_url.startswith("http://"):  # no certificate to check, so none of the 30 ms to load those to check by
        options["verify"] = False
    return options


def shown_url(url: str) -> str:
    """Return the address as it may be shown: no user, password or query, which can hold secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{_host(url)}{f':{parts.port}' if parts.port else ''}{parts.path}".rstrip("/")


def _host(url: str) -> str:
    host = urlsplit(url).hostname or ""
    return f"[{host}]" if ":" in host else host


async def payloads(response: Any, decoder: SseDecoder) -> AsyncGenerator[list[bytes], None]:
    """Read a raw answer of either SDK: yield the payloads that each piece from the network completed, without `[DONE]`.

    Ends at `[DONE]` or at the end of the body, whichever comes first.
    """
    body: AsyncGenerator[bytes, None] = response.iter_bytes()
    async with aclosing(body) as chunks:
        async for chunk in chunks:
            if found := decoder.feed(chunk):
                if DONE in found:
                    yield found[: found.index(DONE)]
                    with anyio.move_on_after(
                        _DRAIN_S
                    ):  # a body read to its end leaves a connection that can be used again
                        async for _ in chunks:
                            pass
                    return
                yield found
    if rest := [payload for payload in decoder.end() if payload != DONE]:
        yield rest
