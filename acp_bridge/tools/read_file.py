"""`read_file`: a text file, or some lines of it, word for word; or a picture.

Decision: no line numbers in front of the lines. Models copy what they read into `old_text`, numbers and all; that
the text is exactly the file's is worth more, and `search_files` gives numbers where they are wanted.
"""

from pathlib import Path

import anyio.to_thread
from pydantic import Field

from acp_bridge.content import JsonObject, Location, Text
from acp_bridge.errors import ToolError
from acp_bridge.pictures import Facts, examined
from acp_bridge.text import quantity

from .arguments import Arguments
from .files import PictureFile
from .paths import accessed, lexical, named, permitted, resolved
from .titles import title
from .tool import Access, Call, Picture, Presentation, ToolOutput, ToolSpec, Workspace

MAX_LINES = 2000
MAX_CHARACTERS = 100_000

_UNSAVED = "[the user's editor holds this text unsaved; the saved file has other text]"


class _Arguments(Arguments):
    path: str = Field(description="Relative to the session's folder, or absolute.")
    offset: int | None = Field(default=None, ge=1, description="First line to read, from 1.")
    limit: int | None = Field(default=None, ge=1, description="How many lines to read.")
    column: int | None = Field(
        default=None,
        ge=1,
        description="First character of the first line, from 1: to go on in a line that is very long.",
    )


class ReadFile:
    """Reads text and pictures. The whole file counts as seen, also where a part was asked for: edits match it whole."""

    spec = ToolSpec(
        name="read_file",
        description=(
            "Read a UTF-8 text file. The text comes back exactly as it is in the file, without line numbers. "
            f"At most {MAX_LINES} lines come back at once; a note at the end says when there is more. "
            "A PNG, JPEG, GIF or WebP picture comes back as a picture."
        ),
        parameters=_Arguments,
        effect="read",
        kind="read",
        parallel=True,
    )

    def check(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments with defaults filled in."""
        return _Arguments.check(arguments)

    def present(self, arguments: JsonObject, workspace: Workspace) -> Presentation:
        """Show the path, and the line that it starts at."""
        path, offset = arguments.get("path"), arguments.get("offset")
        line = offset if type(offset) is int and offset >= 1 else None
        place = (Location(path=lexical(path, workspace), line=line),) if isinstance(path, str) else ()
        return Presentation(title=title("Read", named(path, workspace)), kind="read", locations=place)

    def access(self, arguments: JsonObject, workspace: Workspace) -> Access:
        """Read one file."""
        return accessed("read", resolved(_Arguments.of(arguments).path, workspace))

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        """Return the lines, and a note if they are not all."""
        asked = _Arguments.of(arguments)
        path = permitted(asked.path, call)
        if (picture := await call.files.find_picture(path)) is not None:
            return await anyio.to_thread.run_sync(_show, picture, path)
        text = await call.files.read_text(path)
        shown = call.secrets.hidden(text)
        part, note = _cut(shown, asked.offset or 1, min(asked.limit or MAX_LINES, MAX_LINES), asked.column or 1)
        unsaved = ""
        if call.files.is_unsaved(path):
            unsaved = _UNSAVED if (part + note).endswith("\n") else f"\n{_UNSAVED}"
        content = tuple(Text(text=words) for words in (part, note, unsaved) if words)
        return ToolOutput(content=content, digests={str(path): call.files.digest_of(path)})


def _show(picture: PictureFile, path: Path) -> ToolOutput:
    facts = examined(picture.data)
    if not isinstance(facts, Facts):
        raise ToolError(f"{str(path)!r} cannot be shown as a picture: {facts}")
    words = f"[{facts.mime_type}, {facts.width:,} x {facts.height:,} pixels, {len(picture.data):,} bytes]"
    content = (Text(text=words), Picture(data=picture.data, uri=path.as_uri()))
    return ToolOutput(content=content, digests={str(path): picture.digest})


def _cut(text: str, first: int, count: int, column: int) -> tuple[str, str]:
    """Return the lines from `first` on, of that those from `column` on, and what to tell the model beside them."""
    lines = text.splitlines(keepends=True) if "\n" not in text else text.split("\n")
    if "\n" in text:  # only \n ends a line: splitlines would also cut at form feeds and Unicode's separators
        lines = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    total = len(lines)
    if not total:
        return "", "[the file is empty]"
    if first > total:
        return "", f"[the file has {quantity(total, 'line', grouped=False)}; there is none from {first} on]"
    length = len(lines[first - 1].removesuffix("\n"))
    if column > max(length, 1):
        return "", f"[line {first} has {quantity(length, 'character', grouped=False)}; there is none from {column} on]"
    wanted = [lines[first - 1][column - 1 :], *lines[first : first - 1 + count]]
    kept: list[str] = []
    room = MAX_CHARACTERS
    for line in wanted:
        if len(line.removesuffix("\n")) > room:
            break
        kept.append(line)
        room -= len(line)
    if not kept:
        return wanted[0][:MAX_CHARACTERS], _rest_of_line(first, column, length, total)
    last = first + len(kept) - 1
    if column == 1 and last - first + 1 == total:
        return text, ""
    start = f"{first}, from its character {column} on," if column > 1 else f"{first}"
    more = f"; go on with offset={last + 1}" if last < total else ""
    break_ = "" if kept[-1].endswith("\n") else "\n"
    return "".join(kept), f"{break_}[lines {start} to {last} of {total}{more}]"


def _rest_of_line(number: int, column: int, length: int, total: int) -> str:
    """Say how to go on in a line of which only a part fits."""
    last = column + MAX_CHARACTERS - 1
    after = f", or below it with offset={number + 1}" if number < total else ""
    return (
        f"\n[characters {column} to {last} of the {length} of line {number} of {total}; go on in it with "
        f"offset={number}, column={last + 1}{after}; or look for what you need with search_files]"
    )
