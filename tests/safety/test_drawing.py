"""Nothing that a model, a file or a command writes can move a cursor, hide or turn around what a person is shown."""

import json
import unicodedata
from pathlib import Path

import pytest
from support import log
from support.client import prompt_params
from support.provider import environment, provider
from support.script import use, use_all, written
from support.server import status

from .conftest import Asking, Start, TakeTurn

pytestmark = pytest.mark.slow


TRICKS = {
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "clear": "\x1b[2J\x1b[H",
    "link": "\x1b]8;;http://evil.example\x1b\\here\x1b]8;;\x1b\\",
    "bell": "\x07\x07",
    "return": "rm -rf x\rls       ",
    "bidi": "\u202etxt.exe\u202c \u2066x\u2069 \u200f",
    "c1": "\x9b2J\x9d52;c;x\x9c",
    "delete": "ab\x7f\x08",
}


def dangerous(text: str) -> list[str]:
    return [ascii(c) for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")]


@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS.keys())
def test_titles_paths_and_questions_show_tricks_as_escapes(take_turn: TakeTurn, project: Path, trick: str) -> None:
    """S6, S10: of commands, paths and the text to be searched for."""
    no = Asking("reject_once")
    turn = take_turn(
        use_all(
            ("run_command", {"command": f"echo '{trick}'"}),
            ("write_file", {"path": f"{trick}.txt".replace("/", "_"), "content": trick}),
            ("search_files", {"pattern": trick}),
            (f"tool{trick}", {}),
        ),
        permit=no,
    )
    assert len(no.asked) == 2
    for question in no.asked:
        assert not dangerous(question["toolCall"]["title"])
        assert not [o["name"] for o in question["options"] if dangerous(o["name"])]
    for card in turn.client.updates(turn.session, kind="tool_call"):
        assert not dangerous(card["title"])
    assert not dangerous(turn.client.stderr)


@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS.keys())
def test_output_with_tricks_is_valid_json_in_protocol_and_log(take_turn: TakeTurn, project: Path, trick: str) -> None:
    """S10: every line parses (the client checks each), and no raw control byte is on the wire or the disk."""
    (project / "trick.txt").write_text(trick)
    turn = take_turn(use("run_command", command="cat trick.txt"), mode="full")
    raw = log.log_file(turn.client.home, turn.session).read_bytes()
    assert not [byte for byte in raw if byte < 0x20 and byte != 0x0A]
    assert trick.replace("\r", "")[:4] in json.dumps(turn.told(), ensure_ascii=False) or turn.told()
    assert turn.reason == "end_turn"


@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS.keys())
def test_a_sessions_title_shows_tricks_as_escapes(start: Start, tmp_path: Path, project: Path, trick: str) -> None:
    """S10: live and in the list."""
    client = start(written(tmp_path / "s.json"))
    client.initialize()
    session = client.new_session(project)
    client.result(client.request("session/prompt", prompt_params(session, f"hello {trick} there")))
    [update] = client.updates(session, kind="session_info_update")
    [listed] = client.call("session/list", {})["sessions"]
    assert update["title"] == listed["title"]
    assert not dangerous(listed["title"])


def test_a_providers_error_shows_tricks_as_escapes(start: Start, project: Path) -> None:
    """S10: in the answer to the client and in the log on stderr."""
    body = {"error": {"message": "no " + " ".join(TRICKS.values()), "code": "x"}}
    with provider(lambda asked: status(400, body)) as server:
        client = start(environment=environment(server, ACP_BRIDGE_LOG="debug"))
        client.initialize()
        answer = client.answer(client.prompt(client.new_session(project), "hi"))
    error = answer["error"]
    assert not dangerous(error["message"] + str(error.get("data", {}).get("details", "")))
    assert not dangerous(client.stderr)
