"""Who is asked for permission sees what would be done; what cannot be done is asked of nobody."""

from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from support.world import ToldPeer, ToldTool, World, asks

from acp_bridge.config import load
from acp_bridge.content import Diff, JsonObject, ShownBlock, Text
from acp_bridge.headless import open_runtime
from acp_bridge.llm import ScriptedModel
from acp_bridge.llm.script_parser import script_from
from acp_bridge.session import Record, ToolResult
from acp_bridge.tools import Access, Call, Choice, Question


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def asked_and_answered(
    folder: Path, *calls: tuple[str, JsonObject], meanwhile: Any = None
) -> tuple[list[Question], list[ToolResult]]:
    """Let a model make these calls in a folder, allow all, and return the questions and the results."""
    questions: list[Question] = []

    async def permit(question: Question) -> Choice:
        questions.append(question)
        if meanwhile is not None:
            meanwhile()
        return Choice("allow_once")

    tools = [{"name": name, "arguments": arguments} for name, arguments in calls]
    model = ScriptedModel(script_from([{"tools": tools}, {"text": "done"}], "test"))
    (folder.parent / "home").mkdir()
    env = {"ACP_BRIDGE_HOME": str(folder.parent / "home"), "ACP_BRIDGE_MODEL": "demo", "PATH": "/usr/bin:/bin"}
    with anyio.fail_after(20):
        async with open_runtime(load(env), open_model=lambda _route: model) as runtime:
            session = await runtime.new_session(str(folder), permit=permit)
            async with session.prompt("do it") as turn:
                events = [happened.event async for happened in turn if isinstance(happened, Record)]
    return questions, [event for event in events if isinstance(event, ToolResult)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a").write_text("one two three")
    return tmp_path / "work"


async def test_a_question_shows_the_change_that_an_edit_or_a_write_would_make(folder: Path) -> None:
    questions, results = await asked_and_answered(
        folder,
        ("edit_file", {"path": "a", "old_text": "two", "new_text": "2"}),
        ("write_file", {"path": "new", "content": "x\n"}),
        ("run_command", {"command": "true"}),
    )
    assert [question.shown for question in questions] == [
        (Diff(path=str(folder / "a"), old_text="one two three", new_text="one 2 three"),),
        (Diff(path=str(folder / "new"), old_text=None, new_text="x\n"),),
        (),
    ]
    assert [result.is_error for result in results] == [False, False, False]
    assert [result.shown for result in results[:2]] == [question.shown for question in questions[:2]]


async def test_an_edit_that_cannot_work_is_refused_before_anybody_is_asked(folder: Path) -> None:
    questions, results = await asked_and_answered(
        folder,
        ("edit_file", {"path": "a", "old_text": "four", "new_text": "4"}),
        ("write_file", {"path": "a", "content": "x"}),
    )
    assert questions == []
    assert [(result.is_error, result.code) for result in results] == [(True, "FAILED")] * 2
    told = [block.text for result in results for block in result.content if isinstance(block, Text)]
    assert ["not found" in told[0], "read it first" in told[1]] == [True, True]


async def test_what_a_file_outside_holds_is_told_to_nobody_but_who_is_asked(folder: Path) -> None:
    outside = folder.parent / "secret"
    outside.write_text("key")
    questions, results = await asked_and_answered(
        folder,
        ("edit_file", {"path": "../secret", "old_text": "guess", "new_text": "x"}),
        ("edit_file", {"path": "../secret", "old_text": "key", "new_text": "x"}),
    )
    assert [question.shown for question in questions] == [
        (),
        (Diff(path=str(outside), old_text="key", new_text="x"),),
    ]
    assert [result.code for result in results] == ["FAILED", None]


async def test_a_file_that_changes_while_the_question_is_open_is_judged_anew(folder: Path) -> None:
    questions, [result] = await asked_and_answered(
        folder,
        ("edit_file", {"path": "a", "old_text": "two", "new_text": "2"}),
        meanwhile=lambda: (folder / "a").write_text("somebody else's"),
    )
    assert len(questions) == 1
    assert (result.is_error, (folder / "a").read_text()) == (True, "somebody else's")


class Showing(ToldTool):
    """A tool that shows what it would do, or does whatever else a test wants."""

    def __init__(self, shows: Any) -> None:
        super().__init__("showing", access=Access(kind="edit"))
        self._shows = shows

    async def preview(self, arguments: JsonObject, call: Call) -> tuple[ShownBlock, ...]:
        return cast("tuple[ShownBlock, ...]", await self._shows())


async def asked_of(shows: Any) -> tuple[ToldPeer, World]:
    world = World.of([asks("showing"), {"text": "done"}], Showing(shows), mode="ask")
    with anyio.fail_after(5):
        async with world.running():
            await world.prompt()
    return world.peer, world


async def test_a_client_is_asked_with_the_change_as_content() -> None:
    async def shows() -> tuple[ShownBlock, ...]:
        return Diff(path="/work/f", old_text="a", new_text="b"), Text(text="and more")

    peer, _ = await asked_of(shows)
    [question] = peer.questions
    assert question["toolCall"]["content"] == [
        {"type": "diff", "path": "/work/f", "oldText": "a", "newText": "b"},
        {"type": "content", "content": {"type": "text", "text": "and more"}},
    ]


async def test_a_preview_that_fails_inside_costs_only_itself() -> None:
    async def shows() -> tuple[ShownBlock, ...]:
        raise RuntimeError

    peer, world = await asked_of(shows)
    [question] = peer.questions
    assert "content" not in question["toolCall"]
    assert len(world.tools["showing"].entered) == 1


async def test_a_turn_is_cancelled_while_a_preview_is_made() -> None:
    world: World

    async def shows() -> tuple[ShownBlock, ...]:
        world.agent.cancel("client")
        await anyio.sleep_forever()
        return ()

    world = World.of([asks("showing"), {"text": "done"}], Showing(shows), mode="ask")
    with anyio.fail_after(5):
        async with world.running():
            outcome = await world.prompt()
    assert outcome.reason == "cancelled"
    assert world.peer.questions == []
    assert world.of_type("permission/asked") == []
    [result] = world.of_type("tool/result")
    assert result.code == "ABORTED_BEFORE_DISPATCH"
