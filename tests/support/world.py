"""An agent at work on a store in memory: a scripted model, tools that tell what they did, a client that remembers.

Nothing here sleeps: what is to wait, waits for an event that the test sets.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, cast

import anyio
import orjson
from anyio.lowlevel import checkpoint

from acp_bridge.acp import ClientCapabilities
from acp_bridge.agent import Agent, Models, Options, Parts, Settings
from acp_bridge.bridge.conversation import Conversation
from acp_bridge.checkpoint import CheckpointPolicy
from acp_bridge.content import Diff, Effect, JsonObject, Location, Text
from acp_bridge.errors import StoreError
from acp_bridge.llm import Delta, Model, ScriptedModel
from acp_bridge.llm.script_parser import script_from
from acp_bridge.rpc import Peer, RpcError
from acp_bridge.session import (
    Event,
    Header,
    HeldSession,
    Journal,
    Loaded,
    Log,
    ModelRequest,
    Page,
    Place,
    Policy,
    Record,
    Recovery,
    SessionFilter,
    Sessions,
    Verification,
    VerifiedPolicy,
)
from acp_bridge.storage import MemoryStore
from acp_bridge.tools import (
    Access,
    Call,
    Commands,
    Ended,
    LocalFiles,
    Mode,
    Presentation,
    Tool,
    ToolOutput,
    ToolSpec,
    Workspace,
)
from acp_bridge.tools.guard import NOTHING_MORE

CWD = Path("/work")
PLACE = Place(cwd="/work", roots=("/work",))


class Shut:
    """A door that is open unless a test shuts it; whoever waits at it is counted."""

    def __init__(self) -> None:
        self.opened = anyio.Event()
        self.opened.set()
        self.reached = anyio.Event()

    def shut(self) -> None:
        self.opened, self.reached = anyio.Event(), anyio.Event()

    def open(self) -> None:
        self.opened.set()

    async def pass_through(self) -> None:
        self.reached.set()
        await self.opened.wait()


async def _at_once() -> None:
    """What a local store does to confirm its hold."""


class CountingSession:
    """A hold that keeps account of its writes, waits at a door before each, and fails on demand."""

    def __init__(self, inner: HeldSession, store: "CountingStore") -> None:
        self.inner, self.store = inner, store

    @property
    def loaded(self) -> Loaded:
        return self.inner.loaded

    @property
    def warning(self) -> str:
        return self.inner.warning

    async def append(self, records: Sequence[Record]) -> int:
        self.store.writes.append(tuple(records))
        size = 0
        with anyio.CancelScope(shield=True):  # as the port asks: a write is seen through
            await self.store.door.pass_through()
            size = await self.inner.append(records)
        return size  # noqa: RET504  a scope may leave its block early, says its type

    async def confirm(self) -> None:
        self.store.confirmed += 1
        await self.store.on_confirm()
        await self.inner.confirm()

    async def repair(self, closers: Sequence[Record]) -> None:
        self.store.writes.append(tuple(closers))
        with anyio.CancelScope(shield=True):  # as the port asks: a write is seen through
            await self.store.door.pass_through()
            await self.inner.repair(closers)

    async def salvage(self, unsaved: Sequence[Record]) -> None:
        self.store.salvages += 1
        await self.store.on_salvage()
        await self.inner.salvage(unsaved)

    async def put_content(self, data: bytes) -> str:
        return await self.inner.put_content(data)

    async def get_content(self, name: str) -> bytes | None:
        return await self.inner.get_content(name)

    async def close(self) -> None:
        await self.inner.close()


class CountingStore:
    """A store in memory whose writes are counted.

    Attributes:
        writes: what each write was given; a write is a sync.
        door: where each write waits.
        confirmed: how often the hold was confirmed.
        on_confirm, on_salvage: awaited before each.
    """

    def __init__(self) -> None:
        self.confirmed = 0
        self.on_confirm: Callable[[], Awaitable[None]] = _at_once
        self.on_salvage: Callable[[], Awaitable[None]] = checkpoint
        self.memory = MemoryStore()
        self.writes: list[tuple[Record, ...]] = []
        self.salvages = 0
        self.door = Shut()

    async def create(self, header: Header, records: Sequence[Record]) -> HeldSession:
        return CountingSession(await self.memory.create(header, records), self)

    async def hold(self, session_id: str) -> HeldSession:
        return CountingSession(await self.memory.hold(session_id), self)

    async def read(self, session_id: str, *, from_seq: int = 0, limit: int | None = None) -> Loaded:
        return await self.memory.read(session_id, from_seq=from_seq, limit=limit)

    async def verify(self, session_id: str) -> Verification:
        return await self.memory.verify(session_id)

    async def salvage(self, session_id: str) -> Verification:
        return await self.memory.salvage(session_id)

    async def list(self, filter: SessionFilter, *, cursor: str | None = None, limit: int = 50) -> Page:
        return await self.memory.list(filter, cursor=cursor, limit=limit)

    async def delete(self, session_id: str) -> None:
        await self.memory.delete(session_id)

    async def fork(self, session_id: str, header: Header, *, through: int) -> None:
        await self.memory.fork(session_id, header, through=through)

    async def sweep(self) -> int:
        return await self.memory.sweep()


class ToldModel:
    """A scripted model that remembers what it was asked, and waits at a door before it says anything."""

    def __init__(self, answers: list[Any]) -> None:
        self._script = ScriptedModel(script_from(answers, "test"))
        self.requests: list[ModelRequest] = []
        self.door = Shut()
        self.on_request: Callable[[], None] = lambda: None

    @property
    def context_window(self) -> int | None:
        return 8_000

    @property
    def takes_images(self) -> bool:
        return False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.requests.append(request)
        self.on_request()
        await self.door.pass_through()
        async for delta in self._script.stream(request):
            yield delta

    async def aclose(self) -> None:
        await self._script.aclose()


class ToldTool:
    """A tool that remembers each time its body was entered.

    Attributes:
        entered: arguments of each call whose body began.
        door: where the body waits.
    """

    def __init__(
        self, name: str, *, effect: Effect = "write", parallel: bool = False, access: Access | None = None
    ) -> None:
        schema = {"type": "object"}
        self.spec = ToolSpec(
            name=name, description=name, parameters=schema, effect=effect, kind="edit", parallel=parallel
        )
        self._access = access or Access(kind="none")
        self.entered: list[JsonObject] = []
        self.running = 0
        self.most_running = 0
        self.door = Shut()
        self.on_enter: Callable[[], None] = lambda: None
        self.raises: Exception | None = None

    def check(self, arguments: JsonObject) -> JsonObject:
        return arguments

    def present(self, arguments: JsonObject, workspace: Workspace) -> Presentation:
        return Presentation(title=f"{self.spec.name} it", kind="edit", locations=(Location(path="/work/f", line=3),))

    def access(self, arguments: JsonObject, workspace: Workspace) -> Access:
        return self._access

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        self.entered.append(arguments)
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        try:
            self.on_enter()
            call.progress("so far")
            await self.door.pass_through()
        finally:
            self.running -= 1
        if self.raises is not None:
            raise self.raises
        return ToolOutput(
            content=(Text(text=f"{self.spec.name} did {sorted(arguments)}"),),
            shown=(Diff(path="/work/f", old_text=None, new_text="new"), Text(text="shown")),
            digests={"/work/f": "00"},
        )


class NoCommands:
    async def run(
        self,
        command: str,
        *,
        cwd: Path,
        timeout_s: float,
        name: str,
        progress: Callable[[str], None],
        env: Mapping[str, str] = NOTHING_MORE,
    ) -> Ended:
        raise AssertionError(f"{command!r} ran")

    async def aclose(self) -> None:
        pass


class ToldPeer:
    """A client that remembers all it was shown and answers each question as `answer` says."""

    def __init__(self) -> None:
        self.updates: list[JsonObject] = []
        self.questions: list[JsonObject] = []
        self.answer: str | None = "allow_once"
        self.door = Shut()
        self.congested = False
        self.behind = False

    def send_notification(self, method: str, params: JsonObject) -> None:
        assert method == "session/update"
        self.updates.append(orjson.loads(orjson.dumps(params["update"])))

    def send_raw(self, line: bytes) -> None:
        self.updates.append(orjson.loads(line)["params"]["update"])

    async def ready(self) -> None:
        await anyio.lowlevel.checkpoint()

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        self.questions.append(params)
        await self.door.pass_through()
        match self.answer:
            case None:
                raise RpcError(-32603, "no")
            case "cancelled":
                return {"outcome": {"outcome": "cancelled"}}
            case option_id:
                return {"outcome": {"outcome": "selected", "optionId": option_id}}

    def status(self, call_id: str) -> str | None:
        """The last status of a tool card."""
        said = [
            update["status"] for update in self.updates if update.get("toolCallId") == call_id and "status" in update
        ]
        return said[-1] if said else None


FAST = Options(max_requests=6, max_attempts=3, retry_wait_s=0.0)


@dataclass
class World:
    """Everything around one session's agent; a second world on the same store is the next process."""

    store: CountingStore
    model: ToldModel
    tools: Mapping[str, ToldTool]
    policy: Policy
    mode: Mode = "full"
    options: Options = FAST
    deadline_s: float = 30.0
    peer: ToldPeer = field(default_factory=ToldPeer)
    _agent: Agent | None = None
    _sessions: Sessions | None = None
    _conversation: Conversation | None = None
    recovery: Recovery = field(default_factory=Recovery)

    @classmethod
    def of(
        cls,
        answers: list[Any],
        *tools: ToldTool,
        policy: Policy | None = None,
        store: CountingStore | None = None,
        mode: Mode = "full",
        options: Options = FAST,
        deadline_s: float = 30.0,
    ) -> Self:
        by_name = {tool.spec.name: tool for tool in tools}
        return cls(
            store or CountingStore(),
            ToldModel(answers),
            by_name,
            policy or CheckpointPolicy(),
            mode,
            options,
            deadline_s,
        )

    @property
    def agent(self) -> Agent:
        assert self._agent is not None
        return self._agent

    @property
    def journal(self) -> Journal:
        return self.agent.journal

    @property
    def conversation(self) -> Conversation:
        assert self._conversation is not None
        return self._conversation

    @property
    def sessions(self) -> Sessions:
        assert self._sessions is not None
        return self._sessions

    @property
    def events(self) -> list[Event]:
        return [record.event for record in self.journal.log.records]

    def saved(self) -> list[Event]:
        """What is on disk, without streamed text that its message repeats."""
        kept = self.store.memory._sessions["s1"]
        return [record.event for record in Log(kept.header, kept.records, clock=lambda: 0).records]

    def of_type(self, event_type: str) -> list[Any]:
        return [event for event in self.events if event.type == event_type]

    async def prompt(self, text: str = "Do it.") -> Any:
        return await self.agent.settled(self.agent.submit((Text(text=text),)))

    @asynccontextmanager
    async def running(self, *, take: bool = False) -> AsyncGenerator[Self]:
        """Make the session, or take it from the store; on leaving, bring the agent to quiet and let it go."""
        self._sessions = Sessions(self.store, version="1", ids=lambda: "s1")
        if take:
            journal, self.recovery = await self._sessions.take("s1", PLACE, barriers=self.policy.barriers)
        else:
            journal = await self._sessions.new(PLACE, barriers=self.policy.barriers, config={})
        policy = VerifiedPolicy.of(self.policy, self.deadline_s)
        parts = Parts(
            policy=policy,
            models=Models(lambda route: cast("Model", self.model)),
            options=self.options,
            tools=cast("Mapping[str, Tool]", self.tools),
            workspace=Workspace(cwd=CWD, roots=(CWD,)),
            files=LocalFiles(),
            commands=cast("Commands", NoCommands()),
            route="told",
            mode=self.mode,
            settings=Settings(routes=("told", "m2")),
        )
        self._conversation = Conversation(cast("Peer", self.peer), ClientCapabilities(), journal, policy)
        self._agent = Agent(journal, parts, self._conversation)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._agent.run)
            try:
                yield self
            finally:
                self._agent.stop("shutdown")
                for door in (self.store.door, self.model.door, self.peer.door, *(t.door for t in self.tools.values())):
                    door.open()
                with anyio.move_on_after(5, shield=True):
                    await self._agent.quiet()
                self._agent.abandon()
        with suppress(StoreError):  # a test that leaves the disk full has said so itself
            await self._sessions.close("s1")

    @asynccontextmanager
    async def killed(self, *, take: bool = False) -> AsyncGenerator[Self]:
        """As `running`, but on leaving the process is gone: nothing is closed, written or said any more."""
        context = self.running(take=take)
        await context.__aenter__()
        try:
            yield self
        finally:
            self.store.memory.crash()
            self.agent.abandon()
            await context.__aexit__(None, None, None)


def asks(*names: str, text: str = "") -> JsonObject:
    """An answer that asks for these tools."""
    answer: JsonObject = {"tools": [{"name": name, "arguments": {"place": n}} for n, name in enumerate(names, 1)]}
    return {"text": text, **answer} if text else answer
