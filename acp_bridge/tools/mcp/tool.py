"""A server's tool as a tool of the port, while it is there and once it is gone.

Owns how it is drawn, asked for and called; believes nothing of its server.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio.to_thread
import orjson

from acp_bridge.content import JsonObject, ShownBlock, Text
from acp_bridge.errors import ToolError
from acp_bridge.tools.titles import quoted, title
from acp_bridge.tools.tool import Access, Call, Presentation, ToolOutput, ToolSpec, Workspace

from .checking import check_arguments
from .offer import Offer
from .results import output_of

CallTool: TypeAlias = Callable[[Offer, JsonObject, str], Awaitable[JsonObject]]


class McpTool:
    """One tool of one server.

    Args:
        server: the server's name, as its user knows it.
        call: has the server run what it offered; the last argument is the call's key.
    """

    def __init__(self, server: str, offer: Offer, call: CallTool) -> None:
        self._title = _title(server, offer)
        self._offer = offer
        self._call = call
        definition = orjson.dumps([offer.tool, offer.description, offer.parameters], option=orjson.OPT_SORT_KEYS)
        self._definition = hashlib.sha256(definition).hexdigest()[:12]
        self.spec = ToolSpec(
            name=offer.name, description=offer.description, parameters=offer.parameters, effect="write", kind="other"
        )

    def check(self, arguments: JsonObject) -> JsonObject:
        """Hold the arguments against the server's schema, as far as that is cheap; the rest is the server's to say."""
        return check_arguments(self._offer.parameters, arguments)

    def present(self, arguments: JsonObject, workspace: Workspace) -> Presentation:  # noqa: ARG002 - what they mean is unknown
        """Show the names of server and tool."""
        return Presentation(title=self._title, kind="other")

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
        result = await self._call(self._offer, arguments, call.key)
        return await anyio.to_thread.run_sync(output_of, result, call.secrets)


class GoneTool:
    """A tool that its server does not run any more. The model is told so where it reads what there is.

    It stays listed: the conversation names it, and a model that finds it missing tries it all the same.

    Args:
        server: the server's name, as its user knows it.
        short: why it is gone, in words of ours, for its description.
        why: what a call is answered; nobody is asked about one.
    """

    def __init__(self, server: str, offer: Offer, short: str, why: str) -> None:
        self._title = _title(server, offer)
        self._why = why
        self.spec = ToolSpec(
            name=offer.name,
            description=f"GONE, do not call it: {short}",
            parameters={"type": "object", "properties": {}},
            effect="read",
            kind="other",
        )

    def check(self, arguments: JsonObject) -> JsonObject:  # noqa: ARG002 - nothing would make it right
        """Refuse the call."""
        raise self._refusal()

    def present(self, arguments: JsonObject, workspace: Workspace) -> Presentation:  # noqa: ARG002 - as when it was there
        """Show the names of server and tool."""
        return Presentation(title=self._title, kind="other")

    def access(self, arguments: JsonObject, workspace: Workspace) -> Access:  # noqa: ARG002 - it touches nothing
        """Nothing."""
        return Access(kind="none")

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:  # noqa: ARG002 - likewise
        """Refuse the call."""
        raise self._refusal()

    def _refusal(self) -> ToolError:
        return ToolError(f"It was not run: {self._why}", code="UNKNOWN_TOOL")


def _title(server: str, offer: Offer) -> str:
    return title(f"{server[:100]}: {offer.tool[:100]}")
