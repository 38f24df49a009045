"""Parts that will not end, or fail as they do, planted into a real process; and a trace of the order of its end.

Named by `ACP_BRIDGE_CHECKPOINT_POLICY=support.stubborn:policy`. Two variables of the environment say the rest:
`STUBBORN`, such as `turn hangs` or `storage fails`, and `TRACE`, a file.
"""

import os
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from acp_bridge.checkpoint import CheckpointPolicy, Options
from acp_bridge.llm import ScriptedModel
from acp_bridge.session import Durable
from acp_bridge.storage.session import JsonlSession
from acp_bridge.tools import GuardedCommands, RunCommand

WHERE, _, HOW = os.environ.get("STUBBORN", "").partition(" ")


class StubbornPolicy(CheckpointPolicy):
    """The built-in policy, one barrier of which never ends."""

    async def before_request(self, journal: Durable) -> None:
        """Wait, for ever if told so."""
        await _stubborn("request")
        await super().before_request(journal)

    async def before_tool(self, journal: Durable) -> None:
        """Wait, for ever if told so."""
        await _stubborn("tool")
        await super().before_tool(journal)

    async def after_turn(self, journal: Durable) -> None:
        """Wait, for ever if told so."""
        await _stubborn("turn")
        await super().after_turn(journal)

    async def after_open(self, journal: Durable) -> None:
        """Wait, for ever if told so."""
        await _stubborn("open")
        await super().after_open(journal)


def policy(options: Options) -> CheckpointPolicy:
    """Plant what the environment names, and trace the rest."""
    _trace_closing(ScriptedModel, "model")
    _trace_closing(GuardedCommands, "commands")
    _trace_closing(JsonlSession, "storage", "close")
    append, body = JsonlSession.append, RunCommand.run

    async def appended(self: JsonlSession, records: Any) -> int:
        written = await append(self, records)
        for record in records:
            _note(record.event.type)
        return written

    async def ran(self: RunCommand, arguments: Any, call: Any) -> Any:
        with anyio.CancelScope(shield=WHERE == "body"):
            await _stubborn("body")
        return await body(self, arguments, call)

    JsonlSession.append, RunCommand.run = appended, ran
    return StubbornPolicy(options)


def _trace_closing(part: Any, name: str, method: str = "aclose") -> None:
    close: Callable[[Any], Awaitable[None]] = getattr(part, method)

    async def closed(self: Any) -> None:
        _note(f"{name} closes")
        await _stubborn(name)
        await close(self)
        _note(f"{name} closed")

    setattr(part, method, closed)


async def _stubborn(where: str) -> None:
    if where != WHERE:
        return
    _note(f"{where} {HOW}")
    if HOW == "fails":
        raise RuntimeError(f"{where} failed as it was told to")
    await anyio.sleep_forever()


def _note(word: str) -> None:
    with open(os.environ["TRACE"], "a") as file:
        file.write(f"{word}\n")
