"""Somebody else's code lets a cancellation out that nobody asked for: a failure of its own, and nobody else's end."""

import asyncio  # noqa: TID251  only its cancellation can be let out by mistake
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio
import pytest
from support.parts import Asking, Greet, config

from acp_bridge.checkpoint import CheckpointPolicy
from acp_bridge.content import JsonObject
from acp_bridge.effects import flatten_exceptions
from acp_bridge.errors import BarrierFailed, ConfigError, StoreError
from acp_bridge.headless import Runtime, Session, open_runtime
from acp_bridge.llm import Delta, Finished, TextDelta, ToolDelta
from acp_bridge.session import Durable, ModelRequest, ToolResult
from acp_bridge.session.store import SessionFilter
from acp_bridge.storage import MemoryStore
from acp_bridge.tools import Access, Call, Choice, Question, ToolOutput

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # trio's own cancellation cannot be let out by mistake


async def stray() -> None:
    """Await what was given up."""
    given_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    given_up.cancel()
    await given_up


async def said(session: Session) -> str:
    """Return how a turn ended, and why."""
    async with session.prompt("Greet.") as turn:
        _ = [item async for item in turn]
    assert turn.outcome is not None
    return f"{turn.outcome.reason} {turn.outcome.failure.message if turn.outcome.failure else ''}".strip()


def results(session: Session) -> list[str]:
    return [record.event.code or "" for record in session.records if isinstance(record.event, ToolResult)]


class Once:
    """Lets one out at the first call that a test allows."""

    armed = False

    async def __call__(self) -> None:
        if self.armed:
            self.armed = False
            await stray()


@pytest.fixture
def let_out() -> Once:
    return Once()


class Model(Asking):
    """Speaks, and lets one out before it does or in the middle."""

    def __init__(self, before: Callable[[], Awaitable[None]], middle: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._before, self._middle = before, middle

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        await self._before()
        yield TextDelta("Hello")
        await self._middle()
        yield Finished("end")


class Policy(CheckpointPolicy):
    """Lets one out at one barrier."""

    METHODS = MappingProxyType(
        {"request": "before_request", "tool": "before_tool", "turn": "after_turn", "answer": "before_answer"}
    )

    def __init__(self, kind: str, let_out: Once) -> None:
        super().__init__()

        async def wait(journal: Durable) -> None:
            await let_out()
            await getattr(CheckpointPolicy, self.METHODS[kind])(self, journal)

        setattr(self, self.METHODS[kind], wait)


async def in_company(
    let_out: Once, folder: Path, body: Callable[[Runtime, Session], Awaitable[None]], **parts: Any
) -> None:
    """Have one session meet it, and look how it and another one go on."""
    parts = {"open_model": lambda _route: Asking(), "tools": [Greet()], **parts}
    with anyio.fail_after(10):
        async with open_runtime(config(mode="full"), **parts) as runtime:
            other = await runtime.new_session(str(folder))
            session = await runtime.new_session(str(folder))
            let_out.armed = True
            await body(runtime, session)
            assert not let_out.armed, "it was not met"
            assert await said(other) == "completed"
            assert await said(session) == "completed"


@pytest.mark.parametrize("place", ["before", "middle"])
async def test_of_a_model(place: str, let_out: Once, tmp_path: Path) -> None:
    async def body(_runtime: Runtime, session: Session) -> None:
        assert "error the model 'demo' failed inside: StrayCancellation" in await said(session)

    async def nothing() -> None:
        pass

    model = Model(**{"before": nothing, "middle": nothing, place: let_out})
    await in_company(let_out, tmp_path, body, open_model=lambda _route: model)


@pytest.mark.parametrize("kind", ["request", "tool", "turn"])
async def test_of_a_policy_in_a_turn(kind: str, let_out: Once, tmp_path: Path) -> None:
    async def body(_runtime: Runtime, session: Session) -> None:
        assert f"failed at the {kind} barrier" in await said(session)

    await in_company(let_out, tmp_path, body, policy=Policy(kind, let_out))


async def test_of_a_policy_at_a_change(let_out: Once, tmp_path: Path) -> None:
    async def body(_runtime: Runtime, session: Session) -> None:
        with pytest.raises(BarrierFailed, match="failed at the answer barrier"):
            await session.configure("mode", "edit")

    await in_company(let_out, tmp_path, body, policy=Policy("answer", let_out))


@pytest.mark.parametrize("method", ["create", "hold", "read", "list"])
async def test_of_a_store(method: str, let_out: Once, tmp_path: Path) -> None:
    store = MemoryStore()
    sound = getattr(store, method)

    async def broken(*args: Any, **more: Any) -> Any:
        await let_out()
        return await sound(*args, **more)

    async def body(runtime: Runtime, session: Session) -> None:
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "create": lambda: runtime.new_session(str(tmp_path)),
            "hold": lambda: runtime.resume_session(session.id, cwd=str(tmp_path)),
            "read": lambda: runtime.sessions.store.read(session.id),
            "list": lambda: runtime.sessions.store.list(SessionFilter()),
        }
        if method == "hold":
            spare = await runtime.new_session(str(tmp_path))
            await spare.close()
            calls["hold"] = lambda: runtime.resume_session(spare.id, cwd=str(tmp_path))
        with pytest.raises(StoreError, match=rf"the store 'MemoryStore' failed in {method}\(\)"):
            await calls[method]()

    setattr(store, method, broken)
    await in_company(let_out, tmp_path, body, store=store)


async def test_of_a_stores_write(let_out: Once, tmp_path: Path) -> None:
    async def body(runtime: Runtime, session: Session) -> None:
        held: Any = runtime.sessions.get(session.id)
        sound = held.held.inner.append

        async def broken(records: Any) -> Any:
            await let_out()
            return await sound(records)

        held.held.inner.append = broken
        assert "error" in await said(session)

    await in_company(let_out, tmp_path, body, store=MemoryStore())


class Twice(Asking):
    """Asks for two calls in one answer, then says that it is done."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.requests.append(request)
        if len(self.requests) % 2:
            for place in range(2):
                yield ToolDelta(place, "greet", "{}")
            yield Finished("tools")
        else:
            yield TextDelta("Done.")
            yield Finished("end")


class Tool(Greet):
    """Lets one out in its body."""

    def __init__(self, let_out: Once, **of_spec: Any) -> None:
        super().__init__(**of_spec)
        self._let_out = let_out

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        await self._let_out()
        return await super().run(arguments, call)


async def test_of_a_tool_in_company_of_another_call(let_out: Once, tmp_path: Path) -> None:
    async def body(_runtime: Runtime, session: Session) -> None:
        assert await said(session) == "completed"
        assert sorted(results(session)) == ["", "FAILED"]

    tool = Tool(let_out, parallel=True)
    await in_company(let_out, tmp_path, body, tools=[tool], open_model=lambda _route: Twice())


class Heedless(Tool):
    """Takes no notice of being cancelled, and then lets one out."""

    def __init__(self, let_out: Once) -> None:
        super().__init__(let_out, parallel=True)
        self.begun = anyio.Event()

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        self.begun.set()
        if self._let_out.armed:
            with contextlib.suppress(asyncio.CancelledError):
                await anyio.sleep_forever()
        return await super().run(arguments, call)


async def test_of_a_tool_that_was_stopped(let_out: Once, tmp_path: Path) -> None:
    tool = Heedless(let_out)

    async def body(_runtime: Runtime, session: Session) -> None:
        async with session.prompt("Greet.") as turn:
            await tool.begun.wait()
        assert turn.outcome is not None
        assert turn.outcome.reason == "cancelled"
        assert "ABORTED" in results(session)

    await in_company(let_out, tmp_path, body, tools=[tool], open_model=lambda _route: Twice())


async def test_of_who_is_asked(let_out: Once, tmp_path: Path) -> None:
    async def permit(_question: Question) -> Choice:
        await let_out()
        return Choice("allow_once")

    async def body(runtime: Runtime, _session: Session) -> None:
        asking = await runtime.new_session(str(tmp_path), permit=permit)
        await asking.configure("mode", "ask")
        assert "error" in await said(asking)
        assert len(results(asking)) == 2

    tool = Greet({"access": lambda: Access(kind="execute")}, parallel=True)
    await in_company(let_out, tmp_path, body, tools=[tool], open_model=lambda _route: Twice())


class Living(MemoryStore):
    """Lets one out while it is entered or left."""

    def __init__(self, let_out: Once, at: str) -> None:
        super().__init__()
        self._let_out, self._at = let_out, at

    async def __aenter__(self) -> None:
        if self._at == "set up":
            await self._let_out()

    async def __aexit__(self, *_exc: object) -> None:
        if self._at == "left":
            await self._let_out()


@pytest.mark.parametrize("at", ["set up", "left"])
async def test_of_a_part_that_is_entered_and_left(at: str, let_out: Once) -> None:
    let_out.armed = True
    with anyio.fail_after(10):
        with pytest.raises((ConfigError, ExceptionGroup)) as caught:
            async with open_runtime(config(), store=Living(let_out, at)):
                pass
    [failure] = flatten_exceptions(caught.value)
    assert "Living" in f"{failure} {failure.__notes__}"
    assert "StrayCancellation" in repr(failure) + str(failure)
