"""What a front may set, and where a session may work: one check, whoever asks; what is refused changes nothing."""

import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from support.world import World

from acp_bridge.agent import Models, Settings, UnusableRoute
from acp_bridge.config import load
from acp_bridge.content import ResourceLink, Text
from acp_bridge.errors import ConfigError
from acp_bridge.headless import Runtime, Session, open_runtime
from acp_bridge.llm.demo import DemoModel
from acp_bridge.session import UserMessage


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


@asynccontextmanager
async def runtime_in(tmp_path: Path, **more: str) -> AsyncGenerator[Runtime]:
    environ = {"ACP_BRIDGE_HOME": str(tmp_path / "home"), "ACP_BRIDGE_MODEL": "demo", **more}
    (tmp_path / "work").mkdir(exist_ok=True)
    with anyio.fail_after(10):
        async with open_runtime(load(environ)) as runtime:
            yield runtime


async def outcome(session: Session) -> str:
    async with session.prompt("hello") as turn:
        _ = [happened async for happened in turn]
    assert turn.outcome is not None
    return turn.outcome.reason


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("mode", "yolo", "no such mode; there are ask, edit, plan, full"),
        ("mode", "", "no such mode"),
        ("mode", None, "no such mode"),
        ("mode", ["full"], "no such mode"),
        ("model", "nobody:nothing", "no such model is configured; there are demo"),
        ("model", "", "no such model"),
        ("model", 5, "no such model"),
        ("colour", "red", "no such option; there are mode, model"),
        ("", "ask", "no such option"),
    ],
)
async def test_what_an_option_does_not_take_is_refused_by_name_and_the_session_goes_on(
    tmp_path: Path, option: str, value: Any, said: str
) -> None:
    async with runtime_in(tmp_path) as runtime:
        session = await runtime.new_session(str(tmp_path / "work"))
        logged = len(session.records)
        with pytest.raises(ConfigError, match=said):
            await session.configure(option, value)
        assert len(session.records) == logged
        await session.configure("mode", "edit")
        assert await outcome(session) == "completed"


async def test_a_model_that_lacks_its_key_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    async with runtime_in(tmp_path, ACP_BRIDGE_MODELS="openai:gpt-5") as runtime:
        session = await runtime.new_session(str(tmp_path / "work"))
        logged = len(session.records)
        with pytest.raises(UnusableRoute, match="OPENAI_API_KEY"):
            await session.configure("model", "openai:gpt-5")
        assert len(session.records) == logged
        assert await outcome(session) == "completed"


@pytest.mark.parametrize("folder", ["work", "", ".", "~", "/no/such/folder", "file", "wo\0rk", "/wo\udcffrk"])
async def test_a_session_works_only_in_a_folder_that_is_there(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").touch()
    path = str(tmp_path / folder) if folder == "file" else folder
    async with runtime_in(tmp_path) as runtime:
        with pytest.raises(ConfigError):
            await runtime.new_session(path)
        with pytest.raises(ConfigError):
            await runtime.new_session(str(tmp_path / "work"), roots=(path,))
        session = await runtime.new_session(str(tmp_path / "work"))
        await session.close()
        with pytest.raises(ConfigError):
            await runtime.resume_session(session.id, cwd=path)
        await runtime.resume_session(session.id)


@pytest.mark.parametrize("folder", [None, b"/tmp", Path("/"), 3])
async def test_a_folder_that_is_no_text_is_refused_as_a_users_mistake(tmp_path: Path, folder: object) -> None:
    async with runtime_in(tmp_path) as runtime:
        with pytest.raises(ConfigError, match="an absolute path is a text, not a value of type"):
            await runtime.new_session(cast("str", folder))


async def test_a_session_whose_folder_has_gone_says_so(tmp_path: Path) -> None:
    async with runtime_in(tmp_path) as runtime:
        session = await runtime.new_session(str(tmp_path / "work"))
        await session.close()
        (tmp_path / "work").rmdir()
        with pytest.raises(ConfigError, match=f"no such folder: {tmp_path / 'work'}"):
            await runtime.resume_session(session.id)
        await runtime.resume_session(session.id, cwd=str(tmp_path))


async def test_half_a_character_in_a_programs_prompt_is_mended(tmp_path: Path) -> None:
    blocks = (Text(text="a\ud83d"), ResourceLink(uri="x:\udc00", name="\ud800"))
    async with runtime_in(tmp_path) as runtime:
        session = await runtime.new_session(str(tmp_path / "work"))
        async with session.prompt(blocks) as turn:
            _ = [happened async for happened in turn]
        [said] = [record.event for record in session.records if isinstance(record.event, UserMessage)]
        assert said.content == (Text(text="a\ufffd"), ResourceLink(uri="x:\ufffd", name="\ufffd"))


# --- models are opened beside the event loop ---


async def test_a_model_is_opened_in_a_thread_once_for_all_who_ask() -> None:
    opened: list[tuple[str, bool]] = []

    def open_model(route: str) -> Any:
        opened.append((route, threading.current_thread() is threading.main_thread()))
        return DemoModel()

    models = Models(open_model)
    got: list[Any] = []

    async def ask() -> None:
        got.append(await models.opened("a"))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(ask)
    assert opened == [("a", False)]
    assert len({id(model) for model in got}) == 1


@asynccontextmanager
async def slowly(models: Callable[[Callable[[str], Any]], Models]) -> AsyncGenerator[tuple[Models, threading.Event]]:
    """Give models whose opening waits for the event."""
    go = threading.Event()

    def open_model(_route: str) -> Any:
        go.wait(5)
        return DemoModel()

    try:
        yield models(open_model), go
    finally:
        go.set()


async def test_whoever_gives_up_on_a_model_leaves_at_once_and_the_next_one_has_it() -> None:
    async with slowly(Models) as (models, go):
        with anyio.move_on_after(0.01) as gave_up:
            await models.opened("a")
        assert gave_up.cancelled_caught
        go.set()
        with anyio.fail_after(5):
            first = await models.opened("a")
            assert await models.opened("a") is first


async def test_of_two_choices_of_a_model_the_later_one_holds_however_long_the_first_takes() -> None:
    first_asked, go = anyio.Event(), anyio.Event()

    async def problem(route: str) -> str:
        if route == "slow":
            first_asked.set()
            await go.wait()
        return ""

    world = World.of([])
    with anyio.fail_after(5):
        async with world.running():
            cast("Any", world.agent)._parts = _with_settings(world, Settings(routes=("slow", "fast"), problem=problem))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(world.agent.configure, "model", "slow")
                await first_asked.wait()
                tasks.start_soon(world.agent.configure, "model", "fast")
                await anyio.wait_all_tasks_blocked()
                await world.agent.configure("mode", "plan")  # waits for no model
                go.set()
            assert (world.agent.route, world.agent.mode) == ("fast", "plan")


def _with_settings(world: World, settings: Settings) -> Any:
    from dataclasses import replace

    return replace(cast("Any", world.agent)._parts, settings=settings)


def test_what_is_known_of_a_routes_images_is_known_without_its_model() -> None:
    def never(_route: str) -> Any:
        raise AssertionError("opened")

    assert Models(never, takes_images=lambda route: route == "sees").takes_images("sees")
    assert not Models(never, takes_images=lambda route: route == "sees").takes_images("blind")
