"""An agent of somebody else's: this package's parts, from public names alone, and a tool of their own."""

import os
import sys
from functools import partial

import anyio

from acp_bridge.app import serve
from acp_bridge.config import load
from acp_bridge.content import JsonObject, Text
from acp_bridge.errors import ToolError
from acp_bridge.rpc import open_stdio
from acp_bridge.tools import Access, Call, Presentation, ToolOutput, ToolSpec, Workspace


class Greet:
    """Greets somebody, in a file, so that there is an effect to look at."""

    spec = ToolSpec(
        name="greet",
        description="Greet somebody by name.",
        parameters={"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        effect="idempotent",
        kind="other",
    )

    def check(self, arguments: JsonObject) -> JsonObject:
        if not isinstance(arguments.get("name"), str):
            raise ToolError("'name' must be a text", code="INVALID_ARGUMENTS")
        return arguments

    def present(self, arguments: JsonObject, workspace: Workspace) -> Presentation:
        return Presentation(title=f"Greet {arguments.get('name')}", kind="other")

    def access(self, arguments: JsonObject, workspace: Workspace) -> Access:
        return Access(kind="edit", inside=False)

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        await anyio.Path(call.workspace.cwd, "greeting.txt").write_text(f"Hello {arguments['name']}\n")
        return ToolOutput(content=(Text(text=f"Greeted {arguments['name']}."),))


def main() -> int:
    config = load(os.environ)
    return anyio.run(partial(serve, config, open_stdio(), tools=(Greet(),)))


if __name__ == "__main__":
    sys.exit(main())
