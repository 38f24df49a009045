"""What a client writes that cannot be carried or read: it is mended, or whoever waits for it is told."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from support import log
from support.client import Client, prompt_params, selected
from support.script import say, use, written

from acp_bridge.limits import LINE

CAPABLE = {"fs": {"readTextFile": True, "writeTextFile": True}}
ANSWERS = (
    say("Hello.", when="say hello"),
    use("read_file", path="kept.txt", when="read the file"),
    use("run_command", command="touch ran", when="run a command"),
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[Client]:
    folder = tmp_path_factory.mktemp("unreadable")
    with Client(folder / "home", written(folder / "script.json", *ANSWERS)) as client:
        client.initialize(CAPABLE)
        yield client


@pytest.fixture
def session(shared: Client, tmp_path: Path) -> str:
    (tmp_path / "kept.txt").write_text("old\n")
    return shared.new_session(tmp_path)


def line(message: dict[str, Any]) -> bytes:
    """Return the message as JavaScript writes it: `\\ud83d` for half a character."""
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def result_of(agent: Client, session: str, call_id: str = "call_1_1_1") -> dict[str, Any]:
    return next(e["data"] for e in log.events(agent.home, session, "tool/result") if e["data"]["callId"] == call_id)


def test_half_a_character_in_a_prompt_is_mended(shared: Client, session: str) -> None:
    shared.write(line({"id": "half", "method": "session/prompt", "params": prompt_params(session, "say hello \ud83d")}))
    assert shared.result("half") == {"stopReason": "end_turn"}
    [said] = log.events(shared.home, session, "user/message")
    assert said["data"]["content"][0]["text"] == "say hello \ufffd"


def test_half_a_character_in_a_folders_name_names_no_folder(shared: Client) -> None:
    params = {"cwd": "/tmp/\udc00", "mcpServers": []}
    shared.write(line({"id": "folder", "method": "session/new", "params": params}))
    assert shared.answer("folder")["error"]["code"] == -32602


def test_half_a_character_in_a_files_text_is_mended(shared: Client, session: str) -> None:
    mark, request_id = shared.mark, shared.prompt(session, "read the file")
    asked = shared.asked("fs/read_text_file", since=mark, session=session)
    shared.write(line({"id": asked["id"], "result": {"content": "cut \ud83d"}}))
    assert shared.result(request_id) == {"stopReason": "end_turn"}
    assert result_of(shared, session)["content"][0]["text"] == "cut \ufffd"


def test_half_a_character_beside_an_answer_does_not_lose_it(shared: Client, session: str, tmp_path: Path) -> None:
    mark, request_id = shared.mark, shared.prompt(session, "run a command")
    asked = shared.asked(since=mark, session=session)
    answer = selected(asked["params"], "allow_once")
    shared.write(line({"id": asked["id"], "result": {**answer, "_meta": {"\ud83d": "\ude00"}}}))
    assert shared.result(request_id) == {"stopReason": "end_turn"}
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "result",
    [
        b'{"content":"\xe4"}',
        b'{"content":"","_meta":-Infinity}',
        b'{"content":"","_meta":' + b"[" * 200 + b"]" * 200 + b"}",
        b'{"content":"' + b"x" * LINE + b'"}',
        b'{"content":"cut off',
    ],
    ids=["no UTF-8", "no number", "too deep", "too long", "cut off"],
)
def test_an_answer_that_cannot_be_read_fails_its_call_and_the_turn_goes_on(
    shared: Client, session: str, result: bytes
) -> None:
    mark, request_id = shared.mark, shared.prompt(session, "read the file")
    asked = shared.asked("fs/read_text_file", since=mark, session=session)
    shared.write(b'{"jsonrpc":"2.0","id":%d,"result":' % asked["id"] + result + b"}\n")
    assert shared.result(request_id) == {"stopReason": "end_turn"}
    told = result_of(shared, session)
    assert told["isError"]
    assert "the answer could not be read" in told["content"][0]["text"]


@pytest.mark.parametrize("member", ['"result":{},"error":{"code":1,"message":"m"}', '"neither":1'])
def test_an_answer_that_says_nothing_sure_fails_its_call(shared: Client, session: str, member: str) -> None:
    mark, request_id = shared.mark, shared.prompt(session, "read the file")
    asked = shared.asked("fs/read_text_file", since=mark, session=session)
    shared.write(b'{"jsonrpc":"2.0","id":%d,%b}\n' % (asked["id"], member.encode()))
    assert shared.result(request_id) == {"stopReason": "end_turn"}
    assert result_of(shared, session)["isError"]


def test_an_answer_with_the_id_as_text_fails_its_call(shared: Client, session: str) -> None:
    mark, request_id = shared.mark, shared.prompt(session, "read the file")
    asked = shared.asked("fs/read_text_file", since=mark, session=session)
    shared.write(line({"id": str(asked["id"]), "result": {"content": "x"}}))
    assert shared.result(request_id) == {"stopReason": "end_turn"}
    assert "its id is a number" in result_of(shared, session)["content"][0]["text"]


def test_a_prompt_that_is_too_long_is_answered_by_its_id(shared: Client, session: str) -> None:
    head, rest = line({"id": "long", "method": "session/prompt", "params": prompt_params(session, "x")}).split(b'"x"')
    shared.write(head + b'"' + b"x" * LINE + b'"' + rest)
    error = shared.answer("long")["error"]
    assert (error["code"], error["message"]) == (-32600, f"a line may have {LINE} bytes at most")
