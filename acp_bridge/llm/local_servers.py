"""Finds a model server on this machine: Ollama, LM Studio or llama.cpp.

Owns the look, which is short and asks all of them side by side. Uses the standard library alone, so that it can run
before anything heavy is imported.
"""

import http.client
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import orjson

from .providers import PRESETS

logger = logging.getLogger(__name__)

_MAX_BODY = 4 * 1024 * 1024
LOCAL_PROVIDERS: tuple[str, ...] = ("ollama", "lmstudio", "llamacpp")


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server that answered. `route` is for its first model that can talk."""

    route: str
    provider: str
    models: tuple[str, ...]


async def detect_local(base_urls: Mapping[str, str] | None = None, *, timeout_s: float = 0.5) -> LocalServer | None:
    """Return the first local server that has a model, in the order of `LOCAL_PROVIDERS`; None if none has.

    `base_urls` are those of the options; a provider without one is looked for where it listens by default.
    """
    found: dict[str, tuple[str, ...]] = {}

    async def look(provider: str, url: str) -> None:
        with anyio.move_on_after(timeout_s):
            asked = partial(models_at, url, timeout_s)
            found[provider] = await anyio.to_thread.run_sync(asked, abandon_on_cancel=True)

    async with anyio.create_task_group() as tg:
        for provider in LOCAL_PROVIDERS:
            tg.start_soon(look, provider, (base_urls or {}).get(provider) or PRESETS[provider].base_url)
    for provider in LOCAL_PROVIDERS:
        if models := found.get(provider):
            return LocalServer(f"{provider}:{models[0]}", provider, models)
    return None


def models_at(base_url: str, timeout_s: float) -> tuple[str, ...]:
    """Return the names of the models that a server lists, but for those that only embed; none if it is silent."""
    url = urlsplit(base_url)
    connection: http.client.HTTPConnection | None = None
    try:
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        connection = kind(url.hostname or "", url.port, timeout=timeout_s)  # no proxy: it is on this machine
        connection.request("GET", f"{url.path.rstrip('/')}/models", headers={"Accept": "application/json"})
        answer = connection.getresponse()
        return _names(orjson.loads(answer.read(_MAX_BODY))) if answer.status == 200 else ()
    except (OSError, http.client.HTTPException, ValueError) as exc:
        logger.debug("no model server at %s: %s", base_url, exc)
        return ()
    finally:
        if connection is not None:
            connection.close()


def _names(body: Any) -> tuple[str, ...]:
    items: Any = cast("dict[str, Any]", body).get("data") if isinstance(body, dict) else None
    if not isinstance(items, list):
        return ()  # something else listens there
    names = [
        str(cast("Any", item)["id"]) for item in cast("list[Any]", items) if isinstance(item, dict) and "id" in item
    ]
    return tuple(name for name in names if "embed" not in name.lower())
