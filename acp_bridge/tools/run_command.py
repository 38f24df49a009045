"""`run_command`: a shell command under guard."""

from pydantic import Field

from acp_bridge.content import CALL_KEY_VARIABLE, JsonObject, Location, ShownBlock, Text
from acp_bridge.errors import ToolError
from acp_bridge.limits import COMMAND, SPILL
from acp_bridge.text import escaped

from .arguments import Arguments
from .guard import Ended
from .paths import accessed, lexical, permitted, placed, resolved
from .shell import grantable
from .titles import quoted, title
from .tool import Access, Call, Presentation, ToolOutput, ToolSpec, Workspace

DEFAULT_S = 120
MAX_S = 3600
TITLE = 2000
"""Characters of a command's title: who is asked for permission must see what will run."""


class _Arguments(Arguments):
    command: str = Field(min_length=1)
    cwd: str | None = Field(default=None, description="Folder to run in. Default: the session's folder.")
    timeout_s: float | None = Field(
        default=None, gt=0, le=MAX_S, description=f"Seconds it may take. Default {DEFAULT_S}."
    )


class RunCommand:
    """Runs `sh -c`. A command that fails is an error to the model and to the reader."""

    spec = ToolSpec(
        name="run_command",
        description=(
            "Run a shell command (sh) and return its output. It reads nothing from stdin. It is ended after "
            "timeout_s. A job left in the background (cmd > log 2>&1 &) goes on until the session closes."
        ),
        parameters=_Arguments,
        effect="write",
        kind="execute",
    )

    def check(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments with defaults filled in."""
        complete = _Arguments.check(arguments)
        if len(escaped(complete["command"], lines=True)) > COMMAND:  # else nobody could be shown what would run
            raise ToolError(f"the command is longer than {COMMAND:,} characters; write a script and run that")
        return complete

    def present(self, arguments: JsonObject, workspace: Workspace) -> Presentation:
        """Show the command itself."""
        command, cwd = arguments.get("command"), arguments.get("cwd")
        place = (Location(path=lexical(cwd, workspace)),) if isinstance(cwd, str) else ()
        words = command if isinstance(command, str) and command.strip() else "Run a command"
        return Presentation(title=title(words, _where(cwd, workspace), limit=TITLE), kind="execute", locations=place)

    async def preview(self, arguments: JsonObject, call: Call) -> tuple[ShownBlock, ...]:  # noqa: ARG002 - no file
        """Return the whole command, if its title is not it."""
        command = _Arguments.of(arguments).command
        return () if title(command, limit=TITLE) == command else (Text(text=quoted(command, "sh")),)

    def access(self, arguments: JsonObject, workspace: Workspace) -> Access:
        """Execute in a folder. A grant covers this very command in this very folder, if the command is simple."""
        asked = _Arguments.of(arguments)
        target = resolved(asked.cwd or ".", workspace)
        access = accessed("execute", target)
        scope = "" if access.protected else grantable(asked.command, target.path)
        return Access(kind="execute", inside=access.inside, protected=access.protected, scope=scope, paths=access.paths)

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        """Run until the shell ends; cancelled, end the whole tree first."""
        asked = _Arguments.of(arguments)
        cwd = permitted(asked.cwd or ".", call)
        timeout_s = asked.timeout_s or DEFAULT_S
        env = {CALL_KEY_VARIABLE: call.key} if call.key else {}
        ended = await call.commands.run(
            asked.command, cwd=cwd, timeout_s=timeout_s, name=call.call_id, progress=call.progress, env=env
        )
        text = Text(text=_describe(ended, timeout_s))
        if ended.code is None:
            return ToolOutput(content=(text,), is_error=True, code="TIMED_OUT")
        if ended.code:
            return ToolOutput(content=(text,), is_error=True, code="FAILED")
        return ToolOutput(content=(text,))


def _where(cwd: object, workspace: Workspace) -> str:
    """Return the folder that a command runs in, if it is another than the session's."""
    if not isinstance(cwd, str):
        return ""
    try:
        folder = resolved(cwd, workspace).path
    except ToolError:  # it is said when the call is judged
        return f"(in {cwd})"
    return "" if folder == workspace.cwd else f"(in {placed(folder, workspace)})"


def _describe(ended: Ended, timeout_s: float) -> str:
    """Return the output, and in brackets below it what the model cannot see in it."""
    notes: list[str] = []
    if not ended.output:
        notes.append("no output")
    if ended.cut:
        where = _found_in(ended) if ended.spilled else ", and not kept"
        notes.append(f"{ended.cut} bytes of output left out{where}")
    elif ended.spilled:
        notes.append(f"what was drawn over is left out{_found_in(ended)}")
    if ended.code is None:
        notes.append(f"ended after {timeout_s:g} s, its time limit, with everything it started; it may be half done")
    elif ended.code:
        notes.append(f"exit code {ended.code}")
    if ended.left_running:
        notes.append(f"{ended.left_running} of its processes still running in the background, until the session closes")
    break_ = "\n" if ended.output and not ended.output.endswith("\n") else ""
    return ended.output + break_ + "\n".join(f"[{note}]" for note in notes)


def _found_in(ended: Ended) -> str:
    whole = "all of it" if ended.spilled_all else f"its first {SPILL >> 20} MiB"
    return f"; read_file and search_files find {whole} in {ended.spilled}"
