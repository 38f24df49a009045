"""What `tests/e2e` leaves out with the official Python SDK: a cancel, and a load of a session with tools in it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import acp
import anyio
import anyio.to_thread
import pytest
from acp.schema import AllowedOutcome, ClientCapabilities, RequestPermissionResponse, ToolCallProgress, ToolCallStart
from clients.conftest import Desk
from support.processes import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the SDK is bound to it


@dataclass
class Editor:
    """Allows everything, and keeps the cards."""

    cards: list[Any] = field(default_factory=list[Any])

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **kwargs: Any) -> Any:
        option = next(option for option in options if option.kind == "allow_once")
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option.option_id))

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        if isinstance(update, ToolCallStart | ToolCallProgress):
            self.cards.append(update)

    def on_connect(self, conn: Any) -> None:
        """Nothing to prepare."""


@asynccontextmanager
async def connected(desk: Desk, editor: Editor) -> AsyncGenerator[Any]:
    with anyio.fail_after(20):
        async with acp.spawn_agent_process(editor, *desk.command, env=desk.environment) as (agent, process):  # pyright: ignore[reportArgumentType]
            await agent.initialize(protocol_version=1, client_capabilities=ClientCapabilities())
            yield agent
        assert process.returncode == 0


async def test_a_cancelled_command_is_cancelled_and_its_session_loads(desk: Desk) -> None:
    """R71, R74, R44: cancelled while a command runs; the next process shows the call as failed, with why."""
    editor = Editor()
    async with connected(desk, editor) as agent:
        session = (await agent.new_session(cwd=str(desk.folder), mcp_servers=[])).session_id
        async with anyio.create_task_group() as turn:

            async def cancel() -> None:
                await anyio.to_thread.run_sync(eventually, lambda: desk.begun, "the command's beginning")
                await agent.cancel(session_id=session)

            turn.start_soon(cancel)
            response = await agent.prompt(session_id=session, prompt=[acp.text_block("sleep")])
            assert response.stop_reason == "cancelled"
    again = Editor()
    async with connected(desk, again) as agent:
        await agent.load_session(session_id=session, cwd=str(desk.folder), mcp_servers=[])
        response = await agent.prompt(session_id=session, prompt=[acp.text_block("go on")])
        assert response.stop_reason == "end_turn"
    [card] = again.cards
    assert (card.title, card.status) == ("touch begun; exec sleep 600", "failed")
    assert card.content[0].content.text.startswith("It was stopped after it had begun")
