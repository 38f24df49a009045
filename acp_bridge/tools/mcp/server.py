"""One server's life: started under guard, shaken hands with, asked for its tools, spoken to until either side ends.

Owns the process and the words for why it is not there. All of it happens in one task, since a client session must be
entered and left in the same one. Raises nothing: whatever goes wrong is the server's problem, and said to be.
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
from acp_bridge.text import mended_text
from acp_bridge.tools.drawing import title
from acp_bridge.tools.process import GuardedProcess, PipeReader, guarded_process

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
CALL_KEY_META = "acp-bridge/callKey"
"""Under which member of a call's `_meta` a server finds the key of the call."""
MAX_ERROR = 4000
"""Characters of a server's error that the model is given."""

Connect: TypeAlias = Callable[[Wire], AbstractAsyncContextManager[Talk]]


class Server:
    """One server.

    Args:
        secrets: taken out of all that it says, before it is cut.
        sdk: gives the way to speak over a wire, once it is imported; None if it cannot be.
        listed: takes what the server lists as its tools.
        troubled: takes the reason for a failure, in words.

    Attributes:
        settled: it is ready, or failed.
    """

    def __init__(
        self,
        spec: ServerSpec,
        options: McpOptions,
        *,
        secrets: Secrets,
        sdk: Callable[[], Awaitable[Connect | None]],
        listed: Callable[[list[Any], bool], None],
        troubled: Callable[[str], None],
    ) -> None:
        self.spec = spec
        self.settled = anyio.Event()
        self._options = options
        self._sdk = sdk
        self._listed = listed
        self._troubled = troubled
        self._secrets = secrets.with_more(spec.secrets)
        self._tail = Tail(self._secrets, spec.env)
        self._talk: Talk | None = None
        self._over = anyio.Event()
        self._exited = anyio.Event()
        self._code: int | None = None
        self._why = ""

    async def run(self, env: Mapping[str, str], cwd: Path, running: Path | None) -> None:
        """Live until the server ends or this is cancelled."""
        try:
            with ExitStack() as pipes:
                errors, sink = _pipe(pipes)
                async with guarded_process(
                    [self.spec.command, *self.spec.args],
                    env={**env, **self.spec.env},
                    cwd=cwd,
                    stderr=sink.fileno(),
                    running=running,
                    leave_s=LEAVE_S,
                ) as process:
                    sink.close()  # else its end would never be seen
                    await self._live(process, PipeReader(errors))
        except ToolError as exc:
            self._fail(str(exc))
        except Exception:
            logger.exception("MCP server %r failed in this program", self.spec.name)
            self._fail("it failed inside this program; the log on stderr says where")
        finally:
            self._talk = None
            self._why = self._why or "it was ended with the session"
            self._over.set()
            self.settled.set()

    async def call(self, tool: str, arguments: JsonObject, key: str = "") -> JsonObject:
        """Have it run a tool and return its result; `key` lets it tell a call that comes again.

        Raises:
            ToolError: with words for the model.
        """
        talk, name = self._talk, repr(self.spec.name[:100])
        if talk is None:
            raise ToolError(f"It was not run: the MCP server {name} ended: {self._why or _UNKNOWN}. {_ADVICE}")
        try:
            params = {"name": tool, "arguments": arguments, **({"_meta": {CALL_KEY_META: key}} if key else {})}
            return await talk.ask("tools/call", params, self._options.call_s)
        except ToolError as exc:
            advice = " It was told to stop, but may have done it." if exc.code == "TIMED_OUT" else ""
            raise ToolError(f"MCP server {name}: {self._said(exc)}.{advice}", code=exc.code) from exc
        except anyio.BrokenResourceError:
            with anyio.move_on_after(2 * EXIT_S):
                await self._over.wait()
            words = f"The MCP server {name} ended in the middle of the call: {self._why or _UNKNOWN}"
            raise ToolError(f"{words}. {_HALF} {_ADVICE}") from None

    def _said(self, error: ToolError) -> str:
        return mended_text(self._secrets.hidden(str(error))[:MAX_ERROR])

    async def _live(self, process: GuardedProcess, errors: PipeReader) -> None:
        async with anyio.create_task_group() as tg:
            tg.start_soon(self._tail.read, errors)
            tg.start_soon(self._watch, process)
            connect = await self._sdk()
            if connect is None:
                self._fail("the library for MCP servers cannot be loaded; the log on stderr says why")
            else:
                await self._speak(connect, Wire(process.stdin, process.stdout))
            tg.cancel_scope.cancel()

    async def _speak(self, connect: Connect, wire: Wire) -> None:
        async with connect(wire) as talk:
            if await self._begun(talk, wire):
                self._talk = talk
                self.settled.set()
                await wire.ended.wait()
                self._talk = None
                self._fail(await self._end())

    async def _begun(self, talk: Talk, wire: Wire) -> bool:
        """Shake hands and list its tools; whether that went well."""
        try:
            has_tools = await talk.begin(self._options.start_s)
            listed, more = await self._tools(talk) if has_tools else ([], False)
            self._listed(self._secrets.without(listed), more)  # each request of the model holds what it says of them
        except anyio.BrokenResourceError:
            self._fail(await self._end() + self._junk(wire))
        except ToolError as exc:
            last = self._tail.last_line()
            said = f"; the last it wrote to stderr: {last}" if last else ""
            self._fail(str(exc) + self._junk(wire) + said)
        else:
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
            self._why = str(exc)
        self._exited.set()
        with anyio.move_on_after(EXIT_S):
            await self._tail.ended.wait()
        await process.stdout.aclose()

    async def _end(self) -> str:
        """Return why its pipe is closed."""
        with anyio.move_on_after(EXIT_S):
            await self._exited.wait()
            await self._tail.ended.wait()
        return self._why or _ended(self.spec.command, self._code, self._tail.last_line(), self._exited.is_set())

    def _junk(self, wire: Wire) -> str:
        if not wire.junk:
            return ""
        first = title(self._secrets.hidden(wire.first_junk)[:400], limit=120)
        lines = "a line on its stdout was" if wire.junk == 1 else f"{wire.junk} lines on its stdout were"
        return f"; {lines} no JSON-RPC{', the first: ' + first if first else ''}"

    def _fail(self, reason: str) -> None:
        self._why = title(self._secrets.hidden(reason), limit=800)
        self.settled.set()
        self._over.set()
        self._troubled(self._why)


_ADVICE = "Its tools cannot be called any more: go on without them, or ask the user to open the session again."
_UNKNOWN = "why is not known"
_HALF = "Whether the call was carried out is not known."


def _ended(command: str, code: int | None, last: str, exited: bool) -> str:
    if code == 127 and last.startswith(f"{command}: No such file"):
        return f"its command {command!r} was not found"
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
