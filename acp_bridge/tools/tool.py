"""The Tool port: what a model may call, what it asks of the user, how it is shown, and its body.

Owns the values that a tool and the pipeline exchange. Knows no model, no log and no client.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from pydantic import BaseModel

from acp_bridge.content import Effect, JsonObject, Location, ResultBlock, ShownBlock, ToolKind
from acp_bridge.errors import ToolError
from acp_bridge.redaction import Secrets
from acp_bridge.session.events import ResultCode

from .arguments import schema_of
from .guard import Commands
from .known_files import KnownFiles

AccessKind: TypeAlias = Literal["none", "read", "edit", "execute"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """How a tool is offered.

    Attributes:
        parameters: a JSON Schema of type object, or a pydantic model whose fields they are.
        effect: `write` unless repeating the call is known to change nothing more, or nothing at all.
        parallel: whether it may run beside other calls so marked.
    """

    name: str
    description: str
    parameters: JsonObject | type[BaseModel]
    effect: Effect
    kind: ToolKind
    parallel: bool = False

    @property
    def schema(self) -> JsonObject:
        """The parameters as a JSON Schema; of a model it is made when it is first asked for, once."""
        return schema_of(self.parameters) if isinstance(self.parameters, type) else self.parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """How a call is shown to a person: made once, before it is judged, and logged."""

    title: str
    kind: ToolKind
    locations: tuple[Location, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a call would touch; modes and grants decide by it.

    Attributes:
        inside: every path lies inside the session's roots, once resolved.
        protected: it asks always: `always_ask` has what, and so do this program's configuration and sessions.
        scope: what a lasting grant would cover, exactly, e.g. a normalised command with its folder; empty if the call
            can be granted once only.
        paths: the resolved paths that were judged; the body gets them back as `Call.permitted`.
    """

    kind: AccessKind
    inside: bool = True
    protected: bool = False
    scope: str = ""
    paths: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """Where a session works. `cwd` and `roots` are absolute and resolved; `cwd` is the first root.

    Attributes:
        protected: resolved paths that ask always, with all that lies below them.
        spill: the folder that whole outputs are spilled to; readable without asking.
        homes: home folders, resolved; a root that is one frees nothing, and one within a root asks always.
    """

    cwd: Path
    roots: tuple[Path, ...]
    protected: tuple[Path, ...] = ()
    spill: Path | None = None
    homes: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class UserAnswer:
    """What came of a question: an answer, a refusal to give one, or no way to ask it."""

    outcome: Literal["answered", "declined", "unable"]
    text: str = ""


async def _dispatch_nothing(name: str, arguments: JsonObject) -> "ToolOutput":
    """Refuse: there is no pipeline behind this call."""
    del arguments
    raise ToolError(f"{name!r} cannot be called from here")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a body gets beside its arguments.

    Attributes:
        key: names this call among those of all sessions, whoever runs them: session id and call id. It is the
            idempotency key: a service that is handed it can tell a call that reaches it twice.
        dispatch: has another tool run as a part of this call, by name and arguments, and returns its output, also
            where that is a refusal. Its permission is asked for as ever; it must not do more than this tool's
            `effect` says. What it would show, this tool shows or leaves out.
        seen: SHA-256 in hex by absolute path, of each file as this session last read or wrote it.
        ask: asks the user a question, with options to choose from or none for their own words.
        progress: tells what the output is so far, as a whole; shown while the body runs and kept if it is stopped.
        secrets: what nothing may show; a body that cuts what it gives takes them out before.
        permitted: `Access.paths` as permission was given for; a path that leads elsewhere by now is refused.
            None if nobody was asked: then only what lies inside and is not protected.
    """

    call_id: str
    workspace: Workspace
    files: KnownFiles
    commands: Commands
    seen: Mapping[str, str]
    progress: Callable[[str], None]
    ask: Callable[[str, tuple[str, ...]], Awaitable[UserAnswer]]
    permitted: tuple[Path, ...] | None = None
    key: str = ""
    dispatch: Callable[[str, JsonObject], Awaitable["ToolOutput"]] = _dispatch_nothing
    secrets: Secrets = field(default_factory=Secrets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture that a body hands out, as bytes. What it is, they say; one that no model takes is told of in words.

    Attributes:
        uri: where it is from, if that has an address.
    """

    data: bytes = field(repr=False)
    uri: str = ""


OutputBlock: TypeAlias = ResultBlock | Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What a body returns. `digests` as in the log's `tool/result`; `plan` replaces the session's, if it is given."""

    content: tuple[OutputBlock, ...]
    is_error: bool = False
    code: ResultCode | None = None
    shown: tuple[ShownBlock, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    plan: tuple[JsonObject, ...] | None = None


class Tool(Protocol):
    """One tool.

    One that has `__aenter__` and `__aexit__` is entered before it is used, once for the process, and left when the
    process ends; what `__aenter__` returns is the tool. `Previewing` and `Examinable` are what it may have besides.
    """

    @property
    def spec(self) -> ToolSpec:
        """How it is offered to the model."""
        ...

    def check(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments with defaults filled in.

        Raises:
            ToolError: `INVALID_ARGUMENTS`; the message says which parameter and what it should be.
        """
        ...

    def present(self, arguments: JsonObject, workspace: Workspace) -> Presentation:
        """Return how the call is shown. Takes unchecked arguments, never raises; looks at the disk only for links."""
        ...

    def access(self, arguments: JsonObject, workspace: Workspace) -> Access:
        """Return what the checked arguments would touch. Resolves paths; changes nothing."""
        ...

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        """Do it. Cancelled, it stops what it started, and only then lets the cancellation pass.

        Raises:
            ToolError: with words for the model.
        """
        ...


@runtime_checkable
class Previewing(Protocol):
    """What a tool may have besides: it shows what a call would do to whoever is asked whether it may."""

    async def preview(self, arguments: JsonObject, call: Call) -> tuple[ShownBlock, ...]:
        """Return what `run` would do now, as a reader is shown it. Changes nothing.

        Raises:
            ToolError: it could not be done now, so nobody need be asked.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a look at the state of things says of a call whose result a crash has cut off.

    Attributes:
        claim: `done`, the state is exactly what the call was to bring about; `not_done`, it is as before the call;
            `ended`, the body came to its end, as `output` has it. None where what was seen leaves another reading: a
            wrong claim is worse than none.
        known: what was looked at and compared, in words for model and user.
        output: for `ended` alone: what the body would have returned.
    """

    claim: Literal["done", "not_done", "ended"] | None
    known: str = ""
    output: ToolOutput | None = None


@runtime_checkable
class Examinable(Protocol):
    """What a tool may have besides: evidence, by which can be found out after a crash what became of a call.

    Declared for tools that are written now; nothing calls it yet. What either method raises is no claim.
    """

    async def evidence(self, arguments: JsonObject, call: Call) -> JsonObject | None:
        """Return facts that are to be on the disk with the intent, before the body; None if there are none.

        Called with checked arguments once the call is permitted. Facts that a later look compares, such as the digest
        of what is there and of what is to be there; no secrets. Changes nothing.
        """
        ...

    async def examine(self, evidence: JsonObject, call: Call) -> Finding:
        """Return what became of the call that `evidence` was kept for, by what is there now.

        Called by a later process, within 5 s for all open calls together. Looks, and never runs the tool, writes or
        has another tool run.
        """
        ...
