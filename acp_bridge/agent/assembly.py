"""What every agent of a process is made of, and the parts of one for a session.

Owns the choice of tools, commands and defaults for a session. Knows neither a client nor a store.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType

from acp_bridge.options import AgentOptions as Options
from acp_bridge.redaction import Secrets
from acp_bridge.session import Place, Policy
from acp_bridge.tools import Commands, Files, McpServers, Mode, ServerSpec, Tool, Workspace

from .agent import Parts
from .instructions import project_notes
from .models import Models
from .settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The same for all sessions.

    Attributes:
        route: the model of a new session; empty if none is configured.
        settings: what the sessions' options may be set to.
        system: what a model is told it is, in place of the built-in role; empty for that.
        commands: makes a session's runner of commands, which the session's owner closes, by its id and what it hides.
        spill: where a session's whole outputs go, by session id; None to keep none.
        protected: paths that ask always: this program's own.
        homes: home folders, which are no projects.
        servers: makes a session's MCP servers by its id, its folder and what to start; its owner runs and closes them.
        earlier_ended: waits a moment for the commands of a session's earlier process; whether they have ended.
        secrets: what no tool's output may show.
    """

    policy: Policy
    models: Models
    tools: tuple[Tool, ...]
    files: Files
    commands: Callable[[str, Secrets], Commands]
    route: str
    settings: Settings
    mode: Mode = "ask"
    system: str = ""
    options: Options = field(default_factory=Options)
    spill: Callable[[str], Path | None] = lambda _session_id: None
    protected: tuple[Path, ...] = ()
    homes: tuple[Path, ...] = ()
    earlier_ended: Callable[[str], Awaitable[bool]] | None = None
    secrets: Secrets = field(default_factory=Secrets)
    servers: Callable[[str, Path, tuple[ServerSpec, ...]], McpServers] | None = None

    def takes_images(self, route: str) -> bool:
        """Whether images in a prompt reach the route's model, as far as that is known without opening it."""
        return self.models.takes_images(route)

    @property
    def routes(self) -> tuple[str, ...]:
        """The models that a user may choose from."""
        return self.settings.routes

    async def parts(
        self,
        session_id: str,
        place: Place,
        *,
        taken: bool,
        files: Files | None = None,
        secrets: Mapping[str, str] = MappingProxyType({}),
    ) -> Parts:
        """Return what a session's agent is made of.

        Args:
            session_id: the session's id.
            place: where it works.
            taken: whether it was stored by an earlier process, whose commands may still be ending.
            files: where its text files come from; the disk, if nobody else offers them.
            secrets: what is hidden in this session beside what is in all.
        """
        hidden = self.secrets.with_more(secrets)
        earlier_ended = self.earlier_ended
        workspace = workspace_of(place, spill=self.spill(session_id), protected=self.protected, homes=self.homes)
        notes = await project_notes(workspace, hidden)
        return Parts(
            policy=self.policy,
            models=self.models,
            options=self.options,
            tools={tool.spec.name: tool for tool in self.tools},
            workspace=workspace,
            files=files or self.files,
            commands=self.commands(session_id, hidden),
            route=self.route,
            settings=self.settings,
            mode=self.mode,
            system=self.system,
            instructions=notes.text,
            notices=notes.left_out,
            earlier_ended=partial(earlier_ended, session_id) if taken and earlier_ended is not None else None,
            secrets=hidden,
        )


def workspace_of(
    place: Place, *, spill: Path | None = None, protected: tuple[Path, ...] = (), homes: tuple[Path, ...] = ()
) -> Workspace:
    """Return the place with its links resolved, `cwd` first of the roots."""
    roots = tuple(dict.fromkeys(Path(root).resolve() for root in (place.cwd, *place.roots)))
    return Workspace(cwd=roots[0], roots=roots, protected=protected, spill=spill, homes=homes)
