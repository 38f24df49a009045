"""How hard a model thinks: an option of the session, stored, checked under every front, and told to the model."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from support.insisting import ANTHROPIC
from support.server import serving, sse

from acp_bridge.config import Config, load
from acp_bridge.errors import ConfigError
from acp_bridge.headless import open_runtime
from acp_bridge.session import RequestHeader

pytestmark = pytest.mark.anyio

CLAUDE = "anthropic:claude-sonnet-4-5"


def config(home: Path, url: str, text: str = "") -> Config:
    (home / "config.toml").write_text(text)
    environ = {"ANTHROPIC_API_KEY": "sk-none-0123456789", "ANTHROPIC_BASE_URL": url, "ACP_BRIDGE_HOME": str(home)}
    return load({**environ, "ACP_BRIDGE_CONFIG": str(home / "config.toml")}, {"model": CLAUDE})


async def asked(home: Path, text: str = "", level: str = "", *, again: bool = False) -> tuple[list[Any], list[Any]]:
    """Prompt a session, after a load too if `again`: what was asked for of thought, and the headers' options."""
    answer = [*ANTHROPIC.start(), *ANTHROPIC.text("a"), *ANTHROPIC.end()]
    with anyio.fail_after(20):
        async with serving([sse(*answer)], repeat_last=True) as server:
            async with open_runtime(config(home, server.url, text)) as runtime:
                session = await runtime.new_session(str(home))
                if level:
                    await session.configure("thought_level", level)
                async with session.prompt("Hi.") as turn:
                    _ = [happened async for happened in turn]
                records = session.records
            if again:
                async with open_runtime(config(home, server.url, text)) as runtime:
                    session = await runtime.resume_session(session.id)
                    async with session.prompt("Hi.") as turn:
                        _ = [happened async for happened in turn]
        sent = [request.json.get("thinking") for request in server.requests]
    return sent, [record.event.options for record in records if isinstance(record.event, RequestHeader)]


async def test_a_model_that_can_think_is_asked_to_unless_it_is_told_not_to(tmp_path: Path) -> None:
    assert await asked(tmp_path) == ([{"type": "enabled", "budget_tokens": 10_240}], [{}])
    assert await asked(tmp_path, level="off") == ([None], [{"thought_level": "off"}])


async def test_the_level_of_a_session_is_logged_and_holds_after_a_load(tmp_path: Path) -> None:
    sent, options = await asked(tmp_path, level="high", again=True)
    assert (sent, options) == ([{"type": "enabled", "budget_tokens": 24_576}] * 2, [{"thought_level": "high"}])


async def test_the_configured_level_holds_unless_the_session_says_otherwise(tmp_path: Path) -> None:
    text = f'[models."{CLAUDE}"]\nthinking = "low"\n'
    assert (await asked(tmp_path, text))[1] == [{"thought_level": "low"}]
    assert (await asked(tmp_path, text, "high"))[1] == [{"thought_level": "high"}]


async def test_a_level_that_the_model_does_not_take_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    async with open_runtime(config(tmp_path, "http://127.0.0.1:1")) as runtime:
        session = await runtime.new_session(str(tmp_path))
        before = session.records
        with pytest.raises(ConfigError, match="there are default, off, low, medium, high"):
            await session.configure("thought_level", "hard")
        assert session.records == before
