"""The runtime of a program: opened from a configuration, and its sessions made or taken from the store.

Owns the order in which it is entered and left, which is the server's. Knows no turn.
"""

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache, partial

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from acp_bridge.agent import Assembly, NamedServers, OpenSession, OpenSessions, place_of
from acp_bridge.composition import ASSEMBLY, SESSIONS, configured_servers, parts
from acp_bridge.config import Config
from acp_bridge.effects import Deadline, Key, Part, Services, compose, flatten_exceptions, shielded_cleanup
from acp_bridge.errors import ConfigError
from acp_bridge.llm import Model
from acp_bridge.replacements import Replacements
from acp_bridge.session import ObserverSource, Place, Policy, Recovery, Sessions, Store
from acp_bridge.tools import ServerSpec, Tool

from .router import PermitFunction, TurnRouter, allow_nothing
from .session import CLOSE_S, Session


class Runtime:
    """What `open_runtime` gives."""

    def __init__(
        self,
        sessions: Sessions,
        assembly: Assembly,
        opened: OpenSessions[TurnRouter],
        servers: tuple[ServerSpec, ...] = (),
    ) -> None:
        self.sessions = sessions
        self.assembly = assembly
        self._opened = opened
        self._servers = servers

    @property
    def busy(self) -> bool:
        """Whether a turn is under way."""
        return self._opened.busy

    def stop(self) -> None:
        """Stop every turn because the program ends, which is not the user's cancel; those that come later too."""
        self._opened.stop()

    async def new_session(
        self,
        cwd: str,
        *,
        roots: tuple[str, ...] = (),
        permit: PermitFunction = allow_nothing,
        servers: tuple[ServerSpec, ...] = (),
    ) -> Session:
        """Make a session that is on disk.

        Args:
            cwd: the project's folder.
            roots: further folders that it may work in.
            permit: asked for each permission.
            servers: MCP servers to start for it, beside the configured ones.

        Raises:
            ConfigError: no model can be used, or a folder is not there; the message says what to do.
            StoreError: it could not be made.
        """
        await self.assembly.settings.require_usable(self.assembly.route)
        place = await place_of(cwd, roots)
        return self._drive(
            await self._opened.new(place, self._servers_of(servers), partial(TurnRouter, permit)), Recovery()
        )

    async def resume_session(
        self,
        session_id: str,
        *,
        cwd: str | None = None,
        permit: PermitFunction = allow_nothing,
        servers: tuple[ServerSpec, ...] = (),
    ) -> Session:
        """Take a stored session under its lock, repaired and saved. Runs nothing.

        Args:
            session_id: its id.
            cwd: the folder to work in now; where it worked last, if None.
            permit: asked for each permission.
            servers: MCP servers to start for it, beside the configured ones.

        Raises:
            ConfigError: the folder that it is to work in is not there.
            StoreError: as the store says.
            BarrierFailed: the repair is not on disk.
        """
        place = await (self._last_place(session_id) if cwd is None else place_of(cwd))
        make_front = partial(TurnRouter, permit)  # who asks for permission is one caller's, so the session is, too
        taken = await self._opened.take(session_id, place, self._servers_of(servers), make_front, shared=False)
        session = self._drive(taken.session, taken.recovery)
        if taken.unsaved is not None:
            with shielded_cleanup(CLOSE_S):
                await session.close()
            raise taken.unsaved
        return session

    async def _last_place(self, session_id: str) -> Place:
        header = (await self.sessions.store.read(session_id)).header
        return await place_of(header.cwd, header.roots)

    def _servers_of(self, servers: tuple[ServerSpec, ...]) -> NamedServers:
        """Return these and the configured ones; of two with a name, what the program gives stands."""
        return NamedServers(tuple({spec.name: spec for spec in (*self._servers, *servers)}.values()))

    def _drive(self, session: OpenSession[TurnRouter], recovery: Recovery) -> Session:
        if session.servers is not None:
            tell = session.front.tell
            session.servers.on_problem(lambda server, words: tell("warning", f"MCP server {server}", words))
            session.servers.on_news(lambda server, words: tell("info", f"MCP server {server}", words))
        return Session(session, recovery, partial(self._opened.put_away, session.session_id, session))


@asynccontextmanager
async def open_runtime(
    config: Config,
    *,
    deadline: Callable[[], Deadline] | None = None,
    store: Store | None = None,
    policy: Policy | None = None,
    open_model: Callable[[str], Model] | None = None,
    tools: Iterable[Tool] = (),
    observers: Iterable[ObserverSource] = (),
    system: str = "",
) -> AsyncGenerator[Runtime]:
    """Open the runtime; leaving it closes every session in the one order.

    Args:
        config: all settings, e.g. `acp_bridge.config.load(os.environ)`.
        deadline: by when everything must have ended, asked when leaving; `CLOSE_S` from then, if it is not given.
        store, policy, open_model, tools, observers, system: see `acp_bridge.replacements.Replacements`.

    Raises:
        ConfigError: a setting is impossible.
    """
    replacements = Replacements(
        store=store,
        policy=policy,
        open_model=open_model,
        tools=tuple(tools),
        observers=tuple(observers),
        system=system,
    )
    async with _open(config, replacements, deadline or cache(lambda: Deadline.after(CLOSE_S))) as runtime:
        yield runtime


@asynccontextmanager
async def _open(
    config: Config, replacements: Replacements, deadline: Callable[[], Deadline]
) -> AsyncGenerator[Runtime]:
    key: Key[Runtime] = Key("front")
    body: list[Exception] = []
    try:
        async with anyio.create_task_group() as tasks:  # older than all parts: a tool that does not end holds up none

            def set_up(services: Services) -> AbstractAsyncContextManager[Runtime]:
                return _hold_sessions(config, services, tasks, deadline)

            async with compose((*parts(config, replacements, deadline), Part(key, set_up))) as services:
                try:
                    yield services[key]
                except Exception as exc:
                    body.append(exc)
                    raise
            tasks.cancel_scope.cancel()
    except ExceptionGroup as group:
        if (only := _only_failure(group, body)) is not None:
            raise only from None
        raise


@asynccontextmanager
async def _hold_sessions(
    config: Config, services: Services, tasks: TaskGroup, deadline: Callable[[], Deadline]
) -> AsyncGenerator[Runtime]:
    opened = OpenSessions(services[SESSIONS], services[ASSEMBLY], tasks, partial(TurnRouter, allow_nothing))
    try:
        yield Runtime(services[SESSIONS], services[ASSEMBLY], opened, configured_servers(config))
    finally:
        try:
            await opened.leave(deadline(), anyio.lowlevel.checkpoint)
        finally:
            for session in opened:  # whoever reads a turn that is still open is told that nothing more comes
                session.front.close()


def _only_failure(group: ExceptionGroup, body: list[Exception]) -> Exception | None:
    """Return the failure that a caller is to see as it was raised, without the group round it; None for several."""
    failed = flatten_exceptions(group)
    if body and failed == flatten_exceptions(body[0]):
        return body[0]  # nothing else failed: the caller's own error
    if not body and len(failed) == 1 and isinstance(failed[0], ConfigError):
        return failed[0]  # set-up stopped at a setting, and all that was entered has been left
    return None
