"""The sessions that are open on one connection: each an agent with its conversation, from new or load until close.

Owns their life here: started, greeted, put away, and brought to quiet together. Knows neither params nor answers.
"""

import logging
from collections import ChainMap
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import cast

import anyio
from anyio.abc import TaskGroup

from acp_bridge.acp import ClientCapabilities, outbound
from acp_bridge.acp.inbound import McpServer, StdioServer
from acp_bridge.agent import Agent, Agents, Assembly, Job, Outcome
from acp_bridge.content import Failure
from acp_bridge.effects import Deadline, close_together, last_words
from acp_bridge.errors import BarrierFailed, StoreBusy, StoreReplaced
from acp_bridge.redaction import together
from acp_bridge.rpc import Peer
from acp_bridge.session import (
    HeldSession,
    Journal,
    Place,
    Recovery,
    Sessions,
    recovery_of,
    recovery_text,
    recovery_title,
)
from acp_bridge.text import escaped
from acp_bridge.tools import Commands, McpServers, ServerSpec, Tool

from .client_files import ClientFiles
from .conversation import Conversation
from .equipping import wait_for_servers
from .failures import ending, folders_in_use, session_not_open
from .slash import COMMANDS

logger = logging.getLogger(__name__)

_STORE_SHARE = 0.3
"""Of the time that is left at the end, what a session that is being made or taken may need still."""
_QUIET_S = 3.0
"""How long closing waits for the turn's end to be on disk; on a dead one it would wait for ever."""
_GIVEN_UP_S = 2.0
"""How long it waits then for an agent that is made to end; a write is waited for by whoever holds the log."""
_LET_GO_S = 2.0
"""How long a session may take to be let go that was opened for nobody; it has nothing to save but its repair."""


@dataclass(frozen=True, slots=True)
class Opened:
    """One of them."""

    agent: Agent
    conversation: Conversation
    commands: Commands
    servers: McpServers | None
    place: Place
    named: list[McpServer]
    notices: tuple[str, ...] = ()
    jobs: set[Job] = field(default_factory=set[Job])
    """What was asked of the agent and is not answered yet."""

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.agent.journal.session_id


class OpenSessions:
    """By session id."""

    def __init__(
        self, peer: Peer, client: ClientCapabilities, sessions: Sessions, assembly: Assembly, tasks: TaskGroup
    ) -> None:
        self._peer = peer
        self._client = client
        self._sessions = sessions
        self._assembly = assembly
        self._tasks = tasks
        self._entries: dict[str, Opened] = {}
        self._closing: set[str] = set()
        self._stuck: dict[str, HeldSession] = {}  # closed in the middle of a write: let go once that has ended
        self._turnstiles: dict[str, anyio.Lock] = {}
        self._waiting: set[anyio.CancelScope] = set()  # for the store to give a session
        self._shields: set[anyio.CancelScope] = set()  # round what lets a session go
        self._ending = False
        self._agents = Agents(tasks)
        self._notices = count(1)

    def __iter__(self) -> Iterator[Opened]:
        """Iterate over those that are open now."""
        return iter(list(self._entries.values()))

    def find(self, session_id: str) -> Opened | None:
        """Return an open session, None if there is none or it is being closed."""
        return None if session_id in self._closing else self._entries.get(session_id)

    def get(self, session_id: str) -> Opened:
        """Return an open session.

        Raises:
            RpcError: there is none.
        """
        entry = self.find(session_id)
        if entry is None:
            raise session_not_open(session_id)
        return entry

    # --- in ---

    async def new(self, place: Place, servers: list[McpServer]) -> Opened:
        """Make a session that is on disk, and start its agent.

        Raises:
            StoreError: it could not be made.
        """
        with self._unless_ending():
            journal = await self._sessions.new(place, barriers=self._assembly.policy.barriers, config={})
        entry = await self._started(journal, place, servers, taken=False)
        self._tasks.start_soon(self._greet, entry, servers)  # runs once the answer that names the session is sent
        return entry

    async def take(self, session_id: str, place: Place, named: list[McpServer] | None) -> tuple[Opened, Recovery]:
        """Return the session, from here if it is open, else from the store, repaired and behind its open barrier.

        What a client names now are the session's folders and servers (protocol: lists are not merged), so one that is
        open with others is closed and taken anew; so is one whose log is somebody else's now. Without a list of
        servers, those of an open session stay.

        Raises:
            StoreError: as the store says.
            RpcError: it is open with other folders or servers, and a turn is under way in it.
        """
        async with self._alone(session_id):
            if (entry := self.find(session_id)) is not None:
                if isinstance(entry.agent.journal.failure, StoreReplaced):
                    await self._dropped(entry)
                elif entry.place == place and named in (None, entry.named):
                    log = entry.agent.journal.log
                    return entry, recovery_of(log.records, log.state)
                elif entry.agent.busy:
                    raise folders_in_use(session_id)
                else:
                    await self._closed(entry)
            await self._let_go(session_id)
            barriers = self._assembly.policy.barriers
            with self._unless_ending():
                journal, recovery = await self._sessions.take(session_id, place, barriers=barriers)
            servers = named or []
            entry = await self._started(journal, place, servers, taken=True)
            try:
                await self._assembly.policy.open(journal)
            except BarrierFailed as exc:
                self.tell(entry, "warning", "This session cannot be saved now", f"What is shown may not last: {exc}")
            if warning := journal.held.warning:
                self.tell(entry, "warning", "Where this session lies", warning)
            self._tasks.start_soon(self._greet, entry, servers)
            return entry, recovery

    @asynccontextmanager
    async def _alone(self, session_id: str) -> AsyncGenerator[None]:
        """Open or close a session alone: a client may ask twice in one write, and what comes second waits."""
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
            RpcError: the program is ending.
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
        raise ending()

    async def _started(self, journal: Journal, place: Place, servers: list[McpServer], *, taken: bool) -> Opened:
        files = ClientFiles(self._peer, self._client, journal.session_id, self._assembly.files)
        specs = _started_here(servers)
        hidden = together(*(spec.secrets for spec in specs))
        try:
            parts = await self._assembly.parts(journal.session_id, place, taken=taken, files=files, secrets=hidden)
        except BaseException:  # the client's taking back of its request too: nobody else would let it go
            with last_words(_LET_GO_S):
                await self._sessions.close(journal.session_id)
            raise
        mcp = self._mcp_servers(journal.session_id, parts.workspace.cwd, specs)
        if mcp is not None:
            offered = ChainMap(dict(parts.tools), cast("dict[str, Tool]", mcp.tools))  # grows as servers get ready
            tell = partial(self._tell_of, journal.session_id)
            parts = replace(parts, tools=offered, equipped=partial(wait_for_servers, mcp, tell))
            self._tasks.start_soon(mcp.run)
        conversation = Conversation(self._peer, self._client, journal, self._assembly.policy)
        agent = Agent(journal, parts, conversation)
        conversation.on_dismissed = partial(agent.cancel, "client")
        entry = self._entries[journal.session_id] = Opened(
            agent, conversation, parts.commands, mcp, place, servers, parts.notices
        )
        self._agents.start(agent)
        return entry

    def _mcp_servers(self, session_id: str, cwd: Path, specs: tuple[ServerSpec, ...]) -> McpServers | None:
        make = self._assembly.servers
        return make(session_id, cwd, specs) if specs and make is not None else None

    async def _greet(self, entry: Opened, servers: list[McpServer]) -> None:
        """Show what may not precede the answer that names the session."""
        entry.conversation.show(outbound.available_commands(COMMANDS))
        if remote := sorted(server.name for server in servers if not isinstance(server, StdioServer)):
            self.tell(
                entry,
                "warning",
                "MCP servers are not used",
                f"Only stdio is supported, so not called: {', '.join(remote)}",
            )
        if entry.notices:
            self.tell(entry, "warning", "Notes for agents that were left out", ". ".join(entry.notices))
        if entry.servers is not None:
            entry.servers.on_problem(lambda server, words: self.tell(entry, "warning", f"MCP server {server}", words))
            entry.servers.on_news(lambda server, words: self.tell(entry, "info", f"MCP server {server}", words))

    # --- said to the user, never to the model ---

    def tell_recovery(self, entry: Opened, recovery: Recovery) -> None:
        """Say what is news about a session that is shown, if there is anything to say."""
        if not recovery.clean:
            text = recovery_text(recovery, way_on="Say /continue to go on, or ask for something else.")
            self.tell(entry, "warning", recovery_title(recovery), text)

    def tell_recovery_later(self, entry: Opened, recovery: Recovery) -> None:
        """Say it once the answer that is being made is sent."""

        async def tell() -> None:
            self.tell_recovery(entry, recovery)

        self._tasks.start_soon(tell)

    def _tell_of(self, session_id: str, severity: outbound.Severity, title: str, description: str) -> None:
        if (entry := self._entries.get(session_id)) is not None:
            self.tell(entry, severity, title, description)

    def tell(self, entry: Opened, severity: outbound.Severity, title: str, description: str) -> None:
        """Say something as a notice where the client takes them, else as a message of its own."""
        title, description = escaped(title), escaped(description, lines=True)
        if self._client.notices:
            entry.conversation.show(outbound.notice(severity, title, description))
        else:
            text = outbound.text_block(f"{title}. {description}")
            message_id = f"notice_{next(self._notices)}"
            entry.conversation.show(outbound.chunk("agent_message_chunk", text, message_id))

    # --- out ---

    async def put_away(self, session_id: str) -> None:
        """Stop a session's agent, end its background jobs, save the rest and let it go; unknown, it does nothing.

        Raises:
            StoreError: something could not be saved, or is being written still.
        """
        async with self._alone(session_id):
            if (entry := self._entries.get(session_id)) is not None:
                await self._closed(entry)
            await self._let_go(session_id)

    async def _closed(self, entry: Opened) -> None:
        session_id = entry.session_id
        self._closing.add(session_id)
        shield = anyio.CancelScope(shield=True)  # until `abandon`: what is half closed could not be loaded
        self._shields.add(shield)
        try:
            entry.agent.stop("client")
            with shield:
                await self._let_all_go(entry)
        finally:
            self._shields.discard(shield)
            self._closing.discard(session_id)
            self._entries.pop(session_id, None)

    async def _let_all_go(self, entry: Opened) -> None:
        with anyio.move_on_after(_QUIET_S):
            await entry.agent.quiet()
        if not entry.agent.is_quiet:
            await self._give_up(entry)
        if entry.servers is not None:
            await entry.servers.aclose()
        await entry.commands.aclose()
        try:
            await self._sessions.close(entry.session_id)
        except StoreBusy:
            self._stuck[entry.session_id] = entry.agent.journal.held
            raise
        finally:
            entry.conversation.close()  # after what the last write has saved is shown

    async def _dropped(self, entry: Opened) -> None:
        """Let go of a session of which nothing more can be saved here; what could not be was said when it failed."""
        try:
            await self._closed(entry)
        except StoreReplaced as exc:
            logger.warning("session %s is loaded anew: %s", entry.session_id, exc)

    async def _give_up(self, entry: Opened) -> None:
        """End an agent that does not come to quiet, and answer for it."""
        failure = Failure(kind="not_saved", message="the session was closed before the turn's end was on disk")
        for job in entry.jobs:
            job.finish(Outcome(reason="error", failure=failure))
        entry.agent.abandon()
        with anyio.move_on_after(_GIVEN_UP_S):
            await entry.agent.quiet()

    async def _let_go(self, session_id: str) -> None:
        """Let go of a session that was closed in the middle of a write.

        Raises:
            StoreBusy: the write has not ended.
        """
        if (held := self._stuck.get(session_id)) is not None:
            await held.close()
            del self._stuck[session_id]

    async def quiet(self, deadline: Deadline, share: float) -> None:
        """Stop every agent at once, then wait until each has closed its turn and every request is answered.

        Raises:
            TimeoutError: some did not come to quiet within their `share` of the time that is left.
        """
        self._agents.stop("shutdown")  # all of them, before any is waited for
        with deadline.shield(share) as shield:
            await self._agents.quiet()
            with anyio.move_on_after(deadline.left() * _STORE_SHARE):
                await self._peer.idle()
            self._ending = True
            for scope in self._waiting:
                scope.cancel()
            await self._peer.idle()
            await self._agents.quiet()  # those whose request was under way
        if shield.cancelled_caught:
            late = ", ".join(self._agents.late()) or "none"
            raise TimeoutError(f"sessions that did not come to quiet in time: {late}")

    @property
    def busy(self) -> bool:
        """Whether a turn is under way in any of them."""
        return self._agents.busy

    def abandon(self) -> None:
        """End what did not come to quiet in time."""
        self._agents.abandon()
        for shield in self._shields:
            shield.shield = False

    async def close_servers(self) -> None:
        """End the MCP servers of all sessions, side by side."""
        await close_together(entry.servers.aclose for entry in self if entry.servers is not None)


def _started_here(servers: list[McpServer]) -> tuple[ServerSpec, ...]:
    """Return those that are started as processes; the others are named to the user as unused."""
    return tuple(
        ServerSpec(
            name=server.name,
            command=server.command,
            args=tuple(server.args),
            env={variable.name: variable.value for variable in server.env},
        )
        for server in servers
        if isinstance(server, StdioServer)
    )
