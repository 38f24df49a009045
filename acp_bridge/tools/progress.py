"""One call on its way: what its body gets, what it has put out so far, and what it knows of files until the log does.

Owns a call's key and when it may have others run. Decides nothing: who may run, the pipeline says.
"""

from collections import ChainMap
from dataclasses import replace
from functools import partial
from typing import Final, Protocol, cast

import anyio

from acp_bridge.content import JsonObject, ToolRequest
from acp_bridge.errors import ToolError
from acp_bridge.redaction import Secrets
from acp_bridge.session import Journal

from .asking import inquired
from .files import Files
from .guard import Commands
from .known_files import KnownFiles
from .permission import Permit
from .tool import Access, Call, Tool, ToolOutput, UserAnswer, Workspace

KEY_JOIN: Final = ":"
"""Between the session's id, which never has it, and the call's, in a call's key."""


class Watcher(Permit, Protocol):
    """Who is asked for permission and shown passing output."""

    def progress(self, call_id: str, output: str) -> None:
        """The output of a running call is `output` so far."""
        ...

    async def inquire(self, call_id: str, question: str, options: tuple[str, ...]) -> UserAnswer:
        """Ask the user what the model wants to know."""
        ...


class Pipelined(Protocol):
    """What a call needs of the pipeline that it is in."""

    @property
    def journal(self) -> Journal:
        """The session's."""
        ...

    @property
    def workspace(self) -> Workspace:
        """Where the session works."""
        ...

    @property
    def files(self) -> Files:
        """Where text comes from."""
        ...

    @property
    def commands(self) -> Commands:
        """What runs commands."""
        ...

    @property
    def watcher(self) -> Watcher:
        """Who is asked and shown."""
        ...

    @property
    def secrets(self) -> Secrets:
        """What nothing may show."""
        ...

    async def run_inner(self, outer: "Progress", name: str, arguments: JsonObject) -> ToolOutput:
        """Run a tool as a part of the call of another."""
        ...


class Progress:
    """One call on its way; its files are the same for who is asked and for the body.

    Args:
        outer: the call that it is a part of, if it is.

    Attributes:
        depth: 1 for what the model asked for, one more for each call between.
        asking: held by whoever asks about it.
        known: digests of files by inner calls, until the log has them by this call's result.
        seen: digests of files as this call knows them.
    """

    def __init__(self, pipeline: Pipelined, request: ToolRequest, tool: Tool, outer: "Progress | None" = None) -> None:
        self.request = request
        self.tool = tool
        self.output = ""
        self._pipeline = pipeline
        self._running = False
        self._inner_calls = 0
        if outer is None:
            self.depth, self.asking = 1, anyio.Lock()
            self.key = f"{pipeline.journal.session_id}{KEY_JOIN}{request.call_id}"
            self.known: dict[str, str] = {}
            self.seen = ChainMap(self.known, pipeline.journal.log.state.digests)
        else:
            self.depth, self.asking = outer.depth + 1, outer.asking
            self.key = outer.next_key()
            self.known, self.seen = outer.known, outer.seen
        began = pipeline.journal.log.records[0].time
        self.files = KnownFiles(pipeline.files, self.seen, since_ms=began, secrets=pipeline.secrets)

    def next_key(self) -> str:
        """Return the key of one more inner call."""
        self._inner_calls += 1
        return f"{self.key}.{self._inner_calls}"

    def made(self, access: Access) -> Call:
        """Return what the body gets."""
        pipeline = self._pipeline
        return Call(
            call_id=self.request.call_id,
            workspace=pipeline.workspace,
            files=self.files,
            commands=pipeline.commands,
            seen=self.seen,
            progress=self._tell,
            ask=partial(inquired, partial(pipeline.watcher.inquire, self.request.call_id)),
            permitted=access.paths,
            secrets=pipeline.secrets,
            key=self.key,
            dispatch=self._dispatch,
        )

    async def run(self, arguments: JsonObject, access: Access) -> ToolOutput:
        """Run the body. Only as long as it runs, it may have others run: then its intent is on disk."""
        self._running = True
        try:
            output = await self.tool.run(arguments, self.made(access))
        finally:
            self._running = False
        return replace(output, digests={**self.known, **self.files.digests(output.digests)})

    async def _dispatch(self, name: str, arguments: JsonObject) -> ToolOutput:
        if not self._running:
            raise ToolError(f"{name!r} was not run: the call of {self.request.name} is not under way")
        if not isinstance(cast("object", name), str) or not isinstance(cast("object", arguments), dict):
            raise ToolError("dispatch takes a tool's name and an object of arguments")
        return await self._pipeline.run_inner(self, name, arguments)

    def _tell(self, output: str) -> None:
        self.output = output = self._pipeline.secrets.hidden(output)
        self._pipeline.watcher.progress(self.request.call_id, output)
