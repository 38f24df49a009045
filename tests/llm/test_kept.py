"""What a provider gave with an answer comes back to it: in the turn, in the next, after a load, after a kill."""

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from support.insisting import NAMES, Insisting, InsistingAnthropic, insisting
from support.server import Reply, Request, Server, serving

from acp_bridge.config import load
from acp_bridge.headless import Runtime, Session, open_runtime

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # what is kept is no matter of the event loop


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


class Provider:
    """The provider of a test, behind its server; `on_request` is told of each request first."""

    def __init__(self) -> None:
        self.insists: Insisting | InsistingAnthropic | None = None
        self.requests = 0
        self.copy: tuple[int, Path, Path] | None = None

    def reply(self, request: Request) -> Reply:
        assert self.insists is not None
        self.requests += 1
        if self.copy is not None and self.copy[0] == self.requests:
            shutil.copytree(self.copy[1], self.copy[2])  # what is on disk now is what a kill would leave
        return self.insists.reply(request)


@asynccontextmanager
async def provided(name: str) -> AsyncGenerator[tuple[Provider, Server]]:
    provider = Provider()
    with anyio.fail_after(30):
        async with serving(provider.reply) as server:
            provider.insists = insisting(name, server.url)
            yield provider, server


@asynccontextmanager
async def runtime(provider: Provider, home: Path) -> AsyncGenerator[Runtime]:
    assert provider.insists is not None
    family = provider.insists.route.partition(":")[0]
    environ = {**provider.insists.environ, "ACP_BRIDGE_HOME": str(home), "XDG_CONFIG_HOME": str(home / "none")}
    config = load(environ, {"model": provider.insists.route, "models": [f"{family}:another"]})
    async with open_runtime(config) as opened:
        yield opened


async def prompt(session: Session) -> None:
    async with session.prompt("Look.") as turn:
        async for _ in turn:
            pass
    assert turn.outcome is not None
    assert turn.outcome.reason == "completed", turn.outcome


def checked(provider: Provider, requests: int) -> None:
    assert provider.insists is not None
    assert provider.insists.asked == [""] * requests


async def test_what_came_with_an_answer_comes_back_in_the_turn_in_the_next_and_after_a_load(
    name: str, tmp_path: Path
) -> None:
    async with provided(name) as (provider, _):
        async with runtime(provider, tmp_path / "home") as opened:
            session = await opened.new_session(str(tmp_path))
            await prompt(session)
            await prompt(session)
        async with runtime(provider, tmp_path / "home") as opened:
            session = await opened.resume_session(session.id)
            await prompt(session)
        checked(provider, 6)


async def test_what_came_with_an_answer_comes_back_after_a_kill(name: str, tmp_path: Path) -> None:
    async with provided(name) as (provider, _):
        provider.copy = (4, tmp_path / "home", tmp_path / "killed")  # the second turn, at its second request
        async with runtime(provider, tmp_path / "home") as opened:
            session = await opened.new_session(str(tmp_path))
            await prompt(session)
            await prompt(session)
        async with runtime(provider, tmp_path / "killed") as opened:
            session = await opened.resume_session(session.id)
            async with session.resume() as turn:
                async for _happened in turn:
                    pass
        assert turn.outcome is not None
        assert turn.outcome.reason == "completed", turn.outcome
        checked(provider, 5)


async def test_no_other_route_is_sent_what_came_with_an_answer(name: str, tmp_path: Path) -> None:
    async with provided(name) as (provider, _):
        async with runtime(provider, tmp_path / "home") as opened:
            session = await opened.new_session(str(tmp_path))
            await prompt(session)
            own = opened.assembly.route
            await session.configure("model", f"{own.partition(':')[0]}:another")
            await prompt(session)
        checked(provider, 3)
