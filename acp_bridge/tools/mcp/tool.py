"""A server's tool as a tool of the port. Owns how it is drawn, asked for and called; believes nothing of its server."""

import hashlib
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio.to_thread
import orjson

from acp_bridge.content import JsonObject, ShownBlock, Text
from acp_bridge.tools.drawing import quoted, title
from acp_bridge.tools.tool import Access, Call, Drawing, ToolOutput, ToolSpec, Workspace

from .checking import checked
from .offer import Offer
from .results import output_of

CallTool: TypeAlias = Callable[[str, JsonObject, str], Awaitable[JsonObject]]


class McpTool:
    """One tool of one server.

    Args:
        server: the server's name, as its user knows it.
        call: has the server run a tool, by the server's own name for it; the last argument is the call's key.
    """

    def __init__(self, server: str, offer: Offer, call: CallTool) -> None:
        self._title = title(f"{server[:100]}: {offer.tool[:100]}")
        self._offer = offer
        self._call = call
        definition = orjson.dumps([offer.tool, offer.description, offer.parameters], option=orjson.OPT_SORT_KEYS)
        self._definition = hashlib.sha256(definition).hexdigest()[:12]
        self.spec = ToolSpec(
            name=offer.name, description=offer.description, parameters=offer.parameters, effect="write", kind="other"
        )

    def check(self, arguments: JsonObject) -> JsonObject:
        """Hold the arguments against the server's schema, as far as that is cheap; the rest is the server's to say."""
        return checked(self._offer.parameters, arguments)

    def draw(self, arguments: JsonObject, workspace: Workspace) -> Drawing:  # noqa: ARG002 - what they mean is unknown
        """Draw the names of server and tool."""
        return Drawing(title=self._title, kind="other")

    def access(self, arguments: JsonObject, workspace: Workspace) -> Access:  # noqa: ARG002 - likewise
        """Execute. A grant covers this tool as it is defined now, whatever its arguments."""
        scope = f"{self.spec.name} as defined now ({self._definition}), with any arguments"
        return Access(kind="execute", scope=scope)

    async def preview(self, arguments: JsonObject, call: Call) -> tuple[ShownBlock, ...]:  # noqa: ARG002 - likewise
        """Return the arguments: all that can be known of what the call would do."""
        if not arguments:
            return ()
        return (Text(text=quoted(orjson.dumps(arguments, option=orjson.OPT_INDENT_2).decode(), "json")),)

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        """Have the server run it; cancelled, tell the server, which may have done it by then."""
        result = await self._call(self._offer.tool, arguments, call.key)
        return await anyio.to_thread.run_sync(output_of, result, call.secrets)
