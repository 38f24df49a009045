"""`write_file`: a text file made, or replaced as a whole."""

import os
from pathlib import Path

import anyio.to_thread

from acp_bridge.content import JsonObject, Location, ShownBlock, Text
from acp_bridge.errors import ToolError
from acp_bridge.limits import TEXT_FILE

from .arguments import Arguments, checked, parsed
from .changes import drawn, refuse_if_changed
from .drawing import title
from .files import digest
from .paths import accessed, lexical, permitted, resolved
from .tool import Access, Call, Drawing, ToolOutput, ToolSpec, Workspace


class _Arguments(Arguments):
    path: str
    content: str


class WriteFile:
    """Writes a whole file. One that this session never read is not overwritten: nobody would know what is lost."""

    spec = ToolSpec(
        name="write_file",
        description=(
            "Create a text file, or replace all of one that was read before. Missing folders are made. "
            "To change a part of a file, use edit_file."
        ),
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Relative to the session's folder, or absolute."},
                "content": {"type": "string", "description": "The whole new text."},
            },
            "required": ["path", "content"],
            "additionalProperties": False,
        },
        effect="idempotent",
        kind="edit",
    )

    def check(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments."""
        return checked(_Arguments, arguments)

    def draw(self, arguments: JsonObject, workspace: Workspace) -> Drawing:
        """Draw the path."""
        path = arguments.get("path")
        place = (Location(path=lexical(path, workspace)),) if isinstance(path, str) else ()
        return Drawing(title=title("Write", path), kind="edit", locations=place)

    def access(self, arguments: JsonObject, workspace: Workspace) -> Access:
        """Change one file."""
        return accessed("edit", resolved(parsed(_Arguments, arguments).path, workspace))

    async def preview(self, arguments: JsonObject, call: Call) -> tuple[ShownBlock, ...]:
        """Return the diff that there would be."""
        asked = parsed(_Arguments, arguments)
        path, old = await _replaceable(asked, call)
        return drawn(path, old, asked.content)

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        """Write, and return the diff. A file that has this text already is done: the call may be a repetition."""
        asked = parsed(_Arguments, arguments)
        path, old = await _replaceable(asked, call)
        if old == asked.content:
            text = Text(text=f"{asked.path} has exactly this content already; nothing was changed.")
            return ToolOutput(content=(text,), digests={str(path): digest(asked.content)})
        await call.files.write_text(path, asked.content)
        what = "Created" if old is None else "Replaced"
        count = len(asked.content.splitlines())
        return ToolOutput(
            content=(Text(text=f"{what} {asked.path} ({count} line{'' if count == 1 else 's'})."),),
            shown=drawn(path, old, asked.content),
            digests={str(path): digest(asked.content)},
        )


async def _replaceable(asked: _Arguments, call: Call) -> tuple[Path, str | None]:
    """Return the path and the text that the file has, None if there is none."""
    path = permitted(asked.path, call)
    if len(asked.content.encode("utf-8", "replace")) > TEXT_FILE:
        raise ToolError(f"the content is larger than {TEXT_FILE >> 20} MiB; write it in parts, by a command")
    old = await call.files.read_text(path) if await anyio.to_thread.run_sync(os.path.lexists, path) else None
    if old is not None and old != asked.content:
        if str(path) not in call.seen:
            raise ToolError(f"{asked.path!r} exists and was not read in this session; read it first, or edit it")
        refuse_if_changed(call, path, old)
    return path, old
