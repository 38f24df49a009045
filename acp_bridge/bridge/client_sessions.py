"""A connection's sessions: the open ones as its client names them, and what the client is told beside its answers.

Owns the client's shapes of folders and servers, and the words that follow the opening of a session. How a session is
opened, kept and closed is the agent's (`OpenSessions`); which method does what is the bridge's.
"""

from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import TypeAlias

from anyio.abc import TaskGroup

from acp_bridge.acp import ClientCapabilities, outbound
from acp_bridge.acp.inbound import McpServer, StdioServer
from acp_bridge.agent import Assembly, NamedServers, OpenSession, OpenSessions
from acp_bridge.effects import Deadline
from acp_bridge.rpc import Peer
from acp_bridge.session import Journal, Place, Recovery, Sessions, recovery_text, recovery_title
from acp_bridge.tools import Files, ServerSpec

from .client_files import ClientFiles
from .conversation import Conversation
from .failures import session_not_open
from .slash import COMMANDS

ClientSession: TypeAlias = OpenSession[Conversation]


class ClientSessions:
    """By session id."""

    def __init__(
        self, peer: Peer, client: ClientCapabilities, sessions: Sessions, assembly: Assembly, tasks: TaskGroup
    ) -> None:
        self._peer = peer
        self._client = client
        self._assembly = assembly
        self._tasks = tasks
        self._notices = count(1)
        self._open = OpenSessions(sessions, assembly, tasks, self._conversation, files=self._files)

    def __iter__(self) -> Iterator[ClientSession]:
        """Iterate over those that are open now."""
        return iter(self._open)

    def find(self, session_id: str) -> ClientSession | None:
        """Return an open session, None if there is none or it is being closed."""
        return self._open.find(session_id)

    def get(self, session_id: str) -> ClientSession:
        """Return an open session.

        Raises:
            RpcError: there is none.
        """
        session = self.find(session_id)
        if session is None:
            raise session_not_open(session_id)
        return session

    @property
    def busy(self) -> bool:
        """Whether a turn is under way in any of them."""
        return self._open.busy

    def _conversation(self, journal: Journal) -> Conversation:
        conversation = Conversation(self._peer, self._client, journal, self._assembly.policy, notices=self._notices)
        conversation.on_dismissed = partial(self._cancel, journal.session_id)
        return conversation

    def _files(self, session_id: str) -> Files:
        return ClientFiles(self._peer, self._client, session_id, self._assembly.files)

    def _cancel(self, session_id: str) -> None:
        if (session := self.find(session_id)) is not None:
            session.agent.cancel("client")

    # --- in and out ---

    async def new(self, place: Place, servers: list[McpServer]) -> ClientSession:
        """Make a session that is on disk, and start its agent.

        Raises:
            StoreError: it could not be made.
            ProgramEnding: it is too late for one.
        """
        session = await self._open.new(place, _named(servers))
        self._tasks.start_soon(self._greet, session)  # runs once the answer that names the session is sent
        return session

    async def take(
        self, session_id: str, place: Place, servers: list[McpServer] | None
    ) -> tuple[ClientSession, Recovery]:
        """Return the session, from here if it is open as the client names it, else from the store, repaired and saved.

        What a client names now are the session's folders and servers (protocol: lists are not merged). What cannot be
        saved is shown all the same, with a word.

        Raises:
            StoreError: as the store says.
            TurnUnderWay: it is open with other folders or servers, and a turn is under way in it.
            ProgramEnding: it is too late.
        """
        taken = await self._open.take(session_id, place, None if servers is None else _named(servers))
        session = taken.session
        if taken.unsaved is not None:
            said = f"What is shown may not last: {taken.unsaved}"
            session.front.tell("warning", "This session cannot be saved now", said)
        if taken.anew:
            if warning := session.agent.journal.held.warning:
                session.front.tell("warning", "Where this session lies", warning)
            self._tasks.start_soon(self._greet, session)
        return session, taken.recovery

    async def put_away(self, session_id: str) -> None:
        """Stop a session's agent, end its background jobs, save the rest and let it go; unknown, it does nothing.

        Raises:
            StoreError: something could not be saved, or is being written still.
        """
        await self._open.put_away(session_id)

    async def delete(self, session_id: str) -> None:
        """Put a session away and delete it, before anybody who asks for it meanwhile can have it again.

        Raises:
            StoreError: as the store says, or it is being written still.
        """
        await self._open.delete(session_id)

    async def leave(self, deadline: Deadline) -> None:
        """Bring every agent to quiet, its turn closed, on disk and answered, and end their servers.

        Raises:
            TimeoutError: some did not come to quiet in time.
        """
        await self._open.leave(deadline, self._peer.idle)

    # --- said to the user, never to the model ---

    async def _greet(self, session: ClientSession) -> None:
        """Show what may not precede the answer that names the session."""
        front = session.front
        front.show(outbound.available_commands(COMMANDS))
        if unused := session.named.unused:
            said = f"Only stdio is supported, so not called: {', '.join(unused)}"
            front.tell("warning", "MCP servers are not used", said)
        if session.notices:
            front.tell("warning", "Notes for agents that were left out", ". ".join(session.notices))
        if session.servers is not None:
            session.servers.on_problem(lambda server, words: front.tell("warning", f"MCP server {server}", words))
            session.servers.on_news(lambda server, words: front.tell("info", f"MCP server {server}", words))

    def tell_recovery(self, session: ClientSession, recovery: Recovery) -> None:
        """Say what is news about a session that is shown, if there is anything to say."""
        if not recovery.clean:
            text = recovery_text(recovery, way_on="Say /continue to go on, or ask for something else.")
            session.front.tell("warning", recovery_title(recovery), text)

    def tell_recovery_later(self, session: ClientSession, recovery: Recovery) -> None:
        """Say it once the answer that is being made is sent."""

        async def tell() -> None:
            self.tell_recovery(session, recovery)

        self._tasks.start_soon(tell)


def _named(servers: list[McpServer]) -> NamedServers:
    specs = tuple(
        ServerSpec(
            name=server.name,
            command=server.command,
            args=tuple(server.args),
            env={variable.name: variable.value for variable in server.env},
        )
        for server in servers
        if isinstance(server, StdioServer)
    )
    return NamedServers(specs, tuple(sorted(server.name for server in servers if not isinstance(server, StdioServer))))
