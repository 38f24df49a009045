"""What the agent asks of the client."""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from support import log
from support.client import DISMISSED, Client, choosing, selected
from support.script import use, written

Start = Callable[..., Client]


CLIENT_METHODS = ("fs/read_text_file", "fs/write_text_file", "elicitation/create", "terminal/create")


def requests(agent: Client, method: str, session: str) -> list[dict[str, Any]]:
    """Return the params of the agent's requests for a method in a session so far."""
    asked = [m["params"] for m in agent.received if m.get("method") == method and "id" in m]
    return [params for params in asked if params["sessionId"] == session]


ASKING = (
    use("ask_user", question="Which colour?", options=["red", "blue"], when="ask with options"),
    use("ask_user", question="Which colour?", when="ask openly"),
    use("write_file", path="made.txt", content="made\n", when="make a file"),
    use("edit_file", path="kept.txt", old_text="unsaved", new_text="edited", when="edit what is unsaved"),
    use("edit_file", path="kept.txt", old_text="old", new_text="new", when="edit what is saved"),
    use("read_file", path="kept.txt", when="look at it"),
)


Asking = Callable[[dict[str, Any]], tuple[Client, str]]


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, Client]]:
    """The module's agents, by what their client can do."""
    agents: dict[str, Client] = {}
    yield agents
    for agent in agents.values():
        agent.__exit__(None, None, None)


@pytest.fixture
def asking(clients: dict[str, Client], tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Asking:
    """Returns an agent whose client has given capabilities, and a session of the test's own that holds `kept.txt`."""

    def made(capabilities: dict[str, Any]) -> tuple[Client, str]:
        key = repr(capabilities)
        if key not in clients:
            folder = tmp_path_factory.mktemp("asking")
            clients[key] = Client(folder / "home", written(folder / "s.json", *ASKING))
            clients[key].initialize(capabilities)
        agent = clients[key]
        agent.permit, agent.answers = choosing("allow_once"), {}
        (tmp_path / "kept.txt").write_text("old\n")
        return agent, agent.new_session(tmp_path)

    return made


def test_of_a_client_that_can_nothing_nothing_special_is_asked(asking: Asking, tmp_path: Path) -> None:
    """R80: with clientCapabilities {}: no fs, terminal or elicitation call."""
    agent, session = asking({})
    for text in ("ask with options", "ask openly", "make a file", "edit what is saved", "look at it"):
        agent.prompted(session, text)
    assert not [method for method in CLIENT_METHODS if requests(agent, method, session)]
    assert (tmp_path / "made.txt").read_text() == "made\n"
    assert (tmp_path / "kept.txt").read_text() == "new\n"


def test_what_the_editor_has_not_saved_is_read_through_it_and_written_to_the_disk(
    asking: Asking, tmp_path: Path
) -> None:
    """R81: read-only fs flag: never fs/write_text_file."""
    agent, session = asking({"fs": {"readTextFile": True}})
    agent.answers["fs/read_text_file"] = lambda params: {"result": {"content": "unsaved\n"}}
    agent.prompted(session, "edit what is unsaved")
    assert requests(agent, "fs/write_text_file", session) == []
    assert {p["path"] for p in requests(agent, "fs/read_text_file", session)} == {str(tmp_path / "kept.txt")}
    assert (tmp_path / "kept.txt").read_text() == "edited\n"


@pytest.mark.parametrize("nothing", [{}, None])
def test_an_editor_that_writes_is_given_the_text(asking: Asking, tmp_path: Path, nothing: object) -> None:
    """R81: with both flags, files are read and written through the client; {} and null are both an answer."""
    agent, session = asking({"fs": {"readTextFile": True, "writeTextFile": True}})
    agent.answers["fs/read_text_file"] = lambda params: {"result": {"content": "unsaved\n"}}
    agent.answers["fs/write_text_file"] = lambda params: {"result": nothing}
    agent.prompted(session, "edit what is unsaved")
    [write] = requests(agent, "fs/write_text_file", session)
    assert (write["path"], write["content"]) == (str(tmp_path / "kept.txt"), "edited\n")
    assert (tmp_path / "kept.txt").read_text() == "old\n"
    assert agent.update("tool_call_update", session=session, status="completed")


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": -32002, "message": "no such file"}},
        {"error": {"code": -32603, "message": "the editor failed"}},
        {"result": {"text": "misnamed"}},
        {"result": None},
    ],
)
def test_an_editor_that_cannot_read_fails_the_call_and_not_the_turn(
    asking: Asking, tmp_path: Path, answer: dict[str, Any]
) -> None:
    """R81: the client's failure is the tool's, told to the model; nothing is written."""
    agent, session = asking({"fs": {"readTextFile": True, "writeTextFile": True}})
    agent.answers["fs/read_text_file"] = lambda params: answer
    assert agent.prompted(session, "edit what is saved") == "end_turn"
    assert requests(agent, "fs/write_text_file", session) == []
    [result] = log.events(agent.home, session, "tool/result")
    assert result["data"]["code"] == "FAILED"


@pytest.mark.parametrize("data", ["the disk is full", {"details": "the disk is full."}])
def test_the_editors_own_details_reach_the_model(asking: Asking, data: object) -> None:
    agent, session = asking({"fs": {"readTextFile": True}})
    agent.answers["fs/read_text_file"] = lambda params: {
        "error": {"code": -32603, "message": "Internal error", "data": data}
    }
    agent.prompted(session, "edit what is saved")
    [result] = log.events(agent.home, session, "tool/result")
    assert result["data"]["content"][0]["text"].endswith(": Internal error: the disk is full.")


def test_a_write_that_the_editor_never_answers_is_aborted_and_not_failed(asking: Asking) -> None:
    """R78: cancelled without a reply it may have been done in part: ABORTED, and the request is taken back."""
    agent, session = asking({"fs": {"readTextFile": True, "writeTextFile": True}})
    agent.answers["fs/read_text_file"] = lambda params: {"result": {"content": "unsaved\n"}}
    prompt = agent.prompt(session, "edit what is unsaved")
    write = agent.asked("fs/write_text_file", session=session)
    agent.cancel(session)
    assert agent.result(prompt) == {"stopReason": "cancelled"}
    [result] = log.events(agent.home, session, "tool/result")
    assert result["data"]["code"] == "ABORTED"
    agent.wait_for(lambda m: m.get("method") == "$/cancel_request" and m["params"] == {"requestId": write["id"]})


def test_a_write_that_the_end_of_the_input_leaves_open_is_aborted_and_not_failed(start: Start, tmp_path: Path) -> None:
    """R90: whoever hangs up has refused nothing: what was asked of the editor may have been done."""
    (tmp_path / "kept.txt").write_text("old\n")
    agent = start(script=written(tmp_path / "s.json", *ASKING), permit=choosing("allow_once"))
    agent.initialize({"fs": {"readTextFile": True, "writeTextFile": True}})
    agent.answers["fs/read_text_file"] = lambda params: {"result": {"content": "unsaved\n"}}
    session = agent.new_session(tmp_path)
    prompt = agent.prompt(session, "edit what is unsaved")
    agent.asked("fs/write_text_file")
    agent.close_stdin()
    assert agent.result(prompt) == {"stopReason": "cancelled"}
    assert agent.wait() == 0
    [result] = log.events(agent.home, session, "tool/result")
    assert result["data"]["code"] == "ABORTED"


def test_a_choice_is_offered_as_buttons_where_there_is_no_form(asking: Asking) -> None:
    """R84: elicitation only in an advertised mode; without one, options become a question of the baseline."""
    agent, session = asking({"elicitation": {"url": {}}})
    agent.permit = lambda params: {"result": {"outcome": {"outcome": "selected", "optionId": _named(params, "blue")}}}
    assert agent.prompted(session, "ask with options") == "end_turn"
    assert requests(agent, "elicitation/create", session) == []
    [result] = log.events(agent.home, session, "tool/result")
    assert "blue" in result["data"]["content"][0]["text"]


def test_a_choice_that_is_dismissed_cancels_the_turn(asking: Asking) -> None:
    """R83: open questions are answered with `cancelled`, and the cancel itself may come only after it."""
    agent, session = asking({})
    agent.permit = lambda params: {"result": DISMISSED}
    assert agent.prompted(session, "ask with options") == "cancelled"
    assert log.events(agent.home, session, "tool/result")[0]["data"]["code"] == "ABORTED"
    assert log.events(agent.home, session, "assistant/message")[1:] == []


def _named(params: dict[str, Any], name: str) -> str:
    return next(option["optionId"] for option in params["options"] if option["name"] == name)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"result": {"action": "accept", "content": {"answer": "blue"}}}, "blue"),
        ({"result": {"action": "accept", "content": {"answer": "green"}}}, ""),
        ({"result": {"action": "accept"}}, ""),
        ({"result": {"action": "decline"}}, ""),
        ({"result": {"action": "cancel"}}, ""),
        ({"result": {"action": "perhaps"}}, ""),
        ({"error": {"code": -32602, "message": "no forms"}}, ""),
    ],
)
def test_a_form_is_filled_in_or_not_and_the_turn_goes_on(asking: Asking, answer: dict[str, Any], told: str) -> None:
    """R84: decline, cancel and error handled; what is accepted is checked again."""
    agent, session = asking({"elicitation": {"form": {}}})
    agent.answers["elicitation/create"] = lambda params: answer
    assert agent.prompted(session, "ask with options") == "end_turn"
    [form] = requests(agent, "elicitation/create", session)
    assert form["mode"] == "form"
    assert form["requestedSchema"]["properties"]["answer"]["enum"] == ["red", "blue"]
    [result] = log.events(agent.home, session, "tool/result")
    assert ("The user answered" in result["data"]["content"][0]["text"]) == bool(told)
    assert told in result["data"]["content"][0]["text"]


def test_a_question_shows_what_will_be_done(agent: Client, session: str, tmp_path: Path) -> None:
    """R83: the question names the call that was announced, its arguments, and options of every basic kind."""
    prompt = agent.prompt(session, "run a command")
    asked = agent.asked(session=session)
    card = agent.update("tool_call", session=session)
    assert asked["params"]["toolCall"]["toolCallId"] == card["toolCallId"]
    assert asked["params"]["toolCall"]["rawInput"] == card["rawInput"] == {"command": "touch ran"}
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
    """R83: reject, error, unknown option → tool not executed, the model is told, the turn goes on."""
    agent.permit = lambda params: answer
    assert agent.prompted(session, "run a command") == "end_turn"
    assert not (tmp_path / "ran").exists()
    [result] = log.events(agent.home, session, "tool/result")
    assert result["data"]["code"] == "DENIED"
    assert "tool/call" not in log.kinds(agent.home, session)
    assert agent.update("tool_call_update", session=session)["status"] == "failed"


def test_a_dismissed_question_ends_the_turn_as_cancelled(agent: Client, session: str, tmp_path: Path) -> None:
    """R83: outcome cancelled → tool not executed, prompt cancelled, no error."""
    agent.permit = lambda params: {"result": DISMISSED}
    assert agent.prompted(session, "run a command") == "cancelled"
    assert not (tmp_path / "ran").exists()
    agent.permit = choosing("reject_once")
    assert agent.prompted(session, "run a command") == "end_turn"
    assert not (tmp_path / "ran").exists()


def test_an_answer_in_the_same_tick_is_accepted(agent: Client, session: str, tmp_path: Path) -> None:
    """The client answers as soon as it reads the question."""
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
    """R83: allow_always remembered only as documented: the very command, the very session; kept in the log."""
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
    """R83: allow_once is not remembered."""
    assert questions(agent, session, "run a command", "allow_once") == 1
    assert questions(agent, session, "run a command", "allow_once") == 1


def test_in_progress_is_not_shown_before_permission(agent: Client, session: str) -> None:
    """The card is pending until the call is allowed."""
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
    """R83: an unknown tool is refused to the model; nobody is asked."""
    assert questions(agent, session, "use what is not there", "allow_once") == 0
    [result] = log.events(agent.home, session, "tool/result")
    assert result["data"]["code"] == "UNKNOWN_TOOL"
