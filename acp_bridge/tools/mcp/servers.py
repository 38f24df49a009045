"""The MCP servers of one session: side by side, each in a task of its own, none able to hold up or fail another.

Owns the live table of their tools and the list of their problems. Knows no client: whoever wants to tell a user of a
problem asks to be told.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio
import anyio.to_thread

from acp_bridge.limits import SESSION_TOOLS
from acp_bridge.redaction import Secrets
from acp_bridge.tools.guard import allowed
from acp_bridge.tools.tool import Tool

from .names import labels
from .offer import offers
from .server import Connect, Server
from .spec import McpOptions, ServerSpec
from .tool import McpTool

logger = logging.getLogger(__name__)

CLOSE_S = 1.0

_importing = threading.Lock()  # one importer: two threads that import one package can see half-made modules


class McpServers:
    """Servers of one session; `run` is their life.

    Args:
        env: the environment to choose from; a server gets what a command gets, and what its spec says.
        cwd: the session's folder, in which they are started.
        running: the file that their guards hold a shared lock on, as those of commands do.
        secrets: what nothing may show; each server's own are added to them.

    Attributes:
        tools: by full name, filled as servers get ready. Those of a server that ended stay, and say so when called:
            what a model was offered does not change under it.
        problems: name of a server and reason, in the order in which they came up.
    """

    def __init__(
        self,
        specs: tuple[ServerSpec, ...],
        *,
        env: Mapping[str, str],
        cwd: Path,
        running: Path | None = None,
        options: McpOptions = McpOptions(),  # noqa: B008 - a frozen value
        secrets: Secrets = Secrets(),  # noqa: B008 - likewise
    ) -> None:
        self._tools: dict[str, Tool] = {}
        self.tools: Mapping[str, Tool] = MappingProxyType(self._tools)
        self.problems: list[tuple[str, str]] = []
        self._told: list[Callable[[str, str], None]] = []
        self._env = allowed(env)
        self._cwd = cwd
        self._running = running
        self._scope = anyio.CancelScope()
        self._alive = False
        self._finished = anyio.Event()
        self._imported = anyio.Event()
        self._connect: Connect | None = None
        self._servers: list[Server] = []
        for spec, label in zip(specs, labels([spec.name for spec in specs]), strict=True):
            server = Server(
                spec,
                options,
                secrets=secrets,
                sdk=self._sdk,
                listed=partial(self._listed, len(self._servers), label),
                troubled=partial(self._troubled, spec.name),
            )
            self._servers.append(server)

    async def run(self) -> None:
        """Start all servers and live until this is cancelled or closed, or until none is left."""
        if not self._servers:
            return
        self._alive = True
        try:
            with self._scope:
                async with anyio.create_task_group() as tg:
                    tg.start_soon(self._import)
                    for server in self._servers:
                        tg.start_soon(server.run, self._env, self._cwd, self._running)
        finally:
            self._alive = False
            self._finished.set()

    async def ready(self, budget_s: float) -> None:
        """Wait until every server is ready or failed, for `budget_s` at most."""
        with anyio.move_on_after(budget_s):
            for server in self._servers:
                await server.settled.wait()

    async def aclose(self) -> None:
        """End all servers, side by side, within `CLOSE_S`. Closing twice does nothing."""
        self._scope.cancel()
        if self._alive:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await self._finished.wait()

    def on_problem(self, tell: Callable[[str, str], None]) -> None:
        """Have `tell` called with a server's name and a reason: for each problem so far, and each to come."""
        for server, reason in self.problems:
            _tell(tell, server, reason)
        self._told.append(tell)

    def _troubled(self, server: str, reason: str) -> None:
        self.problems.append((server, reason))
        for tell in self._told:
            _tell(tell, server, reason)

    def _listed(self, index: int, label: str, tools: list[Any], more: bool) -> None:
        server = self._servers[index]
        name = server.spec.name
        offered, left_out = offers(name, label, tools, room=SESSION_TOOLS - len(self._tools))
        for offer in offered:
            self._tools[offer.name] = McpTool(name, offer, server.call)
        if more and not left_out:
            left_out = f"it lists more tools than are asked for; {len(offered)} can be used"
        if left_out:
            self._troubled(name, left_out)

    async def _import(self) -> None:
        try:
            self._connect = await anyio.to_thread.run_sync(_sdk_client, abandon_on_cancel=True)
        except Exception:  # a broken installation costs the servers, not the session
            logger.exception("the library for MCP servers cannot be imported")
        finally:
            self._imported.set()

    async def _sdk(self) -> Connect | None:
        await self._imported.wait()
        return self._connect


def _sdk_client() -> Connect:
    """Import the official SDK. Exempt from "imports at the top": it takes a second, and only who has servers pays."""
    with _importing:
        from .client import talking
    return talking


def _tell(tell: Callable[[str, str], None], server: str, reason: str) -> None:
    try:
        tell(server, reason)
    except Exception:  # an observer, contained
        logger.exception("an observer of MCP problems failed")
