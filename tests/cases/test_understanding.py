"""Arguments are read where one reading is possible, and everybody sees what was understood, never what was written."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.alone import alone
from support.script import Answer

from acp_bridge.content import JsonObject, Text
from acp_bridge.errors import ToolError
from acp_bridge.redaction import Secrets
from acp_bridge.tools import builtin_tools, read_arguments, understand

TOOLS = {tool.spec.name: tool for tool in builtin_tools()}


def meant(tool: str, arguments: Any) -> JsonObject:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    read = read_arguments(text, Secrets())
    if read.problem:
        raise ToolError(read.problem)
    given = TOOLS[tool].check(understand(read.arguments, TOOLS[tool].spec.schema).arguments)
    return {name: value for name, value in given.items() if value is not None}


@pytest.mark.parametrize(
    ("tool", "given", "expected"),
    [
        ("read_file", {"path": "a", "offset": "2"}, {"path": "a", "offset": 2}),
        ("read_file", {"path": "a", "offset": 2.0, "limit": " 3.0 "}, {"path": "a", "offset": 2, "limit": 3}),
        ("read_file", {"path": 5}, {"path": "5"}),
        ("read_file", {"path": ["a"]}, {"path": "a"}),
        ("read_file", {"Path": "a", "OFFSET": 1}, {"path": "a", "offset": 1}),
        ("read_file", json.dumps(json.dumps({"path": "a"})), {"path": "a"}),
        ("read_file", json.dumps(json.dumps(json.dumps({"path": "a"}))), {"path": "a"}),
        ("read_file", [{"path": "a"}], {"path": "a"}),
        ("read_file", {"arguments": {"path": "a"}}, {"path": "a"}),
        ("read_file", {"parameters": '{"path": "a"}'}, {"path": "a"}),
        ("run_command", {"command": "ls", "workdir": "src"}, {"command": "ls", "cwd": "src"}),
        ("run_command", {"command": "ls", "workingDirectory": "src"}, {"command": "ls", "cwd": "src"}),
        ("run_command", {"command": "ls", "cwd": "a", "working_dir": "b"}, {"command": "ls", "cwd": "a"}),
        ("run_command", {"command": "ls", "timeout_s": "1.5"}, {"command": "ls", "timeout_s": 1.5}),
        ("search_files", {"pattern": "a", "ignoreCase": "True"}, {"pattern": "a", "ignore_case": True}),
        ("ask_user", {"question": "q", "options": "yes"}, {"question": "q", "options": ["yes"]}),
        ("ask_user", {"question": "q", "options": '["yes", "no"]'}, {"question": "q", "options": ["yes", "no"]}),
        (
            "update_plan",
            {"entries": {"content": "x", "status": "In Progress", "id": 1}},
            {"entries": [{"content": "x", "status": "in_progress", "priority": "medium"}]},
        ),
        ("write_file", {"path": "a", "content": '{"a": 1}'}, {"path": "a", "content": '{"a": 1}'}),
        ("read_file", {"path": "a", "encoding": "utf-8"}, {"path": "a"}),
    ],
)
def test_what_can_mean_one_thing_is_understood(tool: str, given: Any, expected: JsonObject) -> None:
    assert meant(tool, given) == expected


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("read_file", {"path": "a", "offset": "two"}),
        ("read_file", {"path": "a", "offset": 2.5}),
        ("read_file", {"path": "a", "offset": True}),
        ("read_file", {"path": ["a", "b"]}),
        ("read_file", {"path": True}),
        ("read_file", {"Path": "a", "PATH": "b"}),
        ("write_file", {"path": "a", "content": {"a": 1}}),
        ("search_files", {"pattern": "a", "ignore_case": "yes"}),
        ("search_files", {"pattern": "a", "ignore_case": 1}),
        ("run_command", {"command": "ls", "timeout_s": "inf"}),
        ("ask_user", {"question": "q", "options": [["a", "b"]]}),
        ("read_file", '{"path": NaN}'),
        ("read_file", '{"path": 1e999}'),
        ("run_command", '{"command": -Infinity}'),
        ("run_command", json.dumps('{"command": NaN}')),
        ("read_file", "[1]"),
        ("read_file", '"text"'),
    ],
)
def test_what_can_mean_two_things_or_none_is_refused(tool: str, given: Any) -> None:
    with pytest.raises(ToolError):
        meant(tool, given)


def asking(name: str, raw: str) -> Answer:
    return {"deltas": [{"tool": {"index": 0, "name": name, "arguments": raw}}]}


@pytest.mark.parametrize(
    "raw",
    [
        '{"command": "echo seen > a.txt", "COMMAND": "echo hidden > a.txt"}',
        '{"command": "echo hidden > a.txt", "command": "echo seen > a.txt"}',
        '{"command": ["echo seen > a.txt"], "cmd": "echo hidden > a.txt"}',
        json.dumps(json.dumps({"command": "echo seen > a.txt"})),
        '{"input": {"Command": "echo seen > a.txt"}}',
    ],
)
async def test_title_question_log_and_body_see_the_same(tmp_path: Path, raw: str) -> None:
    async with alone(tmp_path, asking("run_command", raw), mode="ask") as agent:
        await agent.prompted()
        [question] = agent.asked
        assert question.arguments["command"] == "echo seen > a.txt"
        assert question.presentation.title == agent.requests()[0].title == "echo seen > a.txt"
        [call] = agent.calls()
        assert call.arguments == question.arguments
        assert (tmp_path / "project" / "a.txt").read_text() == "seen\n"


@pytest.mark.parametrize("levels", [65, 900])
def test_arguments_however_deep_are_read_or_refused(levels: int) -> None:
    deep = "[" * levels + "NaN" + "]" * levels
    for raw in (f'{{"path": "a", "x": {deep}}}', f'{{"path": {deep}}}', json.dumps(f'{{"path": {deep}}}')):
        try:
            assert meant("read_file", raw) == {"path": "a"}
        except ToolError as exc:
            assert str(exc)  # noqa: PT017 - either will do; anything else is a defect


def test_a_secret_beside_what_is_nested_too_deeply_is_seen_by_nobody() -> None:
    """Each level is JSON in JSON: to look into all of them takes more than there is."""
    decoy: Any = "\\"
    for _ in range(14):
        for _ in range(60):
            decoy = [decoy]
        decoy = json.dumps(decoy)
    hidden = json.dumps(json.dumps({"command": "s3cr3t-val", "x": decoy}).replace("s3", "\\u00733"))
    assert "\\u00733" not in read_arguments(hidden, Secrets({"K": "s3cr3t-val"})).text


async def test_who_is_asked_sees_what_was_left_out(tmp_path: Path) -> None:
    run = asking("run_command", '{"command": "echo x", "dry_run\\u202e": true}')
    async with alone(tmp_path, run, mode="ask") as agent:
        await agent.prompted()
        [question] = agent.asked
        assert question.shown == (Text(text=r"[ignored, since there is no such parameter: 'dry_run\u202e']"),)


async def test_what_was_left_out_is_named_in_the_result_and_in_a_refusal(tmp_path: Path) -> None:
    run = asking("run_command", '{"command": "echo x", "shell": "bash"}')
    lacking = asking("run_command", '{"cmd": "echo x"}')
    async with alone(tmp_path, run, lacking) as agent:
        await agent.prompted()
        assert agent.told()[0].endswith("\n[ignored, since there is no such parameter: 'shell']")
        assert "'command' is missing" in agent.told()[1]
        assert "'cmd'" in agent.told()[1]
