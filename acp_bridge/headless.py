"""An agent without an editor: the same runtime in process, for programs and for `acp-bridge run`.

Owns the face that a program drives: open, make or resume a session, prompt, iterate over what happens, answer
permissions, close. The ordered effect is the server's: leaving stops the agents, then runtime, policy and storage go.

    async with open_runtime(load(os.environ)) as runtime:
        session = await runtime.new_session("/path/to/project", permit=allow_nothing)
        async with session.prompt("what is here?") as turn:
            async for happened in turn:
                ...
        print(turn.outcome)
"""

import contextlib
import logging
import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from acp_bridge.agent import Assembly, Job, NamedServers, OpenSession, OpenSessions, Outcome, Severity, place_of
from acp_bridge.config import Config
from acp_bridge.content import Failure, PromptBlock, Text, mended_block
from acp_bridge.effects import (
    Deadline,
    Key,
    Part,
    Services,
    compose,
    flatten_exceptions,
    no_stray_cancellation,
    shielded_cleanup,
)
from acp_bridge.errors import ConfigError
from acp_bridge.llm import Model
from acp_bridge.replacements import Replacements
from acp_bridge.runtime import ASSEMBLY, SESSIONS, configured_servers, parts
from acp_bridge.session import (
    DeltaKind,
    InputDropped,
    InputQueued,
    Journal,
    ObserverSource,
    Policy,
    Record,
    Recovery,
    Sessions,
    Store,
)
from acp_bridge.tools import Choice, Question, ServerSpec, Tool, UserAnswer

logger = logging.getLogger(__name__)

_LEVELS: dict[Severity, int] = {"info": logging.INFO, "warning": logging.WARNING}

CLOSE_S = 5.0
"""How long leaving may take, in seconds."""

_MAX_WAITING = 10_000
"""What a turn's reader may be behind before the model waits for it."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """A piece of an answer, as it arrives; the whole follows as a record."""

    message_id: str
    kind: DeltaKind
    text: str


Happened: TypeAlias = Streamed | Record
PermitFunction: TypeAlias = Callable[[Question], Awaitable[Choice]]


async def allow_nothing(question: Question) -> Choice:
    """Answer every permission question with a rejection."""
    del question
    return Choice("reject_once")


@dataclass(slots=True, eq=False)
class _Listening:
    """The two ends of what one turn is told; `input_id` is known once its prompt is logged."""

    send: MemoryObjectSendStream[Happened]
    receive: MemoryObjectReceiveStream[Happened]
    input_id: str = ""


class _Front:
    """The frontend of one session: passes on what happens, to the turn that it happens to.

    Turns run in the order in which they were sent, so what no prompt of its own names belongs to the first of them.
    """

    def __init__(self, permit: PermitFunction, journal: Journal) -> None:
        self._permit = permit
        self._session_id = journal.session_id
        self._undo = journal.observe(self)
        self._turns: deque[_Listening] = deque()
        self.closed = False

    def listen(self) -> _Listening:
        """Return the ends for a turn that is about to be sent."""
        listening = _Listening(*anyio.create_memory_object_stream[Happened](math.inf))
        self._turns.append(listening)
        return listening

    def hang_up(self, listening: _Listening) -> None:
        """Let a turn's reader come to its end: nothing more will happen to it."""
        listening.send.close()
        if listening in self._turns:
            self._turns.remove(listening)

    def close(self) -> None:
        """Hang up on all, and be told of nothing any more."""
        self._undo()
        for listening in tuple(self._turns):
            self.hang_up(listening)
        self.closed = True

    def tell(self, severity: Severity, title: str, description: str) -> None:
        """Log what an editor's user would be shown."""
        logger.log(_LEVELS[severity], "session %s: %s. %s", self._session_id, title, description)

    def recorded(self, record: Record) -> None:
        match record.event:
            case InputQueued(id=input_id) if self._turns:
                self._turns[-1].input_id = input_id
                self._pass_on(record, self._turns[-1])
            case InputDropped(id=input_id):
                for listening in self._turns:
                    if listening.input_id == input_id:
                        self._pass_on(record, listening)
            case _:
                self._pass_on(record, self._running)

    def streamed(self, message_id: str, kind: DeltaKind, text: str) -> None:
        self._pass_on(Streamed(message_id, kind, text), self._running)

    def durable(self, seq: int) -> None:
        del seq

    def progress(self, call_id: str, output: str) -> None:
        del call_id, output

    @property
    def _running(self) -> _Listening | None:
        return self._turns[0] if self._turns else None

    def _pass_on(self, happened: Happened, to: _Listening | None) -> None:
        if to is not None:
            with contextlib.suppress(anyio.BrokenResourceError):  # nobody reads this turn any more
                to.send.send_nowait(happened)

    @property
    def congested(self) -> bool:
        return self._running is not None and self._running.send.statistics().current_buffer_used > _MAX_WAITING

    async def ready(self) -> None:
        while self.congested:  # noqa: ASYNC110  the stream tells nobody when its buffer shrinks
            await anyio.sleep(0.01)

    async def ask(self, question: Question) -> Choice:
        async with no_stray_cancellation():  # else the call would vanish from its batch without a result
            return await self._permit(question)

    async def inquire(self, call_id: str, question: str, options: tuple[str, ...]) -> UserAnswer:
        del call_id, question, options
        return UserAnswer("unable")


class Turn:
    """One prompt under way: iterate over what happens, then read `outcome`.

    Leaving the block before the end cancels the turn, and waits until it is closed and on disk.

    Attributes:
        outcome: how it ended; None until it has.
    """

    def __init__(self, session: OpenSession[_Front], start: Callable[[], Job]) -> None:
        self.outcome: Outcome | None = None
        self._agent = session.agent
        self._front = session.front
        self._jobs = session.jobs
        self._start = start
        self._job: Job | None = None
        self._listening: _Listening | None = None

    async def __aenter__(self) -> Self:
        """Send the prompt."""
        listening = self._listening = self._front.listen()
        try:
            job = self._job = self._start()
        except BaseException:
            self._front.hang_up(listening)
            raise

        def ended() -> None:
            self._jobs.discard(job)
            self._front.hang_up(listening)

        self._jobs.add(job)
        job.then = ended
        if job.outcome is not None:  # the session takes no more
            ended()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Cancel the turn if it was not read to its end."""
        if self._job is not None and self.outcome is None:
            self._agent.cancel_job(self._job, "client")
            with shielded_cleanup(CLOSE_S):
                self.outcome = await self._settled(self._job)
        if self._listening is not None:
            self._listening.receive.close()

    def __aiter__(self) -> Self:
        """Iterate over pieces and records, in order."""
        return self

    async def __anext__(self) -> Happened:
        """Return what happens next; the iteration ends once the turn has ended and is on disk."""
        if self._job is None or self._listening is None:
            raise RuntimeError("iterate inside `async with session.prompt(…) as turn`")
        try:
            return await self._listening.receive.receive()
        except anyio.EndOfStream:
            self.outcome = await self._settled(self._job)
            raise StopAsyncIteration from None

    async def _settled(self, job: Job) -> Outcome:
        """Wait for the outcome; after the end of the session there will be none."""
        if self._front.closed and job.outcome is None:
            message = "the session was ended before this turn could be closed"
            return Outcome(reason="error", failure=Failure(kind="not_saved", message=message))
        return await self._agent.settled(job)


class Session:
    """A session that is open in this process.

    Attributes:
        recovery: what an earlier process left, as the log tells it.
        notices: what its user should know of how it was opened, such as notes for agents that were left out.
    """

    def __init__(self, session: OpenSession[_Front], recovery: Recovery, close: Callable[[], Awaitable[None]]) -> None:
        self._session = session
        self._agent = session.agent
        self._close = close
        self.recovery = recovery
        self.notices = session.notices

    @property
    def id(self) -> str:
        """The session's id."""
        return self._agent.journal.session_id

    @property
    def records(self) -> tuple[Record, ...]:
        """The log so far; streamed text that a message holds whole is left out."""
        return tuple(self._agent.journal.log.records)

    def prompt(self, content: str | tuple[PromptBlock, ...]) -> Turn:
        """Return a turn of this prompt; entering it sends it. What no JSON can carry in it is mended."""
        blocks = tuple(map(mended_block, (Text(text=content),) if isinstance(content, str) else content))
        return Turn(self._session, lambda: self._agent.submit(blocks))

    def proceed(self) -> Turn:
        """Return a turn that goes on with the interrupted one, without a new message.

        Raises:
            ConfigError: there is none to go on with.
        """

        def start() -> Job:
            job = self._agent.submit_continuation()
            if job is None:
                raise ConfigError(f"session {self.id} has no interrupted turn to go on with")
            return job

        return Turn(self._session, start)

    async def configure(self, key: str, value: str) -> None:
        """Set an option, `mode` or `model`, durably.

        Raises:
            ConfigError: there is no such option, it does not take this value, or the model cannot be used.
            BarrierFailed: it is not confirmed on disk.
        """
        await self._agent.configure(key, value)

    async def close(self) -> None:
        """Stop what runs, save the rest and let the session go. Closing twice does nothing."""
        await self._close()


class Runtime:
    """What `open_runtime` gives."""

    def __init__(
        self,
        sessions: Sessions,
        assembly: Assembly,
        opened: OpenSessions[_Front],
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
        return self._driven(await self._opened.new(place, self._named(servers), partial(_Front, permit)), Recovery())

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
        if cwd is None:
            header = (await self.sessions.store.read(session_id)).header
            place = await place_of(header.cwd, header.roots)
        else:
            place = await place_of(cwd)
        make_front = partial(_Front, permit)  # who asks for permission is one caller's, so the session is, too
        taken = await self._opened.take(session_id, place, self._named(servers), make_front, shared=False)
        session = self._driven(taken.session, taken.recovery)
        if taken.unsaved is not None:
            with shielded_cleanup(CLOSE_S):
                await session.close()
            raise taken.unsaved
        return session

    def _named(self, servers: tuple[ServerSpec, ...]) -> NamedServers:
        """Return these and the configured ones; of two with a name, what the program gives stands."""
        return NamedServers(tuple({spec.name: spec for spec in (*self._servers, *servers)}.values()))

    def _driven(self, session: OpenSession[_Front], recovery: Recovery) -> Session:
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
    ends: list[Deadline] = []

    def default_deadline() -> Deadline:
        if not ends:
            ends.append(Deadline.after(CLOSE_S))
        return ends[0]

    by = deadline or default_deadline
    front: Key[Runtime] = Key("front")

    body: list[Exception] = []
    try:
        async with anyio.create_task_group() as tasks:  # older than all parts: a tool that does not end holds up none

            @asynccontextmanager
            async def fronted(services: Services) -> AsyncGenerator[Runtime]:
                opened = OpenSessions(services[SESSIONS], services[ASSEMBLY], tasks, partial(_Front, allow_nothing))
                try:
                    yield Runtime(services[SESSIONS], services[ASSEMBLY], opened, configured_servers(config))
                finally:
                    try:
                        await opened.leave(by(), anyio.lowlevel.checkpoint)
                    finally:
                        for each in opened:  # whoever reads a turn that is still open is told that nothing more comes
                            each.front.close()

            async with compose((*parts(config, replacements, by), Part(front, fronted))) as services:
                try:
                    yield services[front]
                except Exception as exc:
                    body.append(exc)
                    raise
            tasks.cancel_scope.cancel()
    except ExceptionGroup as group:
        if body and flatten_exceptions(group) == flatten_exceptions(body[0]):
            raise body[0] from None  # nothing else failed: the caller's own error, as it was raised
        if not body and len(failed := flatten_exceptions(group)) == 1 and isinstance(failed[0], ConfigError):
            raise failed[0] from None  # set-up stopped at a setting, and all that was entered has been left
        raise


__all__ = [
    "CLOSE_S",
    "Happened",
    "PermitFunction",
    "Runtime",
    "Session",
    "Streamed",
    "Turn",
    "allow_nothing",
    "open_runtime",
]
