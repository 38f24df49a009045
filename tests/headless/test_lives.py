"""Sessions of a program that are opened and closed at the same time, or do not let themselves be closed."""

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest
from support.loops import TRIO_WHEN_SLOW

from acp_bridge.checkpoint import CheckpointPolicy
from acp_bridge.config import Config, load
from acp_bridge.errors import SessionInUse
from acp_bridge.headless import Session, open_runtime
from acp_bridge.llm import Delta, Finished, TextDelta
from acp_bridge.session import Durable, ModelRequest
from acp_bridge.tools import Choice, Question


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


class Model:
    """Says hello, and no more."""

    context_window = None
    takes_images = False

    def __init__(self) -> None:
        self.asked = anyio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        del request
        self.asked.set()
        yield TextDelta("Hello. ")
        yield Finished("end")

    async def aclose(self) -> None:
        pass


class EndlessTurns(CheckpointPolicy):
    """Waits for a turn's end for ever."""

    async def after_turn(self, journal: Durable) -> None:
        await anyio.sleep_forever()


def config(home: Path) -> Config:
    return load({"ACP_BRIDGE_HOME": str(home), "ACP_BRIDGE_MODEL": "demo", "PATH": "/usr/bin:/bin"})


async def allow_all(question: Question) -> Choice:
    del question
    return Choice("allow_once")


async def test_of_two_that_take_a_session_at_once_one_has_it_and_the_other_is_told(tmp_path: Path) -> None:
    got: list[Session] = []
    refused: list[SessionInUse] = []
    with anyio.fail_after(10):
        async with open_runtime(config(tmp_path), open_model=lambda _route: Model()) as runtime:
            made = await runtime.new_session(str(tmp_path))
            await made.close()

            async def take(cwd: str) -> None:
                try:
                    got.append(await runtime.resume_session(made.id, cwd=cwd))
                except SessionInUse as exc:
                    refused.append(exc)

            for other in (str(tmp_path), "/"):
                async with anyio.create_task_group() as both:
                    both.start_soon(take, str(tmp_path))
                    both.start_soon(take, other)
                assert (len(got), len(refused)) == (1, 1)
                async with got[0].prompt("hello") as turn:  # it is open still
                    async for _ in turn:
                        pass
                assert turn.outcome is not None
                assert turn.outcome.reason == "completed"
                await got.pop().close()
                refused.clear()


@TRIO_WHEN_SLOW
async def test_a_session_whose_turn_does_not_end_is_given_up_by_a_close_and_can_be_taken_again(tmp_path: Path) -> None:
    model = Model()
    with anyio.fail_after(20):
        async with open_runtime(config(tmp_path), policy=EndlessTurns(), open_model=lambda _route: model) as runtime:
            session = await runtime.new_session(str(tmp_path))
            outcomes: list[object] = []
            async with anyio.create_task_group() as tasks:

                async def prompt() -> None:
                    async with session.prompt("hello") as turn:
                        async for _ in turn:
                            pass
                    outcomes.append(turn.outcome)

                tasks.start_soon(prompt)
                await model.asked.wait()
                await session.close()
            assert outcomes
            again = await runtime.resume_session(session.id)
            await again.close()


async def test_a_session_can_be_closed_after_its_runtime_was_left_and_takes_no_more(tmp_path: Path) -> None:
    with anyio.fail_after(10):
        async with open_runtime(config(tmp_path), open_model=lambda _route: Model()) as runtime:
            session = await runtime.new_session(str(tmp_path))
        await session.close()
        await session.close()
        async with session.prompt("hello") as turn:
            async for _ in turn:
                pass
        assert turn.outcome is not None
        assert turn.outcome.reason == "error"
