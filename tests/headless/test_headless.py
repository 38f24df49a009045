"""The runtime in process, driven as a program drives it."""

import os
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_bridge.agent import Assembly, Outcome
from acp_bridge.checkpoint import CheckpointPolicy
from acp_bridge.config import Config, load
from acp_bridge.content import Text
from acp_bridge.effects import Deadline
from acp_bridge.errors import BarrierFailed, ConfigError, SessionNotFound
from acp_bridge.headless import Happened, Session, Streamed, TurnEvent, allow_nothing, open_runtime
from acp_bridge.llm import Delta, Finished, TextDelta, ToolDelta
from acp_bridge.session import Durable, FromUser, ModelRequest, Record, ToolResult, TurnEnded
from acp_bridge.storage import MemoryStore
from acp_bridge.tools import Choice, Question


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


class Model:
    """Says one thing, asks for one command, and sums up; or never ends."""

    context_window = None
    takes_images = False

    def __init__(self, *, endless: bool = False) -> None:
        self.endless = endless
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.requests.append(request)
        yield TextDelta("Hello. ")
        if self.endless:
            await anyio.sleep_forever()
        if len(self.requests) == 1:
            yield ToolDelta(0, "run_command", '{"command": "echo ran >> ran.txt"}')
            yield Finished("tools")
        else:
            yield Finished("end")

    async def aclose(self) -> None:
        pass


def config(home: Path) -> Config:
    return load({"ACP_BRIDGE_HOME": str(home), "ACP_BRIDGE_MODEL": "demo", "PATH": "/usr/bin:/bin"})


async def test_a_program_prompts_watches_permits_and_finds_it_all_in_the_next_process(tmp_path: Path) -> None:
    model = Model()
    asked: list[Question] = []

    async def permit(question: Question) -> Choice:
        asked.append(question)
        return Choice("allow_once")

    (tmp_path / "work").mkdir()
    with anyio.fail_after(20):
        async with open_runtime(config(tmp_path / "home"), open_model=lambda _route: model) as runtime:
            session = await runtime.new_session(str(tmp_path / "work"), permit=permit)
            async with session.prompt("do it") as turn:
                happened = [item async for item in turn]
            assert turn.outcome is not None
            assert turn.outcome.reason == "completed"
        async with open_runtime(config(tmp_path / "home"), open_model=lambda _route: model) as runtime:
            again = await runtime.resume_session(session.id)
            kept = [record.event.type for record in again.records]
    assert [question.arguments["command"] for question in asked] == ["echo ran >> ran.txt"]
    assert (tmp_path / "work" / "ran.txt").read_text() == "ran\n"
    assert "".join(item.text for item in happened if isinstance(item, Streamed)) == "Hello. Hello. "
    seen = [item.event.type for item in happened if isinstance(item, Record)]
    assert kept[1 : 1 + len(seen)] == seen
    assert again.recovery.clean


async def test_nobody_to_ask_denies(tmp_path: Path) -> None:
    with anyio.fail_after(20):
        async with open_runtime(config(tmp_path / "home"), open_model=lambda _route: Model()) as runtime:
            session = await runtime.new_session(str(tmp_path), permit=allow_nothing)
            async with session.prompt("do it") as turn:
                events = [item.event async for item in turn if isinstance(item, Record)]
    [result] = [event for event in events if isinstance(event, ToolResult)]
    assert result.code == "DENIED"
    assert not (tmp_path / "ran.txt").exists()


async def test_leaving_a_turn_early_cancels_it_and_closes_it_on_disk(tmp_path: Path) -> None:
    with anyio.fail_after(20):
        async with open_runtime(config(tmp_path / "home"), open_model=lambda _route: Model(endless=True)) as runtime:
            session = await runtime.new_session(str(tmp_path))
            async with session.prompt("never end") as turn:
                async for item in turn:
                    if isinstance(item, Streamed):
                        break
            assert turn.outcome is not None
            assert turn.outcome.reason == "cancelled"
            last = session.records[-1].event
            assert isinstance(last, TurnEnded)
            async with session.prompt((Text(text="again"),)) as turn:
                pass
            assert turn.outcome is not None
            assert turn.outcome.reason == "cancelled"


async def test_leaving_the_runtime_in_a_turn_ends_it_as_the_program_did(tmp_path: Path) -> None:
    with anyio.fail_after(20):
        async with open_runtime(config(tmp_path / "home"), open_model=lambda _route: Model(endless=True)) as runtime:
            session = await runtime.new_session(str(tmp_path))
            turn = session.prompt("never end")
            await turn.__aenter__()
            while not isinstance(await anext(turn), Streamed):
                pass
        last = session.records[-1]
        assert isinstance(last.event, TurnEnded)
        assert (last.event.reason, last.event.by, last.synthetic) == ("cancelled", "shutdown", False)


class Told(Model):
    """Says the prompt back, once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may = anyio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        await self.may.wait()
        [*_, message] = request.messages
        assert isinstance(message, FromUser)
        yield TextDelta("".join(block.text for block in message.content if isinstance(block, Text)))
        yield Finished("end")


async def test_each_of_two_prompts_at_once_is_told_what_happens_to_its_own_turn(tmp_path: Path) -> None:
    model = Told()
    told: dict[str, list[str]] = {"one": [], "two": [], "taken back": []}
    outcomes: dict[str, str] = {}

    with anyio.fail_after(20):
        async with open_runtime(config(tmp_path / "home"), open_model=lambda _route: model) as runtime:
            session = await runtime.new_session(str(tmp_path))

            async def read(prompt: str, sent: anyio.Event, *, give_up: bool = False) -> None:
                async with session.prompt(prompt) as turn:
                    sent.set()
                    async for item in turn:
                        told[prompt].append(item.text if isinstance(item, Streamed) else item.event.type)
                        if give_up:
                            break
                assert turn.outcome is not None
                outcomes[prompt] = turn.outcome.reason

            async with anyio.create_task_group() as tasks:
                for prompt in told:
                    sent = anyio.Event()
                    tasks.start_soon(partial(read, prompt, sent, give_up=prompt == "taken back"))
                    await sent.wait()
                await anyio.wait_all_tasks_blocked()
                model.may.set()
    assert outcomes == {"one": "completed", "two": "completed", "taken back": "cancelled"}
    turn = ["turn/start", "user/message", "step/start", "assistant/message", "step/end", "turn/end"]
    for prompt in ("one", "two"):
        assert told[prompt][0] == "input/queued"
        assert told[prompt].count(prompt) == 1
        assert [event for event in told[prompt] if event in turn] == turn
    assert told["taken back"] == ["input/queued"]


async def test_a_prompt_that_comes_too_late_has_its_outcome_at_once(tmp_path: Path) -> None:
    with anyio.fail_after(20):
        async with open_runtime(config(tmp_path / "home"), open_model=lambda _route: Model(endless=True)) as runtime:
            closed = await runtime.new_session(str(tmp_path))
            left = await runtime.new_session(str(tmp_path))
            await closed.close()
            await closed.close()
            again = await runtime.resume_session(closed.id)
            await closed.close()  # the session is another's by now
            async with again.prompt("hi") as turn:
                assert [await anext(turn)]
    for session in (closed, left):
        with anyio.fail_after(1):
            async with session.prompt("too late") as turn:
                assert [item async for item in turn if isinstance(item, Streamed)] == []
            assert turn.outcome is not None
            assert (turn.outcome.reason, turn.outcome.failure and turn.outcome.failure.kind) == ("error", "not_saved")


async def test_a_turn_that_is_not_closed_in_time_ends_for_its_reader_too(tmp_path: Path) -> None:
    class Stuck(Model):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
            yield TextDelta("Hello. ")
            with anyio.CancelScope(shield=True):
                await over.wait()

    over = anyio.Event()
    outcomes: list[Outcome | None] = []

    async def read(session: Session, begun: anyio.Event) -> None:
        async with session.prompt("hi") as turn:
            async for item in turn:
                if isinstance(item, Streamed):
                    begun.set()
        outcomes.append(turn.outcome)
        over.set()

    soon = Deadline.after(0.5)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            with pytest.RaisesGroup(TimeoutError, flatten_subgroups=True):
                async with open_runtime(
                    config(tmp_path / "home"), open_model=lambda _route: Stuck(), deadline=lambda: soon
                ) as runtime:
                    begun = anyio.Event()
                    tasks.start_soon(read, await runtime.new_session(str(tmp_path)), begun)
                    await begun.wait()
    [outcome] = outcomes
    assert outcome is not None
    assert (outcome.reason, outcome.failure and outcome.failure.kind) == ("error", "not_saved")


async def test_the_callers_own_error_comes_out_as_it_was_raised(tmp_path: Path) -> None:
    with pytest.raises(SessionNotFound):
        async with open_runtime(config(tmp_path / "home"), open_model=lambda _route: Model()) as runtime:
            await runtime.resume_session("there_is_no_such_session")


async def test_without_a_model_a_session_is_refused_in_words(tmp_path: Path) -> None:
    none = load({"ACP_BRIDGE_HOME": str(tmp_path), "ACP_BRIDGE_MODEL": "openai:gpt-5"})
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        async with open_runtime(none) as runtime:
            await runtime.new_session(str(tmp_path))


async def test_a_turn_that_the_programs_end_cut_short_is_gone_on_with_once_without_a_new_message(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(20):
        async with open_runtime(config(tmp_path / "home"), open_model=lambda _route: Model(endless=True)) as runtime:
            session = await runtime.new_session(str(tmp_path))
            turn = session.prompt("never end")
            await turn.__aenter__()
            while not isinstance(await anext(turn), Streamed):
                pass
        model = Model()
        async with open_runtime(config(tmp_path / "home"), open_model=lambda _route: model) as runtime:
            again = await runtime.resume_session(session.id)
            async with again.resume() as turn:
                async for _ in turn:
                    pass
            assert turn.outcome is not None
            assert turn.outcome.reason == "completed"
            assert [record.event.type for record in again.records].count("user/message") == 1
            with pytest.raises(ConfigError, match="no interrupted turn"):
                async with again.resume():
                    pass
    [said] = [message for message in model.requests[0].messages if isinstance(message, FromUser)]
    assert said.content == (Text(text="never end"),)


async def test_the_old_names_of_going_on_and_of_what_happens_work_and_say_the_new_one(tmp_path: Path) -> None:
    assert Happened is TurnEvent
    with anyio.fail_after(10):
        async with open_runtime(memory(), open_model=lambda _route: Model(), store=MemoryStore()) as runtime:
            session = await runtime.new_session(str(tmp_path))
            with pytest.warns(DeprecationWarning, match=r"Session\.resume"):
                turn = session.proceed()
            with pytest.raises(ConfigError, match="no interrupted turn"):
                async with turn:
                    pass


async def test_a_session_whose_opening_is_cancelled_can_be_taken_again() -> None:
    with anyio.fail_after(10):
        async with open_runtime(memory(), open_model=lambda _route: Model(), store=MemoryStore()) as runtime:
            session = await runtime.new_session("/")
            await session.close()
            asked = anyio.Event()

            async def never(*_of_the_session: object, **_more: object) -> Any:
                asked.set()
                await anyio.sleep_forever()

            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(Assembly, "parts", never)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(runtime.resume_session, session.id)
                    await asked.wait()
                    tasks.cancel_scope.cancel()
            await (await runtime.resume_session(session.id)).close()


async def test_a_session_whose_closing_is_cancelled_can_be_taken_again() -> None:
    begun = anyio.Event()
    with anyio.fail_after(10):
        async with open_runtime(memory(), open_model=lambda _route: Model(), store=MemoryStore()) as runtime:
            session = await runtime.new_session("/")
            held: Any = runtime.sessions.get(session.id)
            held = held.held.inner
            let_go = held.close

            async def slowly() -> None:
                begun.set()
                for _ in range(3):
                    await anyio.lowlevel.checkpoint()
                await let_go()

            held.close = slowly
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.close)
                await begun.wait()
                tasks.cancel_scope.cancel()
            await (await runtime.resume_session(session.id)).close()


async def test_a_session_whose_open_barrier_fails_while_its_opening_is_cancelled_can_be_taken_again() -> None:
    waiting = anyio.Event()

    class Failing(CheckpointPolicy):
        fails = True

        async def after_open(self, journal: Durable) -> None:
            waiting.set()
            if self.fails:
                await anyio.lowlevel.checkpoint()
                raise BarrierFailed("no disk", barrier="open")

    policy = Failing()
    with anyio.fail_after(10):
        async with open_runtime(
            memory(), open_model=lambda _route: Model(), store=MemoryStore(), policy=policy
        ) as runtime:
            session = await runtime.new_session("/")
            await session.close()
            with pytest.raises(ExceptionGroup):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(runtime.resume_session, session.id)
                    await waiting.wait()
                    tasks.cancel_scope.cancel()
            policy.fails = False
            await (await runtime.resume_session(session.id)).close()


def memory() -> Config:
    return load({"ACP_BRIDGE_CONFIG": os.devnull, "ACP_BRIDGE_MODEL": "demo", "PATH": "/usr/bin:/bin"})
