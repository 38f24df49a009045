"""`write_file`: a text file made, or replaced as a whole."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from acp_bridge.content import JsonObject, Location, ShownBlock, Text
from acp_bridge.errors import ToolError
from acp_bridge.limits import TEXT_FILE
from acp_bridge.text import quantity

from .arguments import Arguments
from .changes import show_change, warn_of_unsaved
from .paths import accessed, lexical, named, permitted, resolved
from .titles import title
from .tool import Access, Call, Presentation, ToolOutput, ToolSpec, Workspace

_BOM = "\ufeff"


class _Arguments(Arguments):
    path: str = Field(description="Relative to the session's folder, or absolute.")
    content: str = Field(description="The whole new text.")


class WriteFile:
    """Writes a whole file. One that this session never read is not overwritten: nobody would know what is lost."""

    spec = ToolSpec(
        name="write_file",
        description=(
            "Create a text file, or replace all of one that was read before. Missing folders are made. "
            "To change a part of a file, use edit_file."
        ),
        parameters=_Arguments,
        effect="idempotent",
        kind="edit",
    )

    def check(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments."""
        return _Arguments.check(arguments)

    def present(self, arguments: JsonObject, workspace: Workspace) -> Presentation:
        """Show the path."""
        path = arguments.get("path")
        place = (Location(path=lexical(path, workspace)),) if isinstance(path, str) else ()
        return Presentation(title=title("Write", named(path, workspace)), kind="edit", locations=place)

    def access(self, arguments: JsonObject, workspace: Workspace) -> Access:
        """Change one file."""
        return accessed("edit", resolved(_Arguments.of(arguments).path, workspace))

    async def preview(self, arguments: JsonObject, call: Call) -> tuple[ShownBlock, ...]:
        """Return the diff that there would be."""
        write = await _plan(_Arguments.of(arguments), call)
        return *(await show_change(write.path, write.old, write.new)), *warn_of_unsaved(call, write.path)

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        """Write, and return the diff. A file that has this text already is done: the call may be a repetition."""
        asked = _Arguments.of(arguments)
        write = await _plan(asked, call)
        path, old, new = write.path, write.old, write.new
        if old == new:
            text = Text(text=f"{asked.path} has exactly this content already; nothing was changed.")
            return ToolOutput(content=(text,), digests={str(path): call.files.digest_of(path)})
        await call.files.write_text(path, new)
        what = "Created" if old is None else "Replaced"
        count = len(new.splitlines())
        return ToolOutput(
            content=(Text(text=f"{what} {asked.path} ({quantity(count, 'line', grouped=False)}).{write.kept}"),),
            shown=await show_change(path, old, new),
            digests={str(path): call.files.digest_of(path)},
        )


@dataclass(frozen=True, slots=True)
class _Write:
    """What is to be written. `kept` says what of the old file's form was kept although the model left it out."""

    path: Path
    old: str | None
    new: str
    kept: str


async def _plan(asked: _Arguments, call: Call) -> _Write:
    path = permitted(asked.path, call)
    if len(asked.content.encode("utf-8", "replace")) > TEXT_FILE:
        raise ToolError(f"the content is larger than {TEXT_FILE >> 20} MiB; write it in parts, by a command")
    old = await call.files.text_to_change(path, whole=True)
    new, kept = _in_form_of(old or "", asked.content)
    if old is not None and old != new and str(path) not in call.seen:
        raise ToolError(f"{asked.path!r} exists and was not read in this session; read it first, or edit it")
    call.files.require_no_stand_in(path, new)
    return _Write(path, old, new, kept)


def _in_form_of(old: str, new: str) -> tuple[str, str]:
    """Return the text with what belongs to the file and not to its content, and that in words: models leave it out."""
    kept: list[str] = []
    if "\r\n" in old and "\n" not in old.replace("\r\n", "") and "\n" in new and "\r" not in new:
        new = new.replace("\n", "\r\n")
        kept.append("line ends (CRLF)")
    if old.startswith(_BOM) and not new.startswith(_BOM):
        new = _BOM + new
        kept.append("byte order mark")
    return new, f" Its {' and '.join(kept)} stayed." if kept else ""
