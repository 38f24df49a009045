"""`update_plan`: the model's plan, shown to the user; the whole of it each time."""

from typing import Literal, cast

from pydantic import Field

from acp_bridge.content import JsonObject, Text
from acp_bridge.text import escaped

from .arguments import Arguments
from .tool import Access, Call, Presentation, ToolOutput, ToolSpec, Workspace

MAX_ENTRIES = 100


class _Entry(Arguments):
    content: str = Field(min_length=1)
    status: Literal["pending", "in_progress", "completed"]
    priority: Literal["high", "medium", "low"] = "medium"


class _Arguments(Arguments):
    entries: list[_Entry] = Field(max_length=MAX_ENTRIES)


class UpdatePlan:
    """Replaces the plan."""

    spec = ToolSpec(
        name="update_plan",
        description=(
            "Show the user your plan for a task of several steps, and keep it up to date. Give every entry each time; "
            "one is in_progress at most."
        ),
        parameters=_Arguments,
        effect="idempotent",
        kind="think",
    )

    def check(self, arguments: JsonObject) -> JsonObject:
        """Return the entries with their priorities filled in."""
        return _Arguments.check(arguments)

    def present(self, arguments: JsonObject, workspace: Workspace) -> Presentation:
        """Say that the plan changes."""
        del arguments, workspace
        return Presentation(title="Update the plan", kind="think")

    def access(self, arguments: JsonObject, workspace: Workspace) -> Access:
        """Touch nothing."""
        del arguments, workspace
        return Access(kind="none")

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        """Hand the plan over to be logged and shown."""
        del call
        entries = cast("list[JsonObject]", arguments["entries"])
        return ToolOutput(
            content=(Text(text="The plan is shown."),),
            shown=(Text(text="\n".join(map(_line, entries)) or "The plan is empty."),),
            plan=tuple(entries),
        )


def _line(entry: JsonObject) -> str:
    """Return an entry for a client that shows no plan: an item of a list, as Markdown and a plain reader know it."""
    mark = "x" if entry["status"] == "completed" else " "
    now = " (in progress)" if entry["status"] == "in_progress" else ""
    return f"- [{mark}] {escaped(entry['content'])}{now}"
