"""The installed command, driven by PyPI's `acp-client`: a small library for one session, with nothing of its own.

It hands updates on as they are. It tells its user no stop reason, shows none of an error but its code, and its way to
turn a question down is to dismiss it, which ends the turn; to refuse a call and go on, an option has to be chosen.
"""

import importlib
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from clients.conftest import Desk
from support.installed import ACP_CLIENT, from_pypi

pytestmark = pytest.mark.slow

Permission = Callable[[dict[str, Any]], Awaitable[str | None]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the library is bound to it


@pytest.fixture(scope="module")
def library() -> Any:
    [modules] = (from_pypi(ACP_CLIENT) / "lib").glob("python*/site-packages")
    sys.path.append(str(modules))
    try:
        return importlib.import_module("acp_client")
    finally:
        sys.path.remove(str(modules))


Connect = Callable[..., Any]


@pytest.fixture
def connect(library: Any, desk: Desk) -> Connect:
    """Opens the library's agent, and ends it as the library does: with SIGTERM."""

    @asynccontextmanager
    async def connecting(**more: Any) -> AsyncGenerator[Any]:
        agent = library.Agent(list(desk.command_line()), desk.folder, **more)
        with anyio.fail_after(20):
            try:
                yield agent
            finally:
                process = agent.process
                await agent.stop()
        assert process is None or process.returncode in (0, 143, -15), process.returncode

    return connecting


def choosing(kind: str | None) -> Permission:
    async def permission(request: dict[str, Any]) -> str | None:
        return next((option["optionId"] for option in request["options"] if option["kind"] == kind), None)

    return permission


def settled(updates: list[dict[str, Any]], call: str) -> str:
    """Return the last status shown of a call, by its place in the model's answer."""
    return [update["status"] for update in updates if update.get("toolCallId", "").endswith(call)][-1]


async def test_an_answer_with_permission_is_whole_and_its_updates_arrive(connect: Connect, desk: Desk) -> None:
    """The words as they grow, the cards, the plan; the edit and the command are done."""
    updates: list[dict[str, Any]] = []
    grown: list[str] = []
    async with connect(permission=choosing("allow_once")) as agent:
        assert await agent.ask("change and run", grown.append, updates.append) == "I do both.One."
    assert grown == ["I do both.", "I do both.One."]
    assert (desk.greeting, desk.copied) == ("good day\n", True)
    assert [settled(updates, call) for call in ("_2", "_3", "_4")] == ["completed"] * 3
    assert [update["entries"] for update in updates if update["sessionUpdate"] == "plan"] != []


async def test_an_option_that_rejects_lets_the_turn_go_on(connect: Connect, desk: Desk) -> None:
    updates: list[dict[str, Any]] = []
    async with connect(permission=choosing("reject_once")) as agent:
        assert await agent.ask("change and run", None, updates.append) == "I do both.One."
    assert (desk.greeting, desk.copied) == ("hello\n", False)
    assert settled(updates, "_3") == settled(updates, "_4") == "failed"


async def test_a_question_turned_down_ends_the_turn_and_not_the_session(connect: Connect, desk: Desk) -> None:
    """What the library does with no handler: it dismisses. The answer is what was said before, with no word of why."""
    async with connect() as agent:
        assert await agent.ask("change and run") == "I do both."
        assert (desk.greeting, desk.copied) == ("hello\n", False)
        assert await agent.ask("go on") == "One."


async def test_a_cancelled_answer_is_what_was_said_so_far(connect: Connect) -> None:
    """`cancel()` in the middle of the model's words; the next question is answered as ever."""
    async with connect() as agent:
        assert await agent.ask("stream", lambda _: agent.cancel()) == "I begin"
        assert await agent.ask("go on") == "One."


async def test_a_session_is_carried_on_by_the_next_process(connect: Connect) -> None:
    """`Agent(session=…)` loads: what was said comes again, and the model still has it."""
    async with connect() as agent:
        assert await agent.ask("first") == "One."
        session = agent.session
    told: list[dict[str, Any]] = []
    async with connect(session=session) as agent:
        await agent.start(told.append)
        assert agent.session == session
        spoken = [(each["sessionUpdate"], each["content"]["text"]) for each in told if "content" in each]
        assert spoken == [("user_message_chunk", "first"), ("agent_message_chunk", "One.")]
        assert await agent.ask("second") == "Two."


async def test_an_error_is_the_librarys_own_and_leaves_the_session(library: Any, connect: Connect) -> None:
    """It knows a refused key for a login that is needed, by the word in our message."""
    async with connect() as agent:
        with pytest.raises(library.AgentError, match="needs a login"):
            await agent.ask("fail now")
        assert agent.session is not None
