"""What the cases share: an agent in front of a scripted or a fake model, killed and started again in one home."""

import json
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from crash.kills.provider import Asked, Provider, Reply

from . import log
from .client import Client

Json: TypeAlias = dict[str, Any]
Start: TypeAlias = Callable[..., Client]

FULL = {"ACP_BRIDGE_MODE": "full"}


def mostly_slow(cases: Iterable[Any], *, quick: Collection[Any]) -> list[Any]:
    """Return the cases as parameters, all but the `quick` ones marked slow."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=() if case in quick else pytest.mark.slow)
        for case in cases
    ]


@contextmanager
def agents(folder: Path) -> Generator[Start]:
    """Start agents in one home that end with the block; those that were killed may be."""
    started: list[Client] = []

    def start(model: Path | Provider, *, initialize: bool = True, **more: Any) -> Client:
        environment = {**FULL, **more.pop("environment", {})}
        script: Path | str = ""
        if isinstance(model, Provider):
            environment = {**model.environment, **environment}
        else:
            script = model
        client = Client(folder / "home", script, environment=environment, **more)
        started.append(client)
        if initialize:
            client.initialize()
        return client

    try:
        yield start
    except BaseException:
        for client in started:
            client.kill()
        raise
    for client in started:
        client.__exit__(None, None, None)


def load(client: Client, session: str, cwd: Path, *, method: str = "session/load") -> Any:
    """Load or resume a session."""
    return client.call(method, {"sessionId": session, "cwd": str(cwd), "mcpServers": []})


def answering(*replies: Reply, otherwise: Reply | None = None) -> Callable[[Asked], Reply]:
    """Return what answers each request with the next reply, and then always with `otherwise`."""
    left = list(replies)
    return lambda _asked: left.pop(0) if left else otherwise or Reply(["Done."])


def cards(client: Client, session: str, since: int = 0) -> dict[str, Json]:
    """Return the tool cards as they stand last, by call id."""
    found: dict[str, Json] = {}
    for update in client.updates(session, since=since):
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            card = found.setdefault(update["toolCallId"], {})
            card |= {key: value for key, value in update.items() if key != "sessionUpdate"}
    return found


def said(client: Client, session: str, kind: str = "agent_message_chunk", since: int = 0) -> dict[str, str]:
    """Return the text of one kind by message id."""
    found: dict[str, str] = {}
    for update in client.updates(session, since=since, kind=kind):
        found[update["messageId"]] = found.get(update["messageId"], "") + update["content"].get("text", "")
    return found


def words(card: Json) -> str:
    """Return all that a tool card says."""
    return json.dumps(card.get("content", []))


def events(client: Client, session: str, kind: str = "") -> list[Json]:
    """Return the events of a session's log."""
    return log.events(client.home, session, kind)


def last_words(messages: Sequence[Json]) -> str:
    """Return the text of a request's last message."""
    return str(messages[-1]["content"])
