"""Real servers, written to behave and to misbehave, and the table that they fill."""

import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest

from acp_bridge.content import Text
from acp_bridge.tools import Call, KnownFiles, McpOptions, McpServers, ServerSpec, ToolOutput

from ..conftest import Desk, Marked, NoCommands  # noqa: TID252 - tests are no package to import from

SERVERS = Path(__file__).with_name("servers")


@pytest.fixture
def anyio_backend() -> str:
    """One loop, unless a test says `BOTH`: a server is another process."""
    return "asyncio"


@dataclass
class Bench:
    """Servers that run, and how a test calls their tools."""

    servers: McpServers
    desk: Desk

    @property
    def names(self) -> list[str]:
        return list(self.servers.tools)

    async def use(self, name: str, **arguments: Any) -> ToolOutput:
        tool = self.servers.tools[name]
        call = Call(
            call_id="c1",
            workspace=self.desk.workspace,
            files=KnownFiles(self.desk.files, {}, since_ms=0),
            commands=NoCommands(),
            seen={},
            progress=lambda output: None,
            ask=_nobody,
            key="s1:c1",
        )
        return await tool.run(tool.check(arguments), call)

    async def text(self, name: str, **arguments: Any) -> str:
        output = await self.use(name, **arguments)
        assert len(output.content) == 1
        assert isinstance(output.content[0], Text)
        return output.content[0].text


async def _nobody(question: str, options: tuple[str, ...]) -> Any:
    raise AssertionError(question)


Benched: TypeAlias = Callable[..., AbstractAsyncContextManager[Bench]]
Odd: TypeAlias = Callable[..., ServerSpec]


@pytest.fixture
def odd(marked: Marked, tmp_path: Path) -> Odd:
    def spec(how: str, name: str = "", **env: str) -> ServerSpec:
        args = (str(SERVERS / "odd.py"), how, str(tmp_path / f"{name or how}.journal"))
        return ServerSpec(name=name or how, command=sys.executable, args=args, env={"MARK": marked.token, **env})

    return spec


@pytest.fixture
def bench(desk: Desk, marked: Marked, tmp_path: Path) -> Benched:
    @asynccontextmanager
    async def running(*specs: ServerSpec, wait_s: float = 10, **options: float) -> AsyncGenerator[Bench]:
        servers = McpServers(
            specs,
            env=marked.env,
            cwd=desk.root,
            running=tmp_path / "s1.running",
            options=McpOptions(**{"start_s": 8, **options}),
        )
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tg:
                tg.start_soon(servers.run)
                await servers.ready(wait_s)
                try:
                    yield Bench(servers, desk)
                finally:
                    await servers.aclose()
            assert marked.all_gone_within(2), "a server was left behind"

    return running


def journal(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{name}.journal").read_text().splitlines()]
