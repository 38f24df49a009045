"""The scripted model: its format, and the rule by which a request finds its answer."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_bridge.content import Failure, Text, ToolRequest, Usage
from acp_bridge.errors import ConfigError
from acp_bridge.llm.model import Delta, Failed, Finished, TextDelta, ThoughtDelta, ToolDelta
from acp_bridge.llm.scripted import ScriptedModel
from acp_bridge.session import (
    AssistantMessage,
    FromAssistant,
    FromTools,
    FromUser,
    Message,
    ModelRequest,
    Record,
    ToolAnswer,
    ToolResult,
    Transcript,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

CANCELLED = Text(text="<turn-note>The user cancelled the request above before it was finished.</turn-note>")
FAILED = Text(text="<turn-note>The request above ended with an error before it was finished: x</turn-note>")


def scripted(folder: Path, script: Any) -> ScriptedModel:
    path = folder / "script.json"
    path.write_text(script if isinstance(script, str) else json.dumps(script))
    return ScriptedModel(path)


def user(*texts: str | Text) -> FromUser:
    return FromUser(tuple(t if isinstance(t, Text) else Text(text=t) for t in texts))


def said(text: str) -> FromAssistant:
    return FromAssistant((Text(text=text),))


def asked(name: str) -> FromAssistant:
    return FromAssistant((ToolRequest(call_id="c", name=name, arguments="{}", title=name),))


def result(text: str, *, is_error: bool = False) -> FromTools:
    return FromTools((ToolAnswer("c", (Text(text=text),), is_error),))


async def deltas(model: ScriptedModel, *messages: Message) -> list[Delta]:
    request = ModelRequest(route="scripted:x", system="", messages=messages)
    with anyio.fail_after(5):
        return [delta async for delta in model.stream(request)]


async def text(model: ScriptedModel, *messages: Message) -> str:
    got = await deltas(model, *messages)
    return "".join(delta.text for delta in got if isinstance(delta, TextDelta))


async def test_a_whole_answer_is_told_as_thought_text_and_tools(tmp_path: Path) -> None:
    model = scripted(
        tmp_path,
        [
            {
                "text": "I look.",
                "thought": "Hm.",
                "tools": [{"name": "read_file", "arguments": {"path": "a"}}, {"name": "x", "arguments": "{broken"}],
                "usage": {"input_tokens": 3, "output_tokens": 2},
            }
        ],
    )
    assert await deltas(model, user("hi")) == [
        ThoughtDelta("Hm."),
        TextDelta("I look."),
        ToolDelta(0, "read_file", '{"path":"a"}'),
        ToolDelta(1, "x", "{broken"),
        Finished("tools", Usage(input_tokens=3, output_tokens=2)),
    ]


async def test_deltas_are_repeated_paused_and_failed_as_written(tmp_path: Path) -> None:
    fail = {"kind": "rate_limit", "message": "slow down", "status": 429, "retry_after_s": 0.1}
    model = scripted(tmp_path, [{"deltas": [{"text": "x", "repeat": 3}, {"pause_s": 0.001}, {"fail": fail}]}])
    assert await deltas(model, user("hi")) == [
        TextDelta("x"),
        TextDelta("x"),
        TextDelta("x"),
        Failed(Failure(kind="rate_limit", message="slow down", status=429), retryable=True, retry_after_s=0.1),
    ]


async def test_an_answer_waits_for_a_file(tmp_path: Path) -> None:
    model = scripted(tmp_path, [{"deltas": [{"wait_for": "go"}, {"text": "went"}]}])
    got: list[str] = []

    async def read() -> None:
        got.append(await text(model, user("hi")))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tg:
            tg.start_soon(read)
            await anyio.sleep(0.02)
            assert got == []
            (tmp_path / "go").touch()
    assert got == ["went"]


async def test_a_hanging_answer_can_be_cancelled(tmp_path: Path) -> None:
    model = scripted(tmp_path, [{"deltas": [{"text": "a"}, {"hang": True}]}])
    with anyio.move_on_after(0.02) as scope:
        await deltas(model, user("hi"))
    assert scope.cancelled_caught


async def test_an_answer_without_text_or_tool_is_empty(tmp_path: Path) -> None:
    got = await deltas(scripted(tmp_path, [{}]), user("hi"))
    assert isinstance(last := got[-1], Failed)
    assert (last.failure.kind, last.retryable) == ("empty", True)


async def test_a_new_process_goes_on_at_the_place_of_the_conversation(tmp_path: Path) -> None:
    script = [{"text": "one"}, {"text": "two"}, {"text": "three"}]
    talk = (user("hi"), asked("x"), result("ok"), said("two"), user("on"))
    for length, expected in ((1, "one"), (3, "two"), (5, "three")):
        assert await text(scripted(tmp_path, script), *talk[:length]) == expected


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param((user("hi", CANCELLED, "again"),), "two", id="cancelled before a word"),
        pytest.param((user("hi"), said("part"), user(CANCELLED, "again")), "two", id="cancelled in the text"),
        pytest.param((user("hi"), asked("x"), result("ok"), user(CANCELLED, "again")), "three", id="after the tools"),
        pytest.param(
            (user("hi"), asked("x"), result("stopped", is_error=True), user(CANCELLED, "again")), "two", id="in a tool"
        ),
        pytest.param((user("hi", FAILED, "again"),), "two", id="failed"),
    ],
)
async def test_a_request_that_was_given_up_uses_up_its_answer(
    tmp_path: Path, messages: tuple[Message, ...], expected: str
) -> None:
    fail = {"deltas": [{"fail": {"kind": "bad_request"}}]}
    script = [fail, {"text": "two"}, {"text": "three"}]
    assert await text(scripted(tmp_path, script), *messages) == expected


async def test_retryable_failures_share_the_place_of_the_answer_after_them(tmp_path: Path) -> None:
    fail = {"deltas": [{"fail": {"kind": "overloaded"}}]}
    model = scripted(tmp_path, [fail, fail, {"text": "at last"}, {"text": "next"}])
    kinds = [type((await deltas(model, user("hi")))[-1]) for _ in range(4)]
    assert kinds == [Failed, Failed, Finished, Finished]
    assert await text(model, user("hi"), said("at last"), user("on")) == "next"


async def test_an_answer_after_a_turn_that_gave_up_retrying_is_not_skipped(tmp_path: Path) -> None:
    fail = {"deltas": [{"fail": {"kind": "overloaded"}}]}
    model = scripted(tmp_path, [fail, fail, {"text": "after"}])
    await deltas(model, user("hi"))
    await deltas(model, user("hi"))
    assert await text(model, user("hi", FAILED, "again")) == "after"


async def test_an_answer_with_when_goes_first_and_takes_no_place(tmp_path: Path) -> None:
    model = scripted(tmp_path, [{"text": "one"}, {"when": "weather", "text": "rain"}, {"text": "two"}])
    assert await text(model, user("weather?")) == "rain"
    assert await text(model, user("weather?"), said("rain"), user("hi")) == "one"
    assert await text(model, user("weather?"), said("rain"), user("hi"), said("one"), user("x")) == "two"


async def test_an_expectation_that_fails_is_told(tmp_path: Path) -> None:
    model = scripted(tmp_path, [{"expect": ["hello", "world"], "text": "ok"}])
    assert await text(model, user("hello world")) == "ok"
    assert isinstance(last := (await deltas(model, user("hello")))[-1], Failed)
    assert last.failure.kind == "bad_request"
    assert "expects 'world'" in last.failure.message
    assert "answer 1" in last.failure.message


async def test_a_script_at_its_end_says_so(tmp_path: Path) -> None:
    assert isinstance(last := (await deltas(scripted(tmp_path, []), user("hi")))[-1], Failed)
    assert last.failure.kind == "bad_request"
    assert not last.retryable
    assert "at its end" in last.failure.message


@pytest.mark.parametrize(
    ("script", "words"),
    [
        pytest.param("[{]", "line 1, column", id="no JSON"),
        pytest.param([{"txt": "a"}], "answer 1 has an unknown key 'txt'; did you mean 'text'?", id="unknown key"),
        pytest.param([{}, {"text": 3}], "'text' of answer 2 must be a string", id="wrong type"),
        pytest.param([{"deltas": [{"text": "a"}, {}]}], "delta 2 of answer 1 must have exactly one of", id="no kind"),
        pytest.param(
            [{"deltas": [{"hang": True}, {"text": ""}]}], "goes on after 'fail' or 'hang'", id="after the end"
        ),
        pytest.param([{"text": "a", "deltas": []}], "both 'deltas' and 'text'", id="both forms"),
        pytest.param([{"stop": "done"}], "it is one of end, tools, length, refusal", id="stop"),
        pytest.param([{"deltas": [{"fail": {"kind": "x"}}]}], "it is one of auth", id="failure kind"),
        pytest.param([{"tools": [{"arguments": {}}]}], "'name' of tool 1 of answer 1 must be a string", id="no name"),
        pytest.param({"answers": {}}, "'answers' must be a list", id="answers"),
        pytest.param({"answer": []}, "did you mean 'answers'?", id="top"),
        pytest.param([{"usage": {"input_tokens": True}}], "must be a whole number", id="a bool is no count"),
    ],
)
def test_a_malformed_script_is_refused_with_file_place_and_remedy(tmp_path: Path, script: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        scripted(tmp_path, script)
    assert words in str(caught.value)
    assert "script.json" in str(caught.value)


def test_a_missing_script_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the script"):
        ScriptedModel(tmp_path / "none.json")


async def test_the_closing_notes_of_a_real_transcript_are_the_ones_the_rule_knows(tmp_path: Path) -> None:
    for place, (reason, by) in enumerate([("cancelled", "user"), ("interrupted", None), ("error", None)]):
        log = Transcript()
        events = (
            TurnStarted(turn=1),
            UserMessage(id="u1", content=(Text(text="hi"),), source="client"),
            TurnEnded(turn=1, reason=reason, by=by),  # pyright: ignore[reportArgumentType]
            UserMessage(id="u2", content=(Text(text="again"),), source="client"),
        )
        for seq, event in enumerate(events):
            log.add(Record(seq=seq, time=0, event=event))
        model = scripted(tmp_path, [{"text": "one"}, {"text": "two"}])
        assert await text(model, *log.messages) == "two", place


async def test_a_turn_that_ended_at_its_limit_of_requests_uses_up_no_answer_of_the_next(tmp_path: Path) -> None:
    log = Transcript()
    call = ToolRequest(call_id="c", name="x", arguments="{}", title="x")
    events = (
        TurnStarted(turn=1),
        UserMessage(id="u1", content=(Text(text="hi"),), source="client"),
        AssistantMessage(turn=1, step=1, id="m1", content=(call,)),
        ToolResult(turn=1, step=1, call_id="c", content=(Text(text="ok"),)),
        TurnEnded(turn=1, reason="max_requests"),
        UserMessage(id="u2", content=(Text(text="again"),), source="client"),
    )
    for seq, event in enumerate(events):
        log.add(Record(seq=seq, time=0, event=event))
    assert await text(scripted(tmp_path, [{"text": "one"}, {"text": "two"}, {"text": "three"}]), *log.messages) == "two"
