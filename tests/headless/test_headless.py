"""The runtime in process, driven as a program drives it."""

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

from acp_bridge.config import Config, load
from acp_bridge.content import Text
from acp_bridge.errors import ConfigError, SessionNotFound
from acp_bridge.headless import Streamed, allow_nothing, open_runtime
from acp_bridge.llm import Delta, Finished, TextDelta, ToolDelta
from acp_bridge.session import ModelRequest, Record, ToolResult, TurnEnded
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


async def test_the_callers_own_error_comes_out_as_it_was_raised(tmp_path: Path) -> None:
    with pytest.raises(SessionNotFound):
        async with open_runtime(config(tmp_path / "home"), open_model=lambda _route: Model()) as runtime:
            await runtime.resume_session("there_is_no_such_session")


async def test_without_a_model_a_session_is_refused_in_words(tmp_path: Path) -> None:
    none = load({"ACP_BRIDGE_HOME": str(tmp_path), "ACP_BRIDGE_MODEL": "openai:gpt-5"})
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        async with open_runtime(none) as runtime:
            await runtime.new_session(str(tmp_path))
