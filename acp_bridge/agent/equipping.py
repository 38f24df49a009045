"""The wait of a session's first turn for its MCP servers, and what its user is told meanwhile.

Owns how long that is and the words. Knows no process and no log: who is waited for now is no fact of the conversation,
as little as a problem of a server is. It is told to whoever looks on, and a later load tells how things stand then.
"""

from typing import Literal, Protocol, TypeAlias

from acp_bridge.tools import McpServers

MCP_BUDGET_S = 10.0
"""How long a session's first turn waits for its MCP servers; `session/new` waits for none."""
SILENT_S = 1.5
"""How long of that nothing is said: most are there by then."""
NAMED = 5
"""How many of them are named."""


Severity: TypeAlias = Literal["info", "warning"]


class Tell(Protocol):
    """Says something to the session's user, and never to the model."""

    def __call__(self, severity: Severity, title: str, description: str) -> None:
        """Say it."""
        ...


async def wait_for_servers(servers: McpServers, tell: Tell) -> None:
    """Wait until every server is ready or failed, for `MCP_BUDGET_S` at most; say so once that takes a while."""
    await servers.ready(SILENT_S)
    if not (late := servers.late()):
        return
    names = ", ".join(name[:100] for name in late[:NAMED])
    more = f" and {len(late) - NAMED} more" if len(late) > NAMED else ""
    rest_s = MCP_BUDGET_S - SILENT_S
    words = f"{names}{more}. After {rest_s:g} s the prompt goes on without, and tools that come later are offered then"
    tell("info", "Waiting for MCP servers to start", words)
    await servers.ready(rest_s)
    servers.go_on_without_late()
