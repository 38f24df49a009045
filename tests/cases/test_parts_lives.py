"""Parts with `__aenter__` and `__aexit__`: entered in order, left strictly last first, each bounded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.parts import Asking, Audit, Greet, config

from acp_bridge.errors import ConfigError
from acp_bridge.headless import open_runtime
from acp_bridge.storage import MemoryStore

pytestmark = pytest.mark.anyio


class Living:
    """Adds a life of its own to a part; what happens is noted in order."""

    def __init__(self, life: list[str], name: str, **fails: BaseException) -> None:
        self._life, self._name, self._fails = life, name, fails

    async def __aenter__(self) -> Any:
        self._life.append(f"+{self._name}")
        if "enter" in self._fails:
            raise self._fails["enter"]
        self._tasks = anyio.create_task_group()  # a part may hold one, which only its own task can leave
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)
        self._life.append(f"-{self._name}")
        if "leave" in self._fails:
            raise self._fails["leave"]


class LivingStore(Living, MemoryStore):
    def __init__(self, life: list[str], name: str = "store", **fails: BaseException) -> None:
        MemoryStore.__init__(self)
        Living.__init__(self, life, name, **fails)


class LivingTool(Living, Greet):
    def __init__(self, life: list[str], name: str = "greet", **fails: BaseException) -> None:
        Greet.__init__(self, name=name)
        Living.__init__(self, life, name, **fails)


class LivingModel(Living, Asking):
    def __init__(self, life: list[str]) -> None:
        Asking.__init__(self)
        Living.__init__(self, life, "model")

    async def aclose(self) -> None:
        self._life.append("model closed")


class LivingAudit(Living, Audit):
    def __init__(self, life: list[str]) -> None:
        Audit.__init__(self)
        Living.__init__(self, life, "observer")


async def test_parts_with_a_life_of_their_own_are_left_strictly_last_first_behind_the_turns_end(tmp_path: Path) -> None:
    life: list[str] = []
    parts: dict[str, Any] = {
        "store": LivingStore(life),
        "tools": [LivingTool(life, "first"), LivingTool(life, "greet")],
        "open_model": lambda _route: LivingModel(life),
        "observers": [LivingAudit(life)],
    }
    with anyio.fail_after(10):
        async with open_runtime(config(), **parts) as runtime:
            session = await runtime.new_session(str(tmp_path))
            assert life == ["+observer", "+store", "+first", "+greet"]
            async with session.prompt("Greet.") as turn:
                _ = [item async for item in turn]
            life.append("end")
    entered = ["+observer", "+store", "+first", "+greet", "+model"]
    assert life == [*entered, "end", "model closed", "-model", "-greet", "-first", "-store", "-observer"]


async def test_a_part_that_cannot_be_set_up_is_named_and_the_others_are_left(tmp_path: Path) -> None:
    life: list[str] = []
    failing = LivingTool(life, "second", enter=ConnectionError("refused"))
    with pytest.raises(ConfigError, match="the tool 'LivingTool' could not be set up: ConnectionError: refused"):
        async with open_runtime(config(), store=LivingStore(life), tools=[LivingTool(life, "first"), failing]):
            raise AssertionError("it was composed")
    assert life == ["+store", "+first", "+second", "-first", "-store"]


async def test_a_part_that_cannot_be_left_keeps_no_other_from_it_and_is_named(tmp_path: Path) -> None:
    life: list[str] = []
    tools = [LivingTool(life, "first"), LivingTool(life, "second", leave=OSError("stuck"))]
    with pytest.raises(ExceptionGroup) as caught:
        async with open_runtime(config(), store=LivingStore(life), tools=tools):
            life.clear()
    assert life == ["-second", "-first", "-store"]
    [error] = [leaf for leaf in _leaves(caught.value) if isinstance(leaf, OSError)]
    assert error.__notes__ == ["the tool 'LivingTool' failed while it was left"]


async def test_a_part_that_ends_the_program_while_it_is_set_up_is_named_as_one_that_failed(tmp_path: Path) -> None:
    life: list[str] = []
    failing = LivingTool(life, "second", enter=SystemExit(2))
    with pytest.raises(ConfigError, match=r"the tool 'LivingTool' could not be set up: .*it called sys.exit\(2\)"):
        async with open_runtime(config(), store=LivingStore(life), tools=[failing]):
            raise AssertionError("it was composed")
    assert life == ["+store", "+second", "-store"]


async def test_a_part_that_ends_the_program_while_it_is_left_keeps_no_other_from_it(tmp_path: Path) -> None:
    life: list[str] = []
    with pytest.raises(ExceptionGroup) as caught:
        async with open_runtime(config(), store=LivingStore(life), tools=[LivingTool(life, "x", leave=SystemExit(0))]):
            life.clear()
    assert life == ["-x", "-store"]
    [error] = [leaf for leaf in _leaves(caught.value) if isinstance(leaf, RuntimeError)]
    assert (str(error), error.__notes__) == (
        "it called sys.exit(0)",
        ["the tool 'LivingTool' failed while it was left"],
    )


def _leaves(exc: BaseException) -> Iterator[BaseException]:
    if isinstance(exc, BaseExceptionGroup):
        for inner in exc.exceptions:
            yield from _leaves(inner)
    else:
        yield exc


async def test_an_end_without_end_is_cut_off_and_the_rest_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Endless(LivingTool):
        async def __aexit__(self, *exc: object) -> None:
            try:
                await anyio.sleep_forever()
            finally:
                self._tasks.cancel_scope.cancel()
                await self._tasks.__aexit__(None, None, None)

    monkeypatch.setattr("acp_bridge.headless.runtime.CLOSE_S", 0.4)
    life: list[str] = []
    with anyio.fail_after(5), pytest.raises(BaseExceptionGroup) as caught:
        async with open_runtime(config(), store=LivingStore(life), tools=[Endless(life, "endless")]):
            pass
    assert any(
        "the tool 'Endless' was not done in time while it was left" in str(leaf) for leaf in _leaves(caught.value)
    )
    assert life[-1] == "-store"


async def test_a_part_that_does_not_get_ready_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(LivingTool):
        async def __aenter__(self) -> Any:
            await anyio.sleep_forever()

    monkeypatch.setattr("acp_bridge.composition.ENTER_S", 0.05)
    with anyio.fail_after(5), pytest.raises(ConfigError, match="not done in time while it was set up"):
        async with open_runtime(config(), tools=[Slow([])]):
            raise AssertionError("it was composed")
