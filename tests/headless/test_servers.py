"""Servers of tools in sessions without an editor: from the configuration, and named by the program."""

import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

from acp_bridge.config import load
from acp_bridge.errors import ConfigError
from acp_bridge.headless import open_runtime
from acp_bridge.llm import Delta, Finished, TextDelta, ToolDelta
from acp_bridge.session import ModelRequest, ToolResult
from acp_bridge.tools import Choice, Question, ServerSpec

SERVER = Path(__file__).parent.parent / "tools" / "mcp" / "servers" / "official.py"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the servers' SDK is bound to it


class Model:
    """Calls the first tool of a server that it is offered."""

    context_window = None
    takes_images = False

    def __init__(self) -> None:
        self.offered: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        if not self.offered:
            self.offered = [str(tool["name"]) for tool in request.tools if str(tool["name"]).startswith("mcp__")]
            yield ToolDelta(0, "mcp__mine__add", '{"a": 20, "b": 22}')
            yield Finished("tools")
        else:
            yield TextDelta("Done.")
            yield Finished("end")

    async def aclose(self) -> None:
        pass


async def allow(question: Question) -> Choice:
    del question
    return Choice("allow_once")


def configured(tmp_path: Path, text: str) -> dict[str, str]:
    (tmp_path / "config.toml").write_text(text)
    home = str(tmp_path / "home")
    return {"ACP_BRIDGE_CONFIG": str(tmp_path / "config.toml"), "ACP_BRIDGE_HOME": home, "ACP_BRIDGE_MODEL": "demo"}


@pytest.mark.parametrize("by", ["configuration", "program"])
async def test_a_session_without_an_editor_has_the_servers_that_are_named_for_it(tmp_path: Path, by: str) -> None:
    table = f'[mcp_servers.mine]\ncommand = "{sys.executable}"\nargs = ["{SERVER}"]\n'
    config = load(configured(tmp_path, table if by == "configuration" else ""))
    spec = ServerSpec(name="mine", command=sys.executable, args=(str(SERVER),))
    model = Model()
    with anyio.fail_after(20):
        async with open_runtime(config, open_model=lambda _route: model) as runtime:
            servers = (spec,) if by == "program" else ()
            session = await runtime.new_session(str(tmp_path), permit=allow, servers=servers)
            async with session.prompt("use it") as turn:
                async for _ in turn:
                    pass
            results = [record.event for record in session.records if isinstance(record.event, ToolResult)]
            await session.close()
    assert "mcp__mine__add" in model.offered
    [result] = results
    assert "42" in str(result.content)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[mcp_servers.mine]\n", "must have a command"),
        ("[mcp_servers]\nmine = 1\n", "must be a table of settings for a server of tools"),
        ('[mcp_servers.mine]\ncommand = "x"\nargs = [1]\n', "args in .* must be a list of texts"),
        ('[mcp_servers.mine]\ncommand = "x"\nenv = {A = 1}\n', "env in .* must be a table of texts"),
        ('[mcp_servers.mine]\ncommand = "x"\nenv = 3\n', "env in .* must be a table of texts"),
        ('[mcp_servers.mine]\ncomand = "x"\n', "the nearest is 'command'"),
    ],
)
def test_a_server_that_is_described_wrongly_is_refused_by_name(tmp_path: Path, table: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load(configured(tmp_path, table))
