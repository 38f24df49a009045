"""What the agent asks of the client."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import log
from harness.client import DISMISSED, Client, choosing, selected
from harness.script import use, written

Start = Callable[..., Client]


@pytest.mark.parametrize(
    "capabilities",
    [{}, {"fs": {"readTextFile": True, "writeTextFile": False}, "terminal": False, "elicitation": {}}],
)
def test_only_what_the_client_offered_is_asked_of_it(start: Start, tmp_path: Path, capabilities: dict[str, Any]) -> None:
    """§9.80 M, §9.81 M: no fs, terminal or elicitation call to a client that has none; never a write to a reader."""
    (tmp_path / "kept.txt").write_text("old\n")
    agent = start(permit=choosing("allow_once"))
    agent.initialize(capabilities)
    session = agent.new_session(tmp_path)
    prompt = agent.prompt(session, "do three things")
    offered = {"session/request_permission"} | ({"fs/read_text_file"} if capabilities else set())
    agent.wait_for(lambda m: m.get("id") == prompt and "method" not in m)
    assert {message["method"] for message in agent.received if "method" in message and "id" in message} <= offered


def test_a_question_shows_what_will_be_done(agent: Client, session: str, tmp_path: Path) -> None:
    """§9.83 M: the question names the call that was announced, its arguments, and options of every basic kind."""
    prompt = agent.prompt(session, "run a command")
    asked = agent.asked(session=session)
    card = agent.update("tool_call", session=session)
    assert asked["params"]["toolCall"]["toolCallId"] == card["toolCallId"]
    assert asked["params"]["toolCall"]["rawInput"]["command"] == "touch ran"
    assert {"allow_once", "reject_once"} <= {option["kind"] for option in asked["params"]["options"]}
    assert len({option["optionId"] for option in asked["params"]["options"]}) == len(asked["params"]["options"])
    agent.reply(asked, selected(asked["params"], "allow_once"))
    assert agent.result(prompt) == {"stopReason": "end_turn"}
    assert (tmp_path / "ran").exists()


NOT_A_YES: dict[str, dict[str, Any]] = {
    "rejected": {"result": {"outcome": {"outcome": "selected", "optionId": "reject_once"}}},
    "unknown option": {"result": {"outcome": {"outcome": "selected", "optionId": "allow_everything"}}},
    "no option": {"result": {"outcome": {"outcome": "selected"}}},
    "unknown outcome": {"result": {"outcome": {"outcome": "granted", "optionId": "allow_once"}}},
    "flat": {"result": {"outcome": "selected", "optionId": "allow_once"}},
    "null": {"result": None},
    "text": {"result": "allow_once"},
    "error": {"error": {"code": -32603, "message": "the client failed"}},
    "unknown method": {"error": {"code": -32601, "message": "no such method"}},
    "malformed error": {"error": "no"},
}


@pytest.mark.parametrize("answer", NOT_A_YES.values(), ids=NOT_A_YES)
def test_what_is_no_clear_yes_is_a_no_and_the_turn_goes_on(
    agent: Client, session: str, tmp_path: Path, answer: dict[str, Any]
) -> None:
    """§9.83 M, case 43: reject, error, unknown option → tool not executed, the model is told, the turn goes on."""
    agent.permit = lambda params: answer
    assert agent.prompted(session, "run a command") == "end_turn"
    assert not (tmp_path / "ran").exists()
    [result] = log.events(agent.home, session, "tool/result")
    assert result["data"]["code"] == "DENIED"
    assert "tool/call" not in log.kinds(agent.home, session)
    assert agent.update("tool_call_update", session=session)["status"] == "failed"


def test_a_dismissed_question_ends_the_turn_as_cancelled(agent: Client, session: str, tmp_path: Path) -> None:
    """§9.83 M, case 43: outcome cancelled → tool not executed, prompt cancelled, no error."""
    agent.permit = lambda params: {"result": DISMISSED}
    assert agent.prompted(session, "run a command") == "cancelled"
    assert not (tmp_path / "ran").exists()
    agent.permit = choosing("reject_once")
    assert agent.prompted(session, "run a command") == "end_turn"
    assert not (tmp_path / "ran").exists()


def test_an_answer_in_the_same_tick_is_accepted(agent: Client, session: str, tmp_path: Path) -> None:
    """Case 46: the client answers as soon as it reads the question."""
    agent.permit = choosing("allow_once")
    for _ in range(20):
        agent.prompted(session, "run a command")
    assert (tmp_path / "ran").exists()
    outcomes = [event["data"]["outcome"] for event in log.events(agent.home, session, "permission/decided")]
    assert outcomes == ["allowed"] * 20


def questions(agent: Client, session: str, text: str, kind: str) -> int:
    """Run a turn in which each question is answered by `kind`; return how many there were."""
    agent.permit = choosing(kind)
    mark = agent.mark
    agent.prompted(session, text)
    return len([m for m in agent.received[mark:] if m.get("method") == "session/request_permission"])


def test_a_lasting_yes_holds_for_this_command_in_this_session_also_after_a_restart(
    start: Start, tmp_path: Path
) -> None:
    """§9.83 M: allow_always remembered only as documented: the very command, the very session; kept in the log."""
    script = written(
        tmp_path / "s.json",
        use("run_command", command="touch ran", when="run it"),
        use("run_command", command="touch ran other", when="run the other"),
    )
    first = start(script=script)
    first.initialize()
    session = first.new_session(tmp_path)
    assert questions(first, session, "run it", "allow_always") == 1
    assert questions(first, session, "run it", "reject_once") == 0
    assert questions(first, session, "run the other", "reject_once") == 1
    assert questions(first, first.new_session(tmp_path), "run it", "reject_once") == 1
    first.kill()
    second = start(script=script)
    second.initialize()
    second.call("session/resume", {"sessionId": session, "cwd": str(tmp_path)})
    assert questions(second, session, "run it", "reject_once") == 0
    assert questions(second, session, "run the other", "reject_once") == 1


def test_a_yes_for_once_is_for_once(agent: Client, session: str) -> None:
    """§9.83 M: allow_once is not remembered."""
    assert questions(agent, session, "run a command", "allow_once") == 1
    assert questions(agent, session, "run a command", "allow_once") == 1


def test_in_progress_is_not_shown_before_permission(agent: Client, session: str) -> None:
    """Case 45: the card is pending until the call is allowed."""
    prompt = agent.prompt(session, "run a command")
    asked = agent.asked(session=session)
    statuses = [u.get("status") for u in agent.updates(session, until=agent.place_of(asked)) if "toolCallId" in u]
    assert statuses == ["pending"]
    assert asked["params"]["toolCall"].get("status", "pending") == "pending"
    agent.reply(asked, selected(asked["params"], "allow_once"))
    agent.result(prompt)
    later = [u.get("status") for u in agent.updates(session) if "toolCallId" in u]
    assert later == ["pending", "in_progress", "completed"]


def test_a_call_of_what_does_not_exist_asks_nobody(agent: Client, session: str) -> None:
    """§9.83 M: an unknown tool is refused to the model; nobody is asked."""
    assert questions(agent, session, "use what is not there", "allow_once") == 0
    [result] = log.events(agent.home, session, "tool/result")
    assert result["data"]["code"] == "UNKNOWN_TOOL"
