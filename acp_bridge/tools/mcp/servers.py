"""The MCP servers of one session: side by side, each in a task of its own, none able to hold up or fail another.

Owns the live table of their tools and the list of their problems. Knows no client: whoever wants to tell a user of a
problem asks to be told.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
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

from .life import Connect
from .names import labels
from .offer import Offer, changes, offers
from .server import Server
from .spec import McpOptions, ServerSpec
from .tool import GoneTool, McpTool

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
        tools: by full name, filled as servers get ready. Those of a server that is started again stay meanwhile; those
            that are gone for good stay too and say so, in what a model reads of them and when called.
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
        self._told_good: list[Callable[[str, str], None]] = []
        self._offered: list[dict[str, Offer]] = [{} for _ in specs]
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
                listed=partial(self._take_list, len(self._servers), label),
                troubled=partial(self._report, spec.name),
                gone=partial(self._mark_gone, len(self._servers)),
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
                await server.answered.wait()

    def late(self) -> list[str]:
        """Return the names of those that are neither ready nor failed."""
        return [server.spec.name for server in self._servers if not server.answered.is_set()]

    def go_on_without_late(self) -> None:
        """Make it news to `on_news` when one is there that is late now."""
        for server in self._servers:
            server.missed = server.missed or not server.answered.is_set()

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

    def on_news(self, tell: Callable[[str, str], None]) -> None:
        """Have `tell` called with a server's name and what is good to know: it is there at last, or there again."""
        self._told_good.append(tell)

    def _report(self, server: str, reason: str) -> None:
        self.problems.append((server, reason))
        for tell in self._told:
            _tell(tell, server, reason)

    def _take_list(self, place: int, label: str, tools: list[Any], more: bool) -> Mapping[str, Offer]:
        server, before = self._servers[place], self._offered[place]
        name = server.spec.name
        others = sum(1 for known in self._tools if known not in before)
        offered, left_out = offers(name, label, tools, room=SESSION_TOOLS - others)
        now = self._offered[place] = {offer.name: offer for offer in offered}
        for offer in (offer for offer in before.values() if offer.name not in now):
            del self._tools[offer.name]
        for offer in offered:
            if before.get(offer.name) != offer:  # else the tool stays the one that it was
                self._tools[offer.name] = McpTool(name, offer, server.call)
        self._leave(place, [offer for offer in before.values() if offer.name not in now], _NOT_AGAIN)
        if more and not left_out:
            left_out = f"it lists more tools than are asked for; {len(offered)} can be used"
        if left_out:
            self._report(name, left_out)
        if before:
            self._news(name, f"It was started again and can be called{changes(before, now)}")
        elif server.missed:
            self._news(name, "It is there now; its tools are offered from the next request on")
        return now

    def _mark_gone(self, place: int, why: str) -> None:
        """Show what is offered of a server as gone."""
        self._leave(place, list(self._offered[place].values()), _ENDED, f": {why}")

    def _leave(self, place: int, gone: Iterable[Offer], short: str, why: str = "") -> None:
        name = self._servers[place].spec.name
        words = short.format(server=repr(name[:100]))
        for offer in gone:
            if offer.name in self._tools or len(self._tools) < SESSION_TOOLS:
                self._tools[offer.name] = GoneTool(name, offer, f"{words}.", f"{words}{why}. {_WAYS_ON}")

    def _news(self, server: str, words: str) -> None:
        for tell in self._told_good:
            _tell(tell, server, words)

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


_ENDED = "the MCP server {server} ended and is not started any more"
_NOT_AGAIN = "the MCP server {server} was started again and does not offer it any more"
_WAYS_ON = "Go on without it, or ask the user to open the session again."


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
