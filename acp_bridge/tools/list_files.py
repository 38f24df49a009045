"""`list_files`: a folder's entries, or the files below it that match a pattern."""

import os
from functools import partial
from pathlib import Path

import anyio.to_thread
from pydantic import Field

from acp_bridge.content import JsonObject, Location, Text
from acp_bridge.errors import ToolError
from acp_bridge.text import escaped

from .arguments import Arguments
from .confirming import confirm_names
from .files import held
from .ignoring import describe_ignored, is_ignored
from .paths import accessed, lexical, named, permitted, resolved
from .ripgrep import ripgrep
from .titles import title
from .tool import Access, Call, Presentation, ToolOutput, ToolSpec, Workspace

MAX_ENTRIES = 1000
MAX_BYTES = 60_000


class _Arguments(Arguments):
    path: str | None = Field(default=None, description="Folder. Default: the session's folder.")
    pattern: str | None = Field(default=None, description="Glob. Without a slash it matches names at any depth.")


class ListFiles:
    """Lists names. Without a pattern one folder, all of it; with one the whole tree, but for what git ignores."""

    spec = ToolSpec(
        name="list_files",
        description=(
            "List a folder's entries (folders end in /). With pattern, list the files below it whose path matches "
            "the glob, e.g. *.py or src/**/test_*.py; what .gitignore names is left out."
        ),
        parameters=_Arguments,
        effect="read",
        kind="search",
        parallel=True,
    )

    def check(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments with defaults filled in."""
        return _Arguments.check(arguments)

    def present(self, arguments: JsonObject, workspace: Workspace) -> Presentation:
        """Show the pattern and the folder."""
        path, pattern = arguments.get("path"), arguments.get("pattern")
        folder = path if isinstance(path, str) else "."
        place = named(folder, workspace)
        subject = f"{pattern} in {place}" if isinstance(pattern, str) else place
        return Presentation(
            title=title("List", subject), kind="search", locations=(Location(path=lexical(folder, workspace)),)
        )

    def access(self, arguments: JsonObject, workspace: Workspace) -> Access:
        """Read a folder."""
        return accessed("read", resolved(_Arguments.of(arguments).path or ".", workspace))

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        """Return the names, one a line."""
        asked = _Arguments.of(arguments)
        path = permitted(asked.path or ".", call)
        if asked.pattern is None:
            names = await anyio.to_thread.run_sync(_entries, path)
            cut = False
            nothing = "[nothing here]"
        else:
            nothing = ""
            options = ("--files", "--null")
            search = partial(ripgrep, options, path, call.workspace, only=asked.pattern)
            found = await search(max_bytes=MAX_BYTES)
            if not found.output and await is_ignored(path, call.workspace):
                found = await search(max_bytes=MAX_BYTES, ignored=True)
            listed = found.output.split(b"\0")[:-1]
            confirm = partial(confirm_names, path, call.workspace, listed)
            there = await anyio.to_thread.run_sync(confirm, abandon_on_cancel=True)
            names = [os.fsdecode(name).removeprefix("./") for name in there]
            cut = found.cut
            if not names:
                nothing = await describe_ignored("no file matches", options, path, call, asked.pattern)
        notes: list[str] = []
        if len(names) > MAX_ENTRIES:
            notes.append(f"[{len(names) - MAX_ENTRIES} more left out]")
        if cut:
            notes.append("[there are more; narrow the pattern or the path]")
        lines = [*map(escaped, names[:MAX_ENTRIES]), *notes] or [nothing]
        return ToolOutput(content=(Text(text="\n".join(lines)),))


def _entries(folder: Path) -> list[str]:
    try:
        with held(folder) as place:
            fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
            try:
                with os.scandir(fd) as entries:
                    return sorted(entry.name + _mark(entry) for entry in entries)
            finally:
                os.close(fd)
    except NotADirectoryError as exc:
        raise ToolError(f"{str(folder)!r} is no folder; use read_file") from exc
    except OSError as exc:
        raise ToolError(f"{str(folder)!r} cannot be listed: {(exc.strerror or 'I/O error').lower()}") from exc


def _mark(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "@"
    return "/" if entry.is_dir(follow_symlinks=False) else ""
