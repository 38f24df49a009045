"""Tools that call tools: how an inner call is shown, and which one may not be made.

Pure. Owns the bound on depth and the rule that an inner call does no more than its outer one says. Runs nothing.
"""

from collections.abc import Mapping
from typing import Final

from acp_bridge.content import Effect, ToolRequest
from acp_bridge.limits import NESTED_CALLS
from acp_bridge.text import escaped

from .tool import Presentation, Tool, Workspace
from .understanding import Understood

_WIDTH: Final[Mapping[Effect, int]] = {"read": 0, "idempotent": 1, "write": 2}


def inner_request(
    outer: ToolRequest, tool: Tool | None, name: str, meant: Understood | None, workspace: Workspace
) -> ToolRequest:
    """Return an inner call as a request with the outer one's id, with how it is shown to who is asked about it."""
    if tool is None or meant is None:
        presentation = Presentation(title=name, kind="other")
    else:
        presentation = tool.present(meant.arguments, workspace)
    return ToolRequest(
        call_id=outer.call_id,
        name=name,
        arguments="",  # there was no text: the outer tool gave an object
        title=escaped(f"{outer.name}: {presentation.title}"),
        kind=presentation.kind,
        locations=presentation.locations,
    )


def refusal_inside(depth: int, outer: Tool, inner: Tool) -> str:
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
