"""The installed command, driven by the official SDK's client, which validates what it reads."""

import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import acp
import anyio
import pytest
from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    RequestPermissionResponse,
    ToolCallProgress,
    ToolCallStart,
    UserMessageChunk,
)
from support.client import clean_environment
from support.script import say, use, use_all, written

COMMAND = str(Path(sys.executable).with_name("acp-bridge"))

SCRIPT = (
    use_all(
        ("edit_file", {"path": "greeting.txt", "old_text": "hello", "new_text": "good day"}),
        ("run_command", {"command": "cat greeting.txt > copied.txt"}),
        when="change and run",
        text="I do both.",
    ),
    use("run_command", command="cat greeting.txt > copied.txt", when="run only"),
    say("Hello from the script.", when="say hello"),
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the SDK is bound to it


@dataclass
class Editor:
    """What an editor does: answers questions by the kind of the option, and keeps what it is shown, in order."""

    kind: str = "allow_once"
    seen: list[Any] = field(default_factory=list[Any])
    told: anyio.Event = field(default_factory=anyio.Event)

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **kwargs: Any) -> Any:
        self.seen.append(("asked", tool_call.tool_call_id, [option.kind for option in options]))
        option = next((option for option in options if option.kind == self.kind), None)
        if option is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option.option_id))

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.seen.append(update)
        self.told.set()
        self.told = anyio.Event()

    def on_connect(self, conn: Any) -> None:
        """Nothing to prepare."""

    def card(self, call: str) -> list[str]:
        """Return what was shown of a call, by its place in the model's answer: statuses and the question."""
        shown: list[str] = []
        for item in self.seen:
            match item:
                case ("asked", str() as call_id, _) if call_id.endswith(call):
                    shown.append("asked")
                case ToolCallStart() | ToolCallProgress() if item.tool_call_id.endswith(call):
                    shown.append(str(item.status))
                case _:
                    pass
        return shown

    def said(self) -> str:
        """Return the agent's words."""
        return "".join(item.content.text for item in self.seen if isinstance(item, AgentMessageChunk))

    async def until(self, there: Callable[[], bool]) -> None:
        """Wait until something has been shown: the SDK handles updates in tasks of their own."""
        with anyio.fail_after(5):
            while not there():
                await self.told.wait()


@asynccontextmanager
async def connected(tmp_path: Path, editor: Editor) -> AsyncGenerator[Any]:
    script = written(tmp_path / "script.json", *SCRIPT)
    environment = clean_environment(tmp_path / "home", f"scripted:{script}")
    with anyio.fail_after(20):
        async with acp.spawn_agent_process(editor, COMMAND, "serve", env=environment) as (agent, process):  # pyright: ignore[reportArgumentType]
            await agent.initialize(protocol_version=1, client_capabilities=ClientCapabilities())
            yield agent
        assert process.returncode == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "greeting.txt").write_text("hello\n")
    return work


async def test_an_edit_and_a_command_with_permission_are_done_and_shown_in_order(tmp_path: Path, folder: Path) -> None:
    """R55, R61, R64: pending → permission → in_progress → completed; diff shown; file changed."""
    editor = Editor("allow_once")
    async with connected(tmp_path, editor) as agent:
        session = await agent.new_session(cwd=str(folder), mcp_servers=[])
        response = await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("change and run")])
        assert response.stop_reason == "end_turn"
        await editor.until(lambda: editor.said().endswith("Done."))
    assert (folder / "copied.txt").read_text() == "good day\n"
    for call in "12":  # each in this order; a result may be shown a moment later than the next question
        assert editor.card(call) == ["pending", "asked", "in_progress", "completed"]
    [done] = [
        item
        for item in editor.seen
        if isinstance(item, ToolCallProgress) and item.content and item.content[0].type == "diff"
    ]
    assert done.content is not None
    diff = done.content[0]
    assert (diff.path, diff.old_text, diff.new_text) == (str(folder / "greeting.txt"), "hello\n", "good day\n")
    assert editor.said() == "I do both.Done."


async def test_what_is_refused_is_not_done_and_the_turn_goes_on(tmp_path: Path, folder: Path) -> None:
    """R83: rejected: nothing changed, the model told, the turn goes on to its end."""
    editor = Editor("reject_once")
    async with connected(tmp_path, editor) as agent:
        session = await agent.new_session(cwd=str(folder), mcp_servers=[])
        response = await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("change and run")])
        assert response.stop_reason == "end_turn"
        await editor.until(lambda: editor.said().endswith("Done."))
    assert (folder / "greeting.txt").read_text() == "hello\n"
    assert not (folder / "copied.txt").exists()
    assert editor.card("1") == editor.card("2") == ["pending", "asked", "failed"]


async def test_a_dismissed_question_cancels_the_turn(tmp_path: Path, folder: Path) -> None:
    """R73: outcome cancelled → the prompt ends cancelled, nothing is run."""
    editor = Editor("none of these")
    async with connected(tmp_path, editor) as agent:
        session = await agent.new_session(cwd=str(folder), mcp_servers=[])
        response = await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("run only")])
        assert response.stop_reason == "cancelled"
    assert not (folder / "copied.txt").exists()


@pytest.mark.cold_start
async def test_a_session_is_listed_loaded_and_resumed_by_the_next_process(tmp_path: Path, folder: Path) -> None:
    """R44, R46, R47, R49: list, load and resume after a restart, as the SDK sees them."""
    async with connected(tmp_path, Editor()) as agent:
        session = await agent.new_session(cwd=str(folder), mcp_servers=[])
        await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("say hello")])
    editor = Editor()
    async with connected(tmp_path, editor) as agent:
        listed = await agent.list_sessions(cwd=str(folder))
        assert [(entry.session_id, entry.title) for entry in listed.sessions] == [(session.session_id, "say hello")]
        await agent.load_session(session_id=session.session_id, cwd=str(folder), mcp_servers=[])
        await editor.until(lambda: bool(editor.said()))
        assert [item.content.text for item in editor.seen if isinstance(item, UserMessageChunk)] == ["say hello"]
        await agent.set_session_mode(session_id=session.session_id, mode_id="plan")
        changed = await agent.set_config_option(session_id=session.session_id, config_id="mode", value="ask")
        assert [option.id for option in changed.config_options] == ["mode", "model"]
        await agent.close_session(session_id=session.session_id)
        resumed = await agent.resume_session(session_id=session.session_id, cwd=str(folder), mcp_servers=[])
        assert resumed.modes.current_mode_id == "ask"


async def test_what_the_agent_refuses_is_an_error_that_the_sdk_understands(tmp_path: Path) -> None:
    """R48: -32002 with the session's id, and -32602 for a relative cwd."""
    async with connected(tmp_path, Editor()) as agent:
        with pytest.raises(acp.RequestError) as unknown:
            await agent.load_session(session_id="unknown", cwd=os.sep, mcp_servers=[])
        with pytest.raises(acp.RequestError) as relative:
            await agent.new_session(cwd="relative", mcp_servers=[])
    assert isinstance(unknown.value.data, dict)
    assert (unknown.value.code, unknown.value.data["sessionId"]) == (-32002, "unknown")
    assert relative.value.code == -32602
