"""`search_files`: lines that match a regular expression, in a folder or a file."""

from collections.abc import Iterator
from functools import partial

import anyio.to_thread
from pydantic import Field

from acp_bridge.content import JsonObject, Location, Text
from acp_bridge.redaction import Secrets
from acp_bridge.text import escaped

from .arguments import Arguments
from .confirming import Match, confirm_matches
from .ignoring import describe_ignored, is_ignored
from .paths import accessed, lexical, named, permitted, resolved
from .ripgrep import ripgrep
from .titles import title
from .tool import Access, Call, Presentation, ToolOutput, ToolSpec, Workspace

MAX_MATCHES = 300
MAX_BYTES = 60_000
_CUT = " [... omitted end of long line]"
MAX_COLUMNS = 300


class _Arguments(Arguments):
    pattern: str = Field(min_length=1)
    path: str | None = Field(default=None, description="Folder or file. Default: the session's folder.")
    include: str | None = Field(default=None, description="Glob of files to search, e.g. *.py")
    ignore_case: bool | None = Field(default=None, description="Default false.")


class SearchFiles:
    """Searches text on the disk; what an editor holds unsaved is not found."""

    spec = ToolSpec(
        name="search_files",
        description=(
            "Search text files for a regular expression (ripgrep's). Gives path:line:text, in order of path. "
            "Binary files and what .gitignore names are left out."
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
        """Show the pattern and where it is searched."""
        path, pattern = arguments.get("path"), arguments.get("pattern")
        place = path if isinstance(path, str) else "."
        where = named(place, workspace)
        words = f"{pattern} in {where}" if isinstance(pattern, str) else where
        return Presentation(
            title=title("Search", words), kind="search", locations=(Location(path=lexical(place, workspace)),)
        )

    def access(self, arguments: JsonObject, workspace: Workspace) -> Access:
        """Read a folder or a file."""
        return accessed("read", resolved(_Arguments.of(arguments).path or ".", workspace))

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        """Return the matching lines."""
        asked = _Arguments.of(arguments)
        path = permitted(asked.path or ".", call)
        options = ["--line-number", "--no-heading", "--with-filename", "--null", f"--regexp={asked.pattern}"]
        options += [f"--max-columns={MAX_COLUMNS}", "--max-columns-preview"]
        if asked.ignore_case:
            options.append("--ignore-case")
        search = partial(ripgrep, options, path, call.workspace, only=asked.include)
        found = await search(max_bytes=MAX_BYTES)
        if not found.output and await is_ignored(path, call.workspace):
            found = await search(max_bytes=MAX_BYTES, ignored=True)
        matches = list(_matches(found.output))
        confirm = partial(confirm_matches, path, call.workspace, matches[:MAX_MATCHES])
        confirmed = await anyio.to_thread.run_sync(confirm, abandon_on_cancel=True)
        lines = [_clean(_line(match), call.secrets) for match in confirmed.matches]
        if confirmed.changed:
            lines.append("[what changed while it was searched is left out; search again]")
        if confirmed.closed:
            lines.append("[what lies in a repository's own folder is left out; give that as path to search there]")
        if found.cut or len(matches) > MAX_MATCHES:
            lines.append("[there are more matches; narrow the pattern, the path or include]")
        if not lines:
            lines.append(
                await describe_ignored("no match", [*options, "--files-with-matches"], path, call, asked.include)
            )
        return ToolOutput(content=(Text(text="\n".join(lines)),))


def _clean(match: str, secrets: Secrets) -> str:
    """Return a match without secrets, nor the beginning of one where `rg` has cut the line."""
    line, mark, rest = match.partition(_CUT)
    return secrets.hidden(line, cut=bool(mark)) + mark + rest


def _matches(output: bytes) -> Iterator[Match]:
    """Yield the matches. A NUL ends a path, which may hold line ends; a line end ends a match."""
    name, *parts = output.split(b"\0")
    for part in parts:
        match, end, following = part.partition(b"\n")
        number, colon, text = match.partition(b":")
        if end and colon and number.isdigit():
            yield Match(name, int(number), text)
        name = following


def _line(match: Match) -> str:
    path = escaped(match.name.decode("utf-8", "replace").removeprefix("./"))
    return f"{path}:{match.number}:{match.text.decode('utf-8', 'replace').rstrip()}"
