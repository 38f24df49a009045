"""One life of a server: started under guard, shaken hands with, asked for its tools, spoken to until either side ends.

Owns the process and the words for why it is not there. All of it happens in one task, since a client session must be
entered and left in the same one. Raises nothing: whatever goes wrong is the server's problem, and said to be. Whether
there is another life is `server`'s to say.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack
from io import FileIO
from pathlib import Path
from typing import Any, TypeAlias

import anyio

from acp_bridge.content import JsonObject
from acp_bridge.errors import ToolError
from acp_bridge.limits import SERVER_TOOLS
from acp_bridge.redaction import Secrets
from acp_bridge.tools.process import GuardedProcess, PipeReader, guarded_process
from acp_bridge.tools.titles import title

from .spec import McpOptions, ServerSpec
from .tail import Tail
from .wire import Talk, Wire

logger = logging.getLogger(__name__)

LEAVE_S = 0.3
"""Between the end of its input and the end of a server; the guard's grace comes on top."""
EXIT_S = 0.5
"""What a server whose pipe is closed may take to be seen ending, and its last words to be read."""
PAGES = 32
"""Pages of a list of tools."""
CANNOT_EXECUTE = 127
"""How the guard ends where the command cannot be executed."""

Connect: TypeAlias = Callable[[Wire], AbstractAsyncContextManager[Talk]]


class Life:
    """One process of a server, from its start to its end.

    Args:
        secrets: taken out of all that it says, before it is cut.
        sdk: gives the way to speak over a wire, once it is imported; None if it cannot be.
        ready: takes what the server lists as its tools, and whether there is more that was not asked for.
        ended: told once why it ends, before whoever waits for it; not if it is cancelled.

    Attributes:
        why: it ended, in words; empty until it has.
        was_ready: it has listed its tools.
        hung: it did not say in time what it has.
        in_vain: another start would end the same way, or is not wanted.
        over: it ends, and why is known; what it started may take a moment more.
    """

    def __init__(
        self,
        spec: ServerSpec,
        options: McpOptions,
        *,
        secrets: Secrets,
        sdk: Callable[[], Awaitable[Connect | None]],
        ready: Callable[[list[Any], bool], None],
        ended: Callable[["Life"], None],
    ) -> None:
        self.why = ""
        self.was_ready = False
        self.hung = False
        self.in_vain = False
        self.over = anyio.Event()
        self._spec = spec
        self._options = options
        self._sdk = sdk
        self._ready = ready
        self._ended = ended
        self._secrets = secrets
        self._tail = Tail(self._secrets, spec.env)
        self._talk: Talk | None = None
        self._exited = anyio.Event()
        self._code: int | None = None
        self._unguarded = ""

    @property
    def talk(self) -> Talk | None:
        """What can be said to it; None while it starts and once it ends."""
        return self._talk

    async def run(self, env: Mapping[str, str], cwd: Path, running: Path | None) -> None:
        """Live until the server ends or this is cancelled."""
        try:
            with ExitStack() as pipes:
                errors, sink = _pipe(pipes)
                async with guarded_process(
                    [self._spec.command, *self._spec.args],
                    env={**env, **self._spec.env},
                    cwd=cwd,
                    stderr=sink.fileno(),
                    running=running,
                    leave_s=LEAVE_S,
                ) as process:
                    sink.close()  # else its end would never be seen
                    await self._live(process, PipeReader(errors))
        except ToolError as exc:
            self._fail(str(exc), in_vain=True)
        except Exception:
            logger.exception("MCP server %r failed in this program", self._spec.name)
            self._fail("it failed inside this program; the log on stderr says where", in_vain=True)
        finally:
            self._talk = None
            if not self.over.is_set():
                self.why, self.in_vain = "it was ended with the session", True
                self.over.set()

    async def _live(self, process: GuardedProcess, errors: PipeReader) -> None:
        async with anyio.create_task_group() as tg:
            tg.start_soon(self._tail.read, errors)
            tg.start_soon(self._watch, process)
            connect = await self._sdk()
            if connect is None:
                self._fail("the library for MCP servers cannot be loaded; the log on stderr says why", in_vain=True)
            else:
                await self._speak(connect, Wire(process.stdin, process.stdout))
            tg.cancel_scope.cancel()

    async def _speak(self, connect: Connect, wire: Wire) -> None:
        async with connect(wire) as talk:
            if await self._begin(talk, wire):
                await wire.ended.wait()
                self._talk = None
                self._fail(await self._end())

    async def _begin(self, talk: Talk, wire: Wire) -> bool:
        """Shake hands and list its tools; whether that went well."""
        try:
            has_tools = await talk.begin(self._options.start_s)
            found, more = await self._tools(talk) if has_tools else (list[Any](), False)
        except anyio.BrokenResourceError:
            self._fail(await self._end() + self._junk(wire))
        except ToolError as exc:
            last = self._tail.last_line()
            said = f"; the last it wrote to stderr: {last}" if last else ""
            self.hung = exc.code == "TIMED_OUT"
            self._fail(str(exc) + self._junk(wire) + said, in_vain=not self.hung)
        else:
            self._talk, self.was_ready = talk, True
            self._ready(self._secrets.without(found), more)  # each request of the model holds what it says of them
            return True
        return False

    async def _tools(self, talk: Talk) -> tuple[list[Any], bool]:
        """Return what it lists, and whether there is more that was not asked for."""
        found: list[Any] = []
        params: JsonObject = {}
        deadline = anyio.current_time() + self._options.start_s
        for _ in range(PAGES):
            page = await talk.ask("tools/list", params, max(0.1, deadline - anyio.current_time()))
            tools, cursor = page.get("tools"), page.get("nextCursor")
            if not isinstance(tools, list):
                raise ToolError("it answered tools/list without a list")
            found += tools
            if not isinstance(cursor, str) or not cursor:
                return found, False
            if len(found) > SERVER_TOOLS:
                break
            params = {"cursor": cursor}
        return found, True

    async def _watch(self, process: GuardedProcess) -> None:
        """Note how it ends; what it left running may hold its pipes open, so they are closed for it."""
        try:
            self._code = await process.wait()
        except ToolError as exc:
            self._unguarded = str(exc)
        self._exited.set()
        with anyio.move_on_after(EXIT_S):
            await self._tail.ended.wait()
        await process.stdout.aclose()

    async def _end(self) -> str:
        """Return why its pipe is closed."""
        with anyio.move_on_after(EXIT_S):
            await self._exited.wait()
            await self._tail.ended.wait()
        last = self._tail.last_line()
        if not_begun := _not_begun(self._spec.command, self._code, last):
            self.in_vain = True
            return not_begun
        return self._unguarded or _how_it_ended(self._code, last, self._exited.is_set())

    def _junk(self, wire: Wire) -> str:
        if not wire.junk:
            return ""
        first = title(self._secrets.hidden(wire.first_junk)[:400], limit=120)
        lines = "a line on its stdout was" if wire.junk == 1 else f"{wire.junk} lines on its stdout were"
        return f"; {lines} no JSON-RPC{', the first: ' + first if first else ''}"

    def _fail(self, reason: str, *, in_vain: bool = False) -> None:
        """Note why it ends and say so at once; what it started may take a moment more to be gone."""
        if not self.over.is_set():
            self.why = title(self._secrets.hidden(reason), limit=800)
            self.in_vain = self.in_vain or in_vain
            self._ended(self)
            self.over.set()


def _not_begun(command: str, code: int | None, last: str) -> str:
    """Return why the guard could not have the command executed; empty if it could."""
    said = f"{title(command)}: "
    if code != CANNOT_EXECUTE or not last.startswith(said):
        return ""
    match last.removeprefix(said):
        case "No such file or directory":
            return f"its command {command!r} was not found"
        case "Permission denied":
            return f"its command {command!r} may not be executed: it is a folder, or lacks the permission"
        case other:
            return f"its command {command!r} cannot be executed: {other.lower()}"


def _how_it_ended(code: int | None, last: str, exited: bool) -> str:
    if not exited:
        words = "it closed its stdin or stdout"
    elif code is None:
        words = "its guard was killed, and it with it"
    else:
        words = f"it was ended by signal {code - 128}" if code > 128 else f"it exited with code {code}"
    return f"{words}: {last}" if last else words


def _pipe(stack: ExitStack) -> tuple[FileIO, FileIO]:
    try:
        source, sink = os.pipe()
    except OSError as exc:
        raise ToolError(f"the command could not be started: {(exc.strerror or '').lower()}") from exc
    return stack.enter_context(FileIO(source, "r")), stack.enter_context(FileIO(sink, "w"))
