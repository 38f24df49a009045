"""`edit_file`: one passage of a text file replaced by another."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from acp_bridge.content import JsonObject, Location, ShownBlock, Text
from acp_bridge.errors import ToolError

from .arguments import Arguments
from .changes import show_change, warn_of_unsaved
from .paths import accessed, lexical, named, permitted, resolved
from .titles import title
from .tool import Access, Call, Presentation, ToolOutput, ToolSpec, Workspace

_BOM = "\ufeff"


class _Arguments(Arguments):
    path: str = Field(description="Relative to the session's folder, or absolute.")
    old_text: str = Field(min_length=1, description="The passage to replace, word for word.")
    new_text: str = Field(description="What to put in its place.")
    replace_all: bool | None = Field(default=None, description="Replace every occurrence. Default false.")


class EditFile:
    """Edits a file that is as this session knows it.

    A file that was never read may be edited: that `old_text` is found exactly once shows that the model knows it.
    """

    spec = ToolSpec(
        name="edit_file",
        description=(
            "Replace old_text by new_text in a text file. old_text must be exactly in the file, and only once unless "
            "replace_all is true: give enough of the lines around it."
        ),
        parameters=_Arguments,
        effect="write",
        kind="edit",
    )

    def check(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments with defaults filled in."""
        return _Arguments.check(arguments)

    def present(self, arguments: JsonObject, workspace: Workspace) -> Presentation:
        """Show the path."""
        path = arguments.get("path")
        place = (Location(path=lexical(path, workspace)),) if isinstance(path, str) else ()
        return Presentation(title=title("Edit", named(path, workspace)), kind="edit", locations=place)

    def access(self, arguments: JsonObject, workspace: Workspace) -> Access:
        """Change one file."""
        return accessed("edit", resolved(_Arguments.of(arguments).path, workspace))

    async def preview(self, arguments: JsonObject, call: Call) -> tuple[ShownBlock, ...]:
        """Return the diff that there would be."""
        edit = await _plan(_Arguments.of(arguments), call)
        return *(await show_change(edit.path, edit.old, edit.new)), *warn_of_unsaved(call, edit.path)

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        """Replace, and return the diff."""
        asked = _Arguments.of(arguments)
        edit = await _plan(asked, call)
        await call.files.write_text(edit.path, edit.new)
        times = "" if edit.count == 1 else f" in {edit.count} places"
        return ToolOutput(
            content=(Text(text=f"Edited {asked.path}{times}."),),
            shown=await show_change(edit.path, edit.old, edit.new),
            digests={str(edit.path): call.files.digest_of(edit.path)},
        )


@dataclass(frozen=True, slots=True)
class _Edit:
    path: Path
    old: str
    new: str
    count: int


async def _plan(asked: _Arguments, call: Call) -> _Edit:
    path = permitted(asked.path, call)
    old = await call.files.text_to_change(path)
    if old is None:
        raise ToolError(f"{str(path)!r} does not exist; write_file makes new files")
    new, count = replaced(old, asked.old_text, asked.new_text, every=bool(asked.replace_all))
    call.files.require_no_stand_in(path, new)
    return _Edit(path, old, new, count)


def replaced(text: str, old: str, new: str, *, every: bool) -> tuple[str, int]:
    """Return `text` with `old` replaced by `new`, and how often. Line ends stay as the file has them.

    Raises:
        ToolError: `old` is not there, or more than once without `every`.
    """
    if old == new:
        raise ToolError("old_text and new_text are the same; nothing was changed")
    if "\r\n" in text and (old not in text or "\n" not in text.replace("\r\n", "")):
        # models write \n also where they read \r\n
        old, new = _crlf(old), _crlf(new)
    count = text.count(old)
    if not count:
        raise ToolError(_not_found(text, old))
    if count > 1 and not every:
        lines = ", ".join(str(line) for line in _lines(text, old))
        raise ToolError(
            f"old_text was found {count} times, at line {lines}; give more of the lines around the one that is "
            "meant, or set replace_all"
        )
    if old.startswith(_BOM) and not new.startswith(_BOM):
        new = _BOM + new  # the mark belongs to the file, not to the passage
    return text.replace(old, new), count


def _crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _lines(text: str, passage: str, limit: int = 10) -> list[int]:
    found: list[int] = []
    at = text.find(passage)
    while at >= 0 and len(found) < limit:
        found.append(text.count("\n", 0, at) + 1)
        at = text.find(passage, at + len(passage))
    return found


def _not_found(text: str, passage: str) -> str:
    """Say what comes near, if something does: the usual slips are white space and a file that changed."""
    lines = [line.strip() for line in passage.splitlines() if line.strip()]
    for number, line in enumerate(text.splitlines(), 1):
        if lines and line.strip() == lines[0]:
            return (
                f"old_text was not found; line {number} is like its first line, so what differs is white space or a "
                "later line. Read the file there and copy the text exactly"
            )
    return "old_text was not found; read the file and copy the text exactly"
