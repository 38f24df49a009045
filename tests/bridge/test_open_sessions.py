"""The life of a session on one connection: who finds it, what is said of it, and what ends with it."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import anyio
import pytest
from support.world import CountingSession, CountingStore, NoCommands, ToldModel, ToldPeer

from acp_bridge.acp import ClientCapabilities
from acp_bridge.agent import Assembly, Models, Parts, Settings
from acp_bridge.bridge.client_sessions import ClientSessions
from acp_bridge.checkpoint import CheckpointPolicy
from acp_bridge.content import Text
from acp_bridge.effects import Deadline
from acp_bridge.errors import ProgramEnding, SessionNotFound, StoreError, StorePoisoned
from acp_bridge.llm import Model
from acp_bridge.rpc import Peer, RpcError
from acp_bridge.session import HeldSession, Place, Sessions
from acp_bridge.tools import Commands, LocalFiles


class Jobs(NoCommands):
    """Commands with a job left in the background."""

    def __init__(self) -> None:
        self.left = 1

    async def aclose(self) -> None:
        self.left = 0


class Connection(ToldPeer):
    """A client with nothing asked of it."""

    async def idle(self) -> None:
        await anyio.lowlevel.checkpoint()

    def said(self) -> str:
        return " ".join(update["content"]["text"] for update in self.updates if "content" in update)


class RemoteSession(CountingSession):
    @property
    def warning(self) -> str:
        return "a network file system"


class Remote(CountingStore):
    """A store on somebody else's machine."""

    async def hold(self, session_id: str) -> HeldSession:
        return RemoteSession(await self.memory.hold(session_id), self)


class Unhurried(CountingStore):
    """A store that takes its time to delete."""

    async def delete(self, session_id: str) -> None:
        await anyio.wait_all_tasks_blocked()
        await super().delete(session_id)


class World:
    def __init__(self, store: CountingStore) -> None:
        self.store, self.peer, self.jobs = store, Connection(), Jobs()
        self.model = ToldModel([{"deltas": [{"text": "Half"}, {"hang": True}]}])
        self.place = Place(cwd="/", roots=("/",))
        self.opened = cast("ClientSessions", None)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[ClientSessions]:
        assembly = Assembly(
            policy=CheckpointPolicy(),
            models=Models(lambda _route: cast("Model", self.model)),
            tools=(),
            files=LocalFiles(),
            commands=lambda *_of_the_session: cast("Commands", self.jobs),
            route="told",
            settings=Settings(routes=("told",)),
        )
        sessions = Sessions(self.store, version="1", ids=lambda: "s1")
        async with anyio.create_task_group() as tasks:
            opened = ClientSessions(cast("Peer", self.peer), ClientCapabilities(), sessions, assembly, tasks)
            try:
                yield opened
            finally:
                self.store.door.open()
                await opened.leave(Deadline.after(5))
                tasks.cancel_scope.cancel()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_session_that_is_being_closed_is_not_found(tmp_path: Path) -> None:
    world = World(CountingStore())
    with anyio.fail_after(10):
        async with world.running() as opened:
            entry = await opened.new(Place(cwd=str(tmp_path), roots=(str(tmp_path),)), [])
            entry.agent.submit((Text(text="Go."),))
            await world.model.door.reached.wait()
            await anyio.wait_all_tasks_blocked()
            world.store.door.shut()  # the turn's end waits for the disk, and the close for it
            async with anyio.create_task_group() as closing:
                closing.start_soon(opened.put_away, "s1")
                await world.store.door.reached.wait()
                assert opened.find("s1") is None
                with pytest.raises(RpcError, match="no such session"):
                    opened.get("s1")
                world.store.door.open()
            assert opened.find("s1") is None


async def test_background_jobs_end_when_their_session_closes(tmp_path: Path) -> None:
    world = World(CountingStore())
    with anyio.fail_after(10):
        async with world.running() as opened:
            await opened.new(Place(cwd=str(tmp_path), roots=(str(tmp_path),)), [])
            assert world.jobs.left == 1
            await opened.put_away("s1")
            assert world.jobs.left == 0


@pytest.mark.parametrize(("store", "warned"), [(CountingStore, False), (Remote, True)])
async def test_who_takes_a_session_is_told_where_it_lies(
    tmp_path: Path, store: Callable[[], CountingStore], warned: bool
) -> None:
    world, place = World(store()), Place(cwd=str(tmp_path), roots=(str(tmp_path),))
    with anyio.fail_after(10):
        async with world.running() as opened:
            await opened.new(place, [])
            await opened.put_away("s1")
            await opened.take("s1", place, None)
            await anyio.wait_all_tasks_blocked()
            assert ("a network file system" in world.peer.said()) == warned


async def test_who_takes_a_session_has_it_once_what_there_is_to_say_of_it_is_on_disk(tmp_path: Path) -> None:
    world, place = World(CountingStore()), Place(cwd=str(tmp_path), roots=(str(tmp_path),))
    taken: list[object] = []
    with anyio.fail_after(10):
        async with world.running() as opened:
            await opened.new(place, [])
            await opened.put_away("s1")
            world.store.door.shut()

            async def take() -> None:
                taken.append(await opened.take("s1", Place(cwd=str(tmp_path), roots=(str(tmp_path), "/")), None))

            async with anyio.create_task_group() as taking:
                taking.start_soon(take)
                await world.store.door.reached.wait()
                await anyio.wait_all_tasks_blocked()
                assert taken == []
                world.store.door.open()
            assert len(taken) == 1


async def test_nothing_is_made_or_taken_once_the_end_has_begun(tmp_path: Path) -> None:
    world, place = World(CountingStore()), Place(cwd=str(tmp_path), roots=(str(tmp_path),))
    with anyio.fail_after(10):
        async with world.running() as opened:
            await opened.new(place, [])
            await opened.put_away("s1")
            await opened.leave(Deadline.after(5))
            for begin in (opened.new(place, []), opened.take("s1", place, None)):
                with pytest.raises(ProgramEnding, match="the agent is ending"):
                    await begin
            assert list(opened) == []


async def test_a_session_whose_opening_the_client_takes_back_can_be_loaded_again() -> None:
    world, asked = World(CountingStore()), anyio.Event()

    async def never(*_of_the_session: object, **_more: object) -> Parts:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError("it went on")

    with anyio.fail_after(10):
        async with world.running() as opened:
            for open_it in (
                lambda: opened.new(world.place, []),
                lambda: opened.take("s1", world.place, None),
            ):
                asked = anyio.Event()
                with pytest.MonkeyPatch.context() as patched:
                    patched.setattr(Assembly, "parts", never)
                    async with anyio.create_task_group() as client:
                        client.start_soon(open_it)
                        await asked.wait()
                        client.cancel_scope.cancel()
            entry, _ = await opened.take("s1", world.place, None)
            assert opened.find("s1") is entry


async def test_a_session_whose_closing_the_client_takes_back_is_closed_and_can_be_loaded_again() -> None:
    world = World(CountingStore())
    with anyio.fail_after(10):
        async with world.running() as opened:
            entry = await opened.new(world.place, [])
            entry.agent.submit((Text(text="Go."),))
            await world.model.door.reached.wait()
            await anyio.wait_all_tasks_blocked()
            world.store.door.shut()
            async with anyio.create_task_group() as client:
                client.start_soon(opened.put_away, "s1")
                await world.store.door.reached.wait()
                client.cancel_scope.cancel()
                world.store.door.open()
            again, _ = await opened.take("s1", world.place, None)
            assert opened.find("s1") is again
            assert again is not entry


async def test_a_closing_that_does_not_end_does_not_hold_the_program_up() -> None:
    world = World(CountingStore())
    with anyio.fail_after(10):
        async with anyio.create_task_group() as client:
            async with world.running() as opened:
                entry = await opened.new(world.place, [])
                stuck = anyio.Event()

                async def never() -> None:
                    stuck.set()
                    await anyio.sleep_forever()

                world.jobs.aclose = never
                client.start_soon(opened.put_away, entry.session_id)
                await stuck.wait()
                client.cancel_scope.cancel()
                await opened.leave(Deadline.after(1))


async def test_who_asks_for_a_session_that_is_being_deleted_is_told_that_there_is_none() -> None:
    world, answers = World(Unhurried()), list[Exception | None]()
    with anyio.fail_after(10):
        async with world.running() as opened:
            entry = await opened.new(world.place, [])
            entry.agent.submit((Text(text="Go."),))
            await world.model.door.reached.wait()
            await anyio.wait_all_tasks_blocked()
            world.store.door.shut()  # the turn's end waits for the disk, and the delete for it

            async def answered(ask: Awaitable[object]) -> None:
                try:
                    await ask
                except StoreError as exc:
                    answers.append(exc)
                else:
                    answers.append(None)

            async with anyio.create_task_group() as asking:
                asking.start_soon(answered, opened.delete("s1"))
                await world.store.door.reached.wait()
                asking.start_soon(answered, opened.take("s1", world.place, None))
                await anyio.wait_all_tasks_blocked()
                world.store.door.open()
            assert [type(answer) for answer in answers] == [type(None), SessionNotFound]


async def test_what_is_said_of_a_session_that_is_taken_anew_is_a_message_of_its_own() -> None:
    world = World(Remote())
    with anyio.fail_after(10):
        async with world.running() as opened:
            await opened.new(world.place, [])
            for _ in range(2):
                await opened.put_away("s1")
                await opened.take("s1", world.place, None)
            await anyio.wait_all_tasks_blocked()
            said = [update["messageId"] for update in world.peer.updates if "content" in update]
            assert len(said) == len(set(said)) == 2


async def test_each_load_says_that_a_session_cannot_be_saved() -> None:
    world = World(CountingStore())
    with anyio.fail_after(10):
        async with world.running() as opened:
            entry = await opened.new(world.place, [])
            for full, times in ((False, 0), (True, 1), (True, 2)):
                entry.agent.journal.failure = StorePoisoned("no space left") if full else None
                again, _ = await opened.take("s1", world.place, None)
                assert again is entry
                assert world.peer.said().count("This session cannot be saved now") == times
            entry.agent.journal.failure = None
