"""Tools that call tools: under the outer call, its intent and its barrier, and asked about like any other."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.parts import Asking, Greet, config

from acp_bridge.content import JsonObject, Text
from acp_bridge.errors import ToolError
from acp_bridge.headless import Session, allow_nothing, open_runtime
from acp_bridge.limits import NESTED_CALLS
from acp_bridge.session import (
    Event,
    PermissionAsked,
    PermissionDecided,
    PlanUpdated,
    Record,
    ToolCalled,
    ToolResult,
    closers,
)
from acp_bridge.session.log import Log
from acp_bridge.tools import Access, Call, Choice, Question, ToolOutput

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the scopes are the pipeline's, which its own tests hold on both loops


Body = Callable[[Call], Awaitable[ToolOutput]]


class Outer(Greet):
    """A tool whose body a test gives."""

    def __init__(self, body: Body, **of_spec: Any) -> None:
        super().__init__(None, **{"name": "outer", "effect": "write", **of_spec})
        self._body = body

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        return await self._body(call)


def said(text: str) -> ToolOutput:
    return ToolOutput(content=(Text(text=text),))


@asynccontextmanager
async def session_with(
    tmp_path: Path, *tools: Any, permit: Any = allow_nothing, **settings: Any
) -> AsyncGenerator[Session]:
    model = Asking("outer")
    async with open_runtime(config(**settings), tools=tools, open_model=lambda _route: model) as runtime:
        yield await runtime.new_session(str(tmp_path), permit=permit)


async def turn_of(session: Session) -> list[Event]:
    with anyio.fail_after(10):
        async with session.prompt("Go.") as turn:
            events: list[Event] = [item.event async for item in turn if isinstance(item, Record)]
    assert turn.outcome is not None
    assert turn.outcome.reason == "completed"
    return events


def only(kind: type, events: list[Event]) -> Any:
    [event] = [event for event in events if isinstance(event, kind)]
    return event


def allowing(asked: list[Question], option: str = "allow_once") -> Any:
    async def permit(question: Question) -> Choice:
        asked.append(question)
        return Choice(option)

    return permit


async def test_an_inner_call_is_asked_about_and_runs_under_the_outer_ones_intent(tmp_path: Path) -> None:
    asked: list[Question] = []
    outputs: list[ToolOutput] = []

    async def body(call: Call) -> ToolOutput:
        outputs.append(await call.dispatch("write_file", {"path": "a.txt", "content": "Hello\n"}))
        return said("Written.")

    async with session_with(tmp_path, Outer(body), permit=allowing(asked)) as session:
        events = await turn_of(session)
    assert (tmp_path / "a.txt").read_text() == "Hello\n"
    assert not outputs[0].is_error
    [question] = asked
    assert question.call_id == "call_1_1_1"
    assert question.presentation.title.startswith("outer: ")
    assert "a.txt" in question.presentation.title
    assert question.shown != ()
    kinds = [type(event) for event in events if isinstance(event, ToolCalled | PermissionAsked | ToolResult)]
    assert kinds == [ToolCalled, PermissionAsked, ToolResult]
    assert only(ToolCalled, events).name == "outer"
    assert str(tmp_path / "a.txt") in only(ToolResult, events).digests


async def test_an_inner_call_that_is_denied_is_told_to_the_outer_one(tmp_path: Path) -> None:
    outputs: list[ToolOutput] = []

    async def body(call: Call) -> ToolOutput:
        for name, arguments in (
            ("write_file", {"path": "a.txt", "content": ""}),
            ("nope", {}),
            ("read_file", {"path": None}),
            ("read_file", {"path": "none.txt"}),
        ):
            outputs.append(await call.dispatch(name, arguments))
        return said("Tried.")

    async with session_with(tmp_path, Outer(body)) as session:
        await turn_of(session)
    assert [output.code for output in outputs] == ["DENIED", "UNKNOWN_TOOL", "INVALID_ARGUMENTS", "FAILED"]
    assert not (tmp_path / "a.txt").exists()


async def test_plan_mode_holds_inside_a_call(tmp_path: Path) -> None:
    outputs: list[ToolOutput] = []

    async def body(call: Call) -> ToolOutput:
        outputs.append(await call.dispatch("write_file", {"path": "a.txt", "content": ""}))
        return said("Tried.")

    async with session_with(tmp_path, Outer(body), mode="plan", permit=allowing([])) as session:
        await turn_of(session)
    assert outputs[0].code == "DENIED"


@pytest.mark.parametrize(
    ("outer", "inner", "may"),
    [("read", "write_file", False), ("read", "read_file", True), ("idempotent", "run_command", False)],
)
async def test_an_inner_call_does_no_more_than_the_outer_one_says(
    tmp_path: Path, outer: str, inner: str, *, may: bool
) -> None:
    """What recovery tells of a call that was cut short, it tells by the outer tool's effect."""
    (tmp_path / "a.txt").write_text("Hello\n")
    outputs: list[ToolOutput] = []
    arguments: JsonObject = {"path": "a.txt"}
    if inner == "write_file":
        arguments["content"] = ""
    if inner == "run_command":
        arguments = {"command": "true"}

    async def body(call: Call) -> ToolOutput:
        outputs.append(await call.dispatch(inner, arguments))
        return said("Tried.")

    async with session_with(tmp_path, Outer(body, effect=outer), mode="full") as session:
        await turn_of(session)
    assert (outputs[0].is_error, outputs[0].code) == ((False, None) if may else (True, "DENIED"))


async def test_calls_are_nested_as_deep_as_the_bound_and_no_deeper(tmp_path: Path) -> None:
    depths: list[str] = []
    refused: list[ToolOutput] = []

    async def body(call: Call) -> ToolOutput:
        depths.append(call.key)
        output = await call.dispatch("outer", {})
        if output.is_error:
            refused.append(output)
        return said("Deep.")

    async with session_with(tmp_path, Outer(body)) as session:
        await turn_of(session)
        key = f"{session.id}:call_1_1_1"
    assert depths == [key + ".1" * depth for depth in range(NESTED_CALLS)]
    [output] = refused
    assert isinstance(output.content[0], Text)
    assert f"{NESTED_CALLS} levels" in output.content[0].text


async def test_nothing_is_dispatched_before_the_intent_is_saved_or_after_the_body_has_ended(tmp_path: Path) -> None:
    calls: list[Call] = []
    errors: list[str] = []

    async def body(call: Call) -> ToolOutput:
        calls.append(call)
        return said("Done.")

    class Showing(Outer):
        def access(self, arguments: JsonObject, workspace: Any) -> Access:
            return Access(kind="edit", inside=False)

        async def preview(self, arguments: JsonObject, call: Call) -> Any:
            try:
                await call.dispatch("run_command", {"command": "touch early"})
            except ToolError as exc:
                errors.append(str(exc))
            return ()

    async with session_with(tmp_path, Showing(body), permit=allowing([])) as session:
        await session.configure("mode", "ask")
        await turn_of(session)
        with pytest.raises(ToolError, match="not under way"):
            await calls[0].dispatch("run_command", {"command": "touch late"})
    assert len(errors) == 1
    assert not list(tmp_path.iterdir())


async def test_files_that_an_inner_call_has_read_and_written_are_known_to_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    outputs: list[ToolOutput] = []

    async def body(call: Call) -> ToolOutput:
        outputs.append(await call.dispatch("read_file", {"path": "a.txt"}))
        outputs.append(await call.dispatch("write_file", {"path": "a.txt", "content": "two\n"}))
        outputs.append(await call.dispatch("edit_file", {"path": "a.txt", "old_text": "two", "new_text": "three"}))
        return said("Done.")

    async with session_with(tmp_path, Outer(body), mode="edit") as session:
        await turn_of(session)
    assert [output.is_error for output in outputs] == [False] * 3
    assert (tmp_path / "a.txt").read_text() == "three\n"


async def test_a_lasting_grant_of_an_inner_call_is_the_inner_tools(tmp_path: Path) -> None:
    asked: list[Question] = []

    async def body(call: Call) -> ToolOutput:
        for path in ("a.txt", "b.txt", "a.txt"):
            await call.dispatch("run_command", {"command": f"touch {path}"})
        return said("Done.")

    async with session_with(tmp_path, Outer(body), permit=allowing(asked, "allow_always")) as session:
        events = await turn_of(session)
    grants = [event.grant for event in events if isinstance(event, PermissionDecided) and event.grant is not None]
    assert [grant["tool"] for grant in grants] == ["run_command"] * 2
    assert len({grant["id"] for grant in grants}) == len(asked) == 2


async def test_an_inner_plan_is_the_sessions(tmp_path: Path) -> None:
    async def body(call: Call) -> ToolOutput:
        await call.dispatch("update_plan", {"entries": [{"content": "Look", "status": "pending"}]})
        return said("Planned.")

    async with session_with(tmp_path, Outer(body)) as session:
        events = await turn_of(session)
    assert [entry["content"] for entry in only(PlanUpdated, events).entries] == ["Look"]


async def test_a_cancel_in_an_inner_question_stops_the_outer_call(tmp_path: Path) -> None:
    reached: list[str] = []

    async def body(call: Call) -> ToolOutput:
        await call.dispatch("write_file", {"path": "a.txt", "content": ""})
        await anyio.lowlevel.checkpoint()
        reached.append("behind")
        return said("Done.")

    asking = anyio.Event()

    async def permit(question: Question) -> Choice:
        asking.set()
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.fail_after(10):
        async with session_with(tmp_path, Outer(body), permit=permit) as session:
            async with session.prompt("Go.") as turn:
                async for item in turn:
                    if isinstance(item, Record) and isinstance(item.event, PermissionAsked):
                        await asking.wait()
                        break
            results = [record.event for record in session.records if isinstance(record.event, ToolResult)]
    assert turn.outcome is not None
    assert turn.outcome.reason == "cancelled"
    assert reached == []
    assert [result.code for result in results] == ["ABORTED"]
    assert not (tmp_path / "a.txt").exists()


async def test_an_outer_call_that_a_crash_cut_short_in_an_inner_question_is_of_unknown_outcome(tmp_path: Path) -> None:
    async def body(call: Call) -> ToolOutput:
        await call.dispatch("write_file", {"path": "a.txt", "content": ""})
        return said("Done.")

    async with session_with(tmp_path, Outer(body), permit=allowing([])) as session:
        await turn_of(session)
        records = session.records
    cut = next(place for place, record in enumerate(records) if isinstance(record.event, PermissionDecided))
    log = Log(records_header(session), records[:cut], clock=lambda: 0)
    [result] = [event for event in closers(log) if isinstance(event, ToolResult)]
    assert result.code == "TOOL_OUTCOME_UNKNOWN"


def records_header(session: Session) -> Any:
    return session._agent.journal.log.header


async def test_calls_of_two_sessions_have_different_keys_and_commands_see_theirs(tmp_path: Path) -> None:
    keys: list[str] = []

    async def body(call: Call) -> ToolOutput:
        keys.append(call.key)
        await call.dispatch("run_command", {"command": "echo $ACP_CALL_KEY >> keys.txt"})
        return said("Done.")

    for _ in range(2):
        async with session_with(tmp_path, Outer(body), mode="full") as session:
            await turn_of(session)
            assert keys[-1] == f"{session.id}:call_1_1_1"
    assert len(set(keys)) == 2
    assert (tmp_path / "keys.txt").read_text().split() == [f"{key}.1" for key in keys]
    assert os.environ.get("ACP_CALL_KEY") is None
