"""`update_plan`: the model's plan, shown to the user; the whole of it each time."""

from typing import Literal

from pydantic import Field

from acp_bridge.content import JsonObject, Text
from acp_bridge.text import escaped

from .arguments import Arguments, checked, parsed
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
        parameters={
            "type": "object",
            "properties": {
                "entries": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "content": {"type": "string"},
                            "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
                            "priority": {"type": "string", "enum": ["high", "medium", "low"]},
                        },
                        "required": ["content", "status"],
                        "additionalProperties": False,
                    },
                }
            },
            "required": ["entries"],
            "additionalProperties": False,
        },
        effect="idempotent",
        kind="think",
    )

    def check(self, arguments: JsonObject) -> JsonObject:
        """Return the entries with their priorities filled in."""
        return checked(_Arguments, arguments)

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
        entries = parsed(_Arguments, arguments).entries
        return ToolOutput(
            content=(Text(text="The plan is shown."),),
            shown=(Text(text="\n".join(map(_line, entries)) or "The plan is empty."),),
            plan=tuple(entry.model_dump() for entry in entries),
        )


def _line(entry: _Entry) -> str:
    """Return an entry for a client that shows no plan: an item of a list, as Markdown and a plain reader know it."""
    mark = "x" if entry.status == "completed" else " "
    now = " (in progress)" if entry.status == "in_progress" else ""
    return f"- [{mark}] {escaped(entry.content)}{now}"
