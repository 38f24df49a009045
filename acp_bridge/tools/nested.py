"""Tools that call tools: how an inner call is shown, and which one may not be made.

Pure. Owns the bound on depth and the rule that an inner call does no more than its outer one says. Runs nothing.
"""

from collections.abc import Mapping
from typing import Final

import orjson

from acp_bridge.content import Effect, JsonObject, ToolRequest
from acp_bridge.limits import NESTED_CALLS
from acp_bridge.text import escaped, mended

from .tool import Presentation, Tool, Workspace

_WIDTH: Final[Mapping[Effect, int]] = {"read": 0, "idempotent": 1, "write": 2}


def inner_request(
    outer: ToolRequest, tool: Tool | None, name: str, arguments: JsonObject, workspace: Workspace
) -> tuple[ToolRequest, Tool | None]:
    """Return an inner call as a request with the outer one's id, ready to be shown to who is asked; and its tool."""
    arguments = mended(arguments)
    presentation = Presentation(title=name, kind="other") if tool is None else tool.present(arguments, workspace)
    request = ToolRequest(
        call_id=outer.call_id,
        name=name,
        arguments=orjson.dumps(arguments).decode(),
        title=escaped(f"{outer.name}: {presentation.title}"),
        kind=presentation.kind,
        locations=presentation.locations,
    )
    return request, tool


def refused_inside(depth: int, outer: Tool, inner: Tool) -> str:
    """Return why a call may not be made within another; empty if it may.

    What recovery tells of a call that a crash cut short, it tells by the outer tool's effect: an inner one that does
    more would make that untrue.
    """
    if depth >= NESTED_CALLS:
        return f"{inner.spec.name} was not run: tools may call tools {NESTED_CALLS} levels deep"
    if _WIDTH[inner.spec.effect] > _WIDTH[outer.spec.effect]:
        return (
            f"{inner.spec.name} was not run: its effect is {inner.spec.effect!r}, and that of {outer.spec.name}, which "
            f"called it, is declared as {outer.spec.effect!r}"
        )
    return ""
