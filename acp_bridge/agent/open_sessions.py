"""The sessions that are open in this process, whoever drives them: how each comes in, what belongs to it, how it goes.

Owns the one life of an open session and its bounds: it is opened and closed alone, nothing is waited for longer than
the program lasts, and a close gives up what does not end. An editor's bridge and a program in Python have the same one.
Knows no protocol: what a front shows, and in which words, is the front's own.
"""

import logging
from collections import ChainMap
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Generic, Protocol, TypeVar, cast

import anyio
from anyio.abc import TaskGroup

from acp_bridge.content import Failure
from acp_bridge.effects import Deadline, close_together, shielded_cleanup
from acp_bridge.errors import (
    BarrierFailed,
    ProgramEnding,
    SessionInUse,
    StoreBusy,
    StoreError,
    StoreReplaced,
    TurnUnderWay,
)
from acp_bridge.redaction import together
from acp_bridge.session import HeldSession, Journal, Place, Recovery, Sessions, recovery_of
from acp_bridge.tools import Commands, Files, McpServers, ServerSpec, Tool

from .agent import Agent
from .agents import Agents
from .assembly import Assembly
from .equipping import Severity, wait_for_servers
from .frontend import Frontend
from .inbox import Job, Outcome

logger = logging.getLogger(__name__)

_QUIET_SHARE: Final = 0.8
"""Of the time that is left at the end, what the agents may take to come to quiet."""
_STORE_SHARE: Final = 0.3
"""Of that, what a session that is being made or taken may need still."""
_SERVERS_SHARE: Final = 0.4
"""Of the time that is left then, what their MCP servers may take to end."""
_QUIET_S: Final = 3.0
"""How long closing waits for the turn's end to be on disk; on a dead one it would wait for ever."""
_LET_GO_S: Final = 2.0
"""How long a session may take to be let go that was opened for nobody; it has nothing to save but its repair."""
_GIVEN_UP_S: Final = 2.0
"""How long it waits then for an agent that is made to end; a write is waited for by whoever holds the log."""


class Front(Frontend, Protocol):
    """Who stands in front of one session: a frontend whose session can end."""

    def tell(self, severity: Severity, title: str, description: str) -> None:
        """Say something to the session's user, and never to the model."""
        ...

    def close(self) -> None:
        """Expect nothing more: the session is let go."""
        ...


FrontT = TypeVar("FrontT", bound=Front)


@dataclass(frozen=True, slots=True)
class NamedServers:
    """The MCP servers that are named for a session.

    Attributes:
        specs: those that are started here.
        unused: the names of those that cannot be.
    """

    specs: tuple[ServerSpec, ...] = ()
    unused: tuple[str, ...] = ()


_NONE: Final = NamedServers()


@dataclass(frozen=True, eq=False)
class OpenSession(Generic[FrontT]):
    """One of them.

    Attributes:
        named: the MCP servers that whoever opened it named.
        notices: what its user should know of how it was opened, a sentence each.
        jobs: what was asked of the agent and is not answered yet; whoever asks adds and removes them.
    """

    agent: Agent
    front: FrontT
    commands: Commands
    servers: McpServers | None
    named: NamedServers
    place: Place
    notices: tuple[str, ...] = ()
    jobs: set[Job] = field(default_factory=set[Job])

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.agent.journal.session_id


@dataclass(frozen=True)
class Taken(Generic[FrontT]):
    """What taking a session came to.

    Attributes:
        anew: whether it came from the store, and was not open here already.
        unsaved: why what is shown may not last: its open barrier failed, or a write since.
    """

    session: OpenSession[FrontT]
    recovery: Recovery
    anew: bool = False
    unsaved: BarrierFailed | None = None


class OpenSessions(Generic[FrontT]):
    """By session id."""

    def __init__(
        self,
        sessions: Sessions,
        assembly: Assembly,
        tasks: TaskGroup,
        make_front: Callable[[Journal], FrontT],
        *,
        files: Callable[[str], Files] | None = None,
    ) -> None:
        """Own the agents that run in `tasks`.

        `tasks` is older than all parts: an agent whose tool does not let itself be ended is left behind in it, and
        costs neither the parts that follow nor other sessions their time.

        Args:
            make_front: makes a session's front.
            files: where a session's text files come from, by its id; the disk, if nobody says.
        """
        self._sessions = sessions
        self._assembly = assembly
        self._tasks = tasks
        self._make_front = make_front
        self._files = files
        self._open: dict[str, OpenSession[FrontT]] = {}
        self._closing: set[str] = set()
        self._stuck: dict[str, HeldSession] = {}  # closed in the middle of a write: let go once that has ended
        self._turnstiles: dict[str, anyio.Lock] = {}
        self._waiting: set[anyio.CancelScope] = set()  # for the store to give a session
        self._shields: set[anyio.CancelScope] = set()  # round what lets a session go
        self._ending = False
        self._agents = Agents(tasks)

    def __iter__(self) -> Iterator[OpenSession[FrontT]]:
        """Iterate over those that are open now."""
        return iter(list(self._open.values()))

    def find(self, session_id: str) -> OpenSession[FrontT] | None:
        """Return an open session, None if there is none or it is being closed."""
        return None if session_id in self._closing else self._open.get(session_id)

    @property
    def busy(self) -> bool:
        """Whether a turn is under way in any of them."""
        return self._agents.busy

    # --- in ---

    async def new(
        self,
        place: Place,
        named: NamedServers = _NONE,
        make_front: Callable[[Journal], FrontT] | None = None,
    ) -> OpenSession[FrontT]:
        """Make a session that is on disk, and start its agent.

        Raises:
            StoreError: it could not be made.
            ProgramEnding: it is too late for one.
        """
        with self._unless_ending():
            journal = await self._sessions.new(place, barriers=self._assembly.policy.barriers, config={})
        return await self._start(journal, place, named, make_front, taken=False)

    async def take(
        self,
        session_id: str,
        place: Place,
        named: NamedServers | None = None,
        make_front: Callable[[Journal], FrontT] | None = None,
        *,
        shared: bool = True,
    ) -> Taken[FrontT]:
        """Return the session, from here if it is open, else from the store, repaired and behind its open barrier.

        What is named now are the session's folders and servers, so one that is open with others is closed and taken
        anew; so is one whose log is somebody else's now. Without a list of servers, those of an open session stay.

        Args:
            session_id: which one.
            place: its folders now.
            named: its servers now.
            make_front: makes its front, if it is not open.
            shared: whether one that is open here is given to whoever asks; else it is in use.

        Raises:
            StoreError: as the store says.
            TurnUnderWay: it is open with other folders or servers, and a turn runs in it.
            ProgramEnding: it is too late.
        """
        async with self._alone(session_id):
            if (session := self.find(session_id)) is not None:
                if not shared:
                    raise SessionInUse(f"session {session_id} is open in this process", session_id=session_id)
                if isinstance(session.agent.journal.failure, StoreReplaced):
                    await self._drop(session)
                elif session.place == place and named in (None, session.named):
                    log = session.agent.journal.log
                    failure = session.agent.journal.failure
                    unsaved = BarrierFailed(str(failure), barrier="open") if failure is not None else None
                    return Taken(session, recovery_of(log.records, log.state), unsaved=unsaved)
                elif session.agent.busy:
                    raise TurnUnderWay("the session's folders and MCP servers cannot change during a turn")
                else:
                    await self._close(session)
            await self._let_go(session_id)
            barriers = self._assembly.policy.barriers
            with self._unless_ending():
                journal, recovery = await self._sessions.take(session_id, place, barriers=barriers)
            session = await self._start(journal, place, named or _NONE, make_front, taken=True)
            unsaved = None
            try:
                await self._assembly.policy.after_open(journal)
            except BarrierFailed as exc:
                unsaved = exc
            except BaseException:  # a wait that is called off too: nobody has the session, so nobody else lets it go
                await self._drop(session)
                raise
            return Taken(session, recovery, anew=True, unsaved=unsaved)

    @asynccontextmanager
    async def _alone(self, session_id: str) -> AsyncGenerator[None]:
        """Open or close a session alone: somebody may ask twice at once, and what comes second waits."""
        turnstile = self._turnstiles.setdefault(session_id, anyio.Lock())
        try:
            async with turnstile:
                yield
        finally:
            if not turnstile.locked():
                self._turnstiles.pop(session_id, None)

    @contextmanager
    def _unless_ending(self) -> Generator[None]:
        """Wait for the store no longer than the program lasts; what it gives too late, it takes back.

        Raises:
            ProgramEnding: the program is ending.
        """
        scope = anyio.CancelScope()
        self._waiting.add(scope)
        if self._ending:
            scope.cancel()
        try:
            with scope:
                yield
                return
        finally:
            self._waiting.discard(scope)
        raise ProgramEnding("the agent is ending")

    async def _start(
        self,
        journal: Journal,
        place: Place,
        named: NamedServers,
        make_front: Callable[[Journal], FrontT] | None,
        *,
        taken: bool,
    ) -> OpenSession[FrontT]:
        session_id, specs = journal.session_id, named.specs
        hidden = together(*(spec.secrets for spec in specs))
        files = self._files(session_id) if self._files is not None else None
        try:
            parts = await self._assembly.parts(session_id, place, taken=taken, files=files, secrets=hidden)
        except BaseException:  # a request that is taken back too: nobody else would let it go
            with shielded_cleanup(_LET_GO_S):
                await self._sessions.close(session_id)
            raise
        front = (make_front or self._make_front)(journal)
        make_servers = self._assembly.servers
        servers = make_servers(session_id, parts.workspace.cwd, specs) if specs and make_servers is not None else None
        if servers is not None:
            offered = ChainMap(dict(parts.tools), cast("dict[str, Tool]", servers.tools))  # grows as they get ready
            parts = replace(parts, tools=offered, equipped=partial(wait_for_servers, servers, front.tell))
            self._tasks.start_soon(servers.run)
        agent = Agent(journal, parts, front)
        session = OpenSession(agent, front, parts.commands, servers, named, place, parts.notices)
        self._open[session_id] = session
        self._agents.start(agent)
        return session

    # --- out ---

    async def put_away(self, session_id: str, only: OpenSession[FrontT] | None = None) -> None:
        """Stop a session's agent, end its background jobs, save the rest and let it go; unknown, it does nothing.

        Args:
            session_id: which one.
            only: if it is this one still, and was not taken anew.

        Raises:
            StoreError: something could not be saved, or is being written still.
        """
        async with self._alone(session_id):
            session = self._open.get(session_id)
            if only is None or session in (None, only):
                await self._put_away(session_id)

    async def delete(self, session_id: str) -> None:
        """Put a session away and delete it, before anybody who asks for it meanwhile can have it again.

        Raises:
            StoreError: as the store says, or it is being written still.
        """
        async with self._alone(session_id):
            try:
                await self._put_away(session_id)
            except (StoreBusy, SessionInUse):
                raise
            except StoreError as exc:  # what is deleted need not be saved
                logger.info("session %s is deleted unsaved: %s", session_id, exc)
            await self._sessions.store.delete(session_id)

    async def _put_away(self, session_id: str) -> None:
        if (session := self._open.get(session_id)) is not None:
            await self._close(session)
        await self._let_go(session_id)

    async def _close(self, session: OpenSession[FrontT]) -> None:
        session_id = session.session_id
        self._closing.add(session_id)
        shield = anyio.CancelScope(shield=True)  # until the end of all: what is half closed could not be taken again
        self._shields.add(shield)
        try:
            session.agent.stop("client")
            with shield:
                await self._let_all_go(session)
        finally:
            self._shields.discard(shield)
            self._closing.discard(session_id)
            self._open.pop(session_id, None)

    async def _let_all_go(self, session: OpenSession[FrontT]) -> None:
        with anyio.move_on_after(_QUIET_S):
            await session.agent.quiet()
        if not session.agent.is_quiet:
            await self._give_up(session)
        if session.servers is not None:
            await session.servers.aclose()
        await session.commands.aclose()
        try:
            await self._sessions.close(session.session_id)
        except StoreBusy:
            self._stuck[session.session_id] = session.agent.journal.held
            raise
        finally:
            session.front.close()  # after what the last write has saved is shown

    async def _drop(self, session: OpenSession[FrontT]) -> None:
        """Let go of a session of which nothing more need or can be saved here."""
        try:
            await self._close(session)
        except StoreError as exc:
            logger.warning("session %s was let go: %s", session.session_id, exc)

    async def _give_up(self, session: OpenSession[FrontT]) -> None:
        """End an agent that does not come to quiet, and answer for it."""
        failure = Failure(kind="not_saved", message="the session was closed before the turn's end was on disk")
        for job in tuple(session.jobs):  # whoever hears of its end takes it out
            job.finish(Outcome(reason="error", failure=failure))
        session.agent.abandon()
        with anyio.move_on_after(_GIVEN_UP_S):
            await session.agent.quiet()

    async def _let_go(self, session_id: str) -> None:
        """Let go of a session that was closed in the middle of a write.

        Raises:
            StoreBusy: the write has not ended.
        """
        if (held := self._stuck.get(session_id)) is not None:
            await held.close()
            del self._stuck[session_id]

    # --- the end of all ---

    def stop(self) -> None:
        """Stop every turn because the program ends, which is not the user's cancel; those that come later too."""
        self._agents.stop("shutdown")

    async def leave(self, deadline: Deadline, answered: Callable[[], Awaitable[None]]) -> None:
        """Bring every agent to quiet, its turn closed, on disk and answered; then end what belongs to the sessions.

        The sessions themselves go with the storage that holds them.

        Args:
            deadline: by when the whole program has to have ended.
            answered: waits until whoever asked something of a session has its answer.

        Raises:
            TimeoutError: some did not come to quiet within their share of the time that is left.
        """
        try:
            await self._quiet(deadline, answered)
        finally:
            self._agents.abandon()
            for closing in self._shields:
                closing.shield = False
            with deadline.shield(_SERVERS_SHARE):
                await close_together(session.servers.aclose for session in self if session.servers is not None)

    async def _quiet(self, deadline: Deadline, answered: Callable[[], Awaitable[None]]) -> None:
        self.stop()  # all of them, before any is waited for
        with deadline.shield(_QUIET_SHARE) as shield:
            await self._agents.quiet()
            with anyio.move_on_after(deadline.remaining_s() * _STORE_SHARE):
                await answered()
            self._ending = True
            for scope in self._waiting:
                scope.cancel()
            await answered()
            await self._agents.quiet()  # those whose request was under way
        if shield.cancelled_caught:
            late = ", ".join(self._agents.late()) or "none"
            raise TimeoutError(f"sessions that did not come to quiet in time: {late}")
