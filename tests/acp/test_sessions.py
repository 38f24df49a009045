"""Sessions: made, listed, loaded, resumed, closed and deleted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.client import Client, choosing, prompt_params
from support.log import kinds
from support.processes import gone, pids_in, writing_pids
from support.script import say, use, written

Start = Callable[..., Client]


def reopen(agent: Client, method: str, session: str, cwd: Path | str, **more: Any) -> tuple[list[Any], Any]:
    """Load or resume a session; return what was shown of it before the answer, but for the commands, and the answer."""
    mark = agent.mark
    answer = agent.answer(agent.request(method, {"sessionId": session, "cwd": str(cwd), "mcpServers": [], **more}))
    shown = agent.updates(session, since=mark, until=agent.place_of(answer))
    return [u for u in shown if u["sessionUpdate"] != "available_commands_update"], answer["result"]


def test_a_new_session_has_an_id_of_its_own(agent: Client, tmp_path: Path) -> None:
    """R39: session/new valid, id non-empty, unique."""
    ids = {agent.new_session(tmp_path) for _ in range(20)}
    assert len(ids) == 20
    assert all(ids)


@pytest.mark.parametrize(
    "params",
    [
        {"cwd": "relative", "mcpServers": []},
        {"cwd": "", "mcpServers": []},
        {"cwd": "./x", "mcpServers": []},
        {"cwd": "~", "mcpServers": []},
        {"cwd": "/", "mcpServers": "all"},
        {"cwd": "/", "mcpServers": [{"name": "x"}]},
        {"cwd": "/"},
        {"mcpServers": []},
        {"cwd": None, "mcpServers": []},
        {"cwd": "/tmp\0", "mcpServers": []},
        {"cwd": "/", "mcpServers": [], "additionalDirectories": ["relative"]},
        {"cwd": "/", "mcpServers": [], "additionalDirectories": "/"},
    ],
)
def test_a_session_that_is_asked_for_wrongly_is_refused(agent: Client, params: dict[str, Any]) -> None:
    """R40, R53: relative cwd, mcpServers missing or malformed, relative additional folder → -32602."""
    assert agent.refused("session/new", params).code == -32602


def test_null_for_a_list_is_an_empty_list(agent: Client, tmp_path: Path) -> None:
    """R40: mcpServers null → treated as empty."""
    assert agent.new_session(tmp_path, mcpServers=None, additionalDirectories=None)


def test_a_folder_that_does_not_exist_is_refused(agent: Client, tmp_path: Path) -> None:
    """A cwd that does not exist here is a clear error of the params."""
    failure = agent.refused("session/new", {"cwd": str(tmp_path / "none"), "mcpServers": []})
    assert failure.code == -32602
    failure = agent.refused("session/new", {"cwd": "C:\\Users\\x", "mcpServers": []})
    assert failure.code == -32602


def test_tools_work_in_the_sessions_folder_and_not_in_the_processs(agent: Client, session: str, tmp_path: Path) -> None:
    """R41: tools resolve relative paths against cwd, not the process directory."""
    agent.permit = choosing("allow_once")
    agent.prompted(session, "where are you")
    [shown] = agent.update("tool_call_update", session=session, status="completed")["content"]
    assert shown["content"]["text"].strip("`\n") == str(tmp_path)
    agent.prompted(session, "make a file")
    assert (tmp_path / "made.txt").read_text() == "made\n"


def test_nothing_about_a_new_session_comes_before_its_id(agent: Client, tmp_path: Path) -> None:
    """R42: no session/update for a new session before its response; commands follow after."""
    mark = agent.mark
    session = agent.new_session(tmp_path)
    commands = agent.update("available_commands_update", session=session, since=mark)
    assert "continue" in [command["name"] for command in commands["availableCommands"]]
    about = [m for m in agent.received[mark:] if session in str(m)]
    assert about[0].get("result", {}).get("sessionId") == session


def test_a_server_that_does_not_start_is_named_and_the_session_goes_on(agent: Client, tmp_path: Path) -> None:
    """R43: a failing server does not fail the session, nor silently; an entry without type is taken."""
    server = {"name": "weather", "command": "/bin/false", "args": [], "env": []}
    session = agent.new_session(tmp_path, mcpServers=[server])
    assert "weather" in agent.update("agent_message_chunk", session=session)["content"]["text"]
    assert agent.prompted(session, "say hello") == "end_turn"


def test_a_loaded_session_is_shown_as_it_was_before_the_answer(start: Start, tmp_path: Path) -> None:
    """R44: load replays user and agent chunks and tool calls in order, all before the response, none after."""
    (tmp_path / "kept.txt").write_text("old\n")
    first = start(permit=choosing("allow_once", "reject_once"))
    first.initialize()
    session = first.new_session(tmp_path)
    first.prompted(session, "do three things")
    first.prompted(session, "think first")
    live = first.updates(session)
    first.kill()
    second = start()
    second.initialize()
    replayed, _ = reopen(second, "session/load", session, tmp_path)
    mark = second.settle()
    assert [update["sessionUpdate"] for update in replayed] == [
        "user_message_chunk",
        "agent_message_chunk",
        "tool_call",
        "tool_call",
        "tool_call",
        "agent_message_chunk",
        "user_message_chunk",
        "agent_thought_chunk",
        "agent_message_chunk",
        "session_info_update",
    ]
    cards = [update for update in replayed if update["sessionUpdate"] == "tool_call"]
    assert [card["toolCallId"] for card in cards] == [
        update["toolCallId"] for update in live if update["sessionUpdate"] == "tool_call"
    ]
    assert [card["status"] for card in cards] == ["completed", "completed", "failed"]
    ends = [u["content"] for u in live if u["sessionUpdate"] == "tool_call_update" and "content" in u]
    assert [card["content"] for card in cards] == ends
    late = second.updates(session, since=second.place_of(second.answer(2)), until=mark)
    assert {update["sessionUpdate"] for update in late} <= {"available_commands_update"}


def test_messages_that_are_loaded_have_the_ids_they_had(start: Start, tmp_path: Path) -> None:
    """Stable distinct message and call ids, the same as live."""
    agent = start()
    agent.initialize()
    session = agent.new_session(tmp_path)
    agent.prompted(session, "say hello")
    agent.prompted(session, "think first")
    live = {u["messageId"] for u in agent.updates(session) if u["sessionUpdate"].startswith("agent_")}
    agent.kill()
    other = start()
    other.initialize()
    replayed, _ = reopen(other, "session/load", session, tmp_path)
    assert {u["messageId"] for u in replayed if u["sessionUpdate"].startswith("agent_")} == live
    assert len({u["messageId"] for u in replayed if u["sessionUpdate"] == "user_message_chunk"}) == 2


def test_a_session_loaded_in_the_same_minute_twice_is_whole(start: Start, tmp_path: Path) -> None:
    """New, prompt, load at once, load again: the history is intact both times."""
    agent = start()
    agent.initialize()
    session = agent.new_session(tmp_path)
    agent.prompted(session, "say hello")
    once, _ = reopen(agent, "session/load", session, tmp_path)
    again, _ = reopen(agent, "session/load", session, tmp_path)
    agent.kill()
    other = start()
    other.initialize()
    elsewhere, _ = reopen(other, "session/load", session, tmp_path)
    said = [u["content"]["text"] for u in once if "content" in u]
    assert said == ["say hello", "Hello, you."]
    assert once == again == elsewhere


def test_results_without_anything_to_say_are_empty_objects(agent: Client, session: str) -> None:
    """R45: empty results are {}, never null; load answers with an object too."""
    assert agent.call("session/set_mode", {"sessionId": session, "modeId": "plan"}) == {}
    loaded = agent.call("session/load", {"sessionId": session, "cwd": "/", "mcpServers": []})
    assert isinstance(loaded, dict)
    assert agent.call("session/close", {"sessionId": session}) == {}
    assert agent.call("session/delete", {"sessionId": session}) == {}


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_a_session_goes_on_in_the_next_process_with_all_that_was_said(
    start: Start, tmp_path: Path, method: str
) -> None:
    """R46 and R47: resume shows no history before the response; the model knows the context."""
    script = written(tmp_path / "turns.json", say("The first answer."), say("The second answer."), otherwise="")
    first = start(script=script)
    first.initialize()
    session = first.new_session(tmp_path)
    first.prompted(session, "one")
    first.kill()
    second = start(script=script)
    second.initialize()
    before, result = reopen(second, method, session, tmp_path)
    assert bool(before) == (method == "session/load")
    assert result["modes"]["currentModeId"] == "ask"
    second.update("available_commands_update", session=session)
    mark = second.mark
    assert second.prompted(session, "two") == "end_turn"
    [said] = second.updates(session, since=mark, kind="agent_message_chunk")
    assert said["content"]["text"] == "The second answer."  # the script answers by what the request holds


@pytest.mark.parametrize("unknown", ["", "AAAAAAAAAAAAAAAAAAAAAA", "../../../etc", "a/b", "x" * 10_000, "é\0"])
@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("session/prompt", {"prompt": [{"type": "text", "text": "x"}]}),
        ("session/load", {"cwd": "/", "mcpServers": []}),
        ("session/resume", {"cwd": "/"}),
        ("session/set_mode", {"modeId": "ask"}),
        ("session/set_config_option", {"configId": "mode", "value": "ask"}),
    ],
)
def test_an_unknown_session_is_not_found(agent: Client, method: str, more: dict[str, Any], unknown: str) -> None:
    """R48: unknown session → -32002 with data.sessionId; nothing is created."""
    failure = agent.refused(method, {"sessionId": unknown, **more})
    assert failure.code == -32002
    assert unknown.startswith(failure.data["sessionId"])
    assert unknown not in [entry["sessionId"] for entry in agent.call("session/list", {})["sessions"]]


def test_a_list_of_nothing_is_empty(agent: Client, tmp_path: Path) -> None:
    """R49: [] for an unused cwd."""
    assert agent.call("session/list", {"cwd": str(tmp_path / "unused")}) == {"sessions": []}


def test_a_new_session_is_listed_under_its_folder(agent: Client, session: str, tmp_path: Path) -> None:
    """R49: a new session appears, with its title once it has one."""
    agent.prompted(session, "say hello")
    [entry] = agent.call("session/list", {"cwd": str(tmp_path)})["sessions"]
    assert (entry["sessionId"], entry["cwd"], entry["title"]) == (session, str(tmp_path), "say hello")
    assert entry["updatedAt"].endswith("Z")


def test_a_list_goes_from_page_to_page_and_shows_each_session_once(start: Start, tmp_path: Path) -> None:
    """R49: pagination visits each once; the agent bounds the page."""
    agent = start()
    agent.initialize()
    made = {agent.new_session(tmp_path) for _ in range(52)}
    for session in made:
        agent.prompted(session, "say hello")
    listed: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = agent.call("session/list", {"cwd": str(tmp_path), **cursor})
        listed += [entry["sessionId"] for entry in page["sessions"]]
        if "nextCursor" not in page:
            break
        assert page["sessions"]
        cursor = {"cursor": page["nextCursor"]}
    assert sorted(listed) == sorted(made)


def test_a_session_that_nothing_was_asked_in_is_not_listed_and_can_be_loaded(
    agent: Client, session: str, tmp_path: Path
) -> None:
    """Not even by the process that it is open in: there is nothing to come back to, and no title to know it by."""
    assert agent.call("session/list", {"cwd": str(tmp_path)}) == {"sessions": []}
    assert reopen(agent, "session/load", session, tmp_path)[1]["modes"]["currentModeId"] == "ask"
    agent.prompted(session, "say hello")
    assert [entry["sessionId"] for entry in agent.call("session/list", {"cwd": str(tmp_path)})["sessions"]] == [session]


@pytest.mark.parametrize("cursor", ["", "nonsense", "é", "AAAA", "1" * 5000])
def test_a_cursor_that_is_none_of_ours_is_refused(agent: Client, cursor: str) -> None:
    """R50: invalid cursor → error."""
    assert agent.refused("session/list", {"cursor": cursor}).code == -32602


def test_a_deleted_session_is_gone_and_deleting_it_again_succeeds(agent: Client, session: str, tmp_path: Path) -> None:
    """R51: delete → {}, gone from the list, repeat succeeds."""
    agent.prompted(session, "say hello")
    assert agent.call("session/delete", {"sessionId": session}) == {}
    assert agent.call("session/list", {"cwd": str(tmp_path)}) == {"sessions": []}
    assert agent.call("session/delete", {"sessionId": session}) == {}
    assert agent.call("session/delete", {"sessionId": "never there"}) == {}
    assert not (agent.home / "sessions" / session).exists()
    assert agent.refused("session/load", {"sessionId": session, "cwd": "/", "mcpServers": []}).code == -32002


def test_an_idle_session_is_closed_and_can_be_loaded_again(agent: Client, session: str, tmp_path: Path) -> None:
    """R52: close idle → {}; closing what is closed or unknown succeeds."""
    agent.prompted(session, "say hello")
    assert agent.call("session/close", {"sessionId": session}) == {}
    assert agent.call("session/close", {"sessionId": session}) == {}
    assert agent.refused("session/prompt", prompt_params(session, "x")).code == -32002
    replayed, _ = reopen(agent, "session/load", session, tmp_path)
    assert replayed


def test_closing_ends_the_prompt_as_cancelled_and_what_it_started(start: Start, tmp_path: Path) -> None:
    """R52: close while prompting → prompt cancelled; children dead."""
    script = written(tmp_path / "s.json", use("run_command", command=writing_pids(tmp_path / "pids")))
    agent = start(script=script, permit=choosing("allow_once"))
    agent.initialize()
    session = agent.new_session(tmp_path)
    prompt = agent.prompt(session, "go")
    pids = pids_in(tmp_path / "pids")
    closing = agent.request("session/close", {"sessionId": session})
    assert agent.result(prompt) == {"stopReason": "cancelled"}
    assert agent.result(closing) == {}
    gone(pids, within_s=1)
    assert kinds(agent.home, session)[-3:] == ["tool/result", "step/end", "turn/end"]


def asks(agent: Client, session: str, text: str) -> bool:
    """Whether a prompt makes the agent ask for permission; it is rejected then."""
    agent.permit = choosing("reject_once")
    mark = agent.mark
    agent.prompted(session, text)
    return any(m.get("method") == "session/request_permission" for m in agent.received[mark:])


def test_further_folders_are_free_to_read_and_all_else_is_not(start: Start, tmp_path: Path) -> None:
    """R53: additionalDirectories accepted, file tools bounded by the root set."""
    for name in ("work", "more", "else"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_text(name)
    script = written(
        tmp_path / "s.json",
        use("read_file", path=str(tmp_path / "more" / "x.txt"), when="read more"),
        use("read_file", path=str(tmp_path / "else" / "x.txt"), when="read else"),
    )
    agent = start(script=script)
    assert "additionalDirectories" in agent.initialize()["agentCapabilities"]["sessionCapabilities"]
    with_more = agent.new_session(tmp_path / "work", additionalDirectories=[str(tmp_path / "more")])
    assert not asks(agent, with_more, "read more")
    assert asks(agent, with_more, "read else")
    entry = next(e for e in agent.call("session/list", {})["sessions"] if e["sessionId"] == with_more)
    assert entry["additionalDirectories"] == [str(tmp_path / "more")]
    without = agent.new_session(tmp_path / "work")
    assert asks(agent, without, "read more")
    reopen(agent, "session/load", with_more, tmp_path / "work")  # what the client sends is the list, open or not
    assert asks(agent, with_more, "read more")


def test_mode_and_model_are_what_they_were_after_a_restart(start: Start, tmp_path: Path) -> None:
    """Returned options equal the last ones set."""
    first = start()
    first.initialize()
    session = first.new_session(tmp_path)
    first.prompted(session, "say hello")
    first.call("session/set_mode", {"sessionId": session, "modeId": "plan"})
    first.kill()
    second = start()
    second.initialize()
    _, result = reopen(second, "session/load", session, tmp_path)
    assert result["modes"]["currentModeId"] == "plan"
    assert {o["id"]: o["currentValue"] for o in result["configOptions"]}["mode"] == "plan"


def test_a_session_is_found_by_another_spelling_of_its_folder(agent: Client, tmp_path: Path) -> None:
    """New under a symlink; listed by the real path, and the other way round."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    session = agent.new_session(tmp_path / "link")
    agent.prompted(session, "say hello")
    for spelling in ("real", "link", "./real/../link"):
        listed = agent.call("session/list", {"cwd": f"{tmp_path}/{spelling}"})["sessions"]
        assert [entry["sessionId"] for entry in listed] == [session], spelling


def test_a_verbatim_prefix_is_taken_from_a_folder_once(agent: Client, tmp_path: Path) -> None:
    """A cwd with Windows' verbatim prefix is normalised at entry; a resume by another spelling works."""
    session = agent.new_session(f"\\\\?\\{tmp_path}")
    agent.prompted(session, "say hello")
    [entry] = agent.call("session/list", {"cwd": str(tmp_path)})["sessions"]
    assert (entry["sessionId"], entry["cwd"]) == (session, str(tmp_path))


def test_an_open_session_is_loaded_with_other_servers_only_between_turns(agent: Client, tmp_path: Path) -> None:
    """What a client names on load is what holds; a resume without a list of servers names none."""
    session = agent.new_session(tmp_path)
    server = {"type": "http", "name": "far", "url": "http://localhost:1", "headers": []}
    params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": [server]}
    prompt = agent.prompt(session, "never end")
    agent.update("agent_message_chunk", session=session)
    assert agent.refused("session/load", params).code == -32600
    agent.call("session/load", params | {"mcpServers": []})
    agent.call("session/resume", {"sessionId": session, "cwd": str(tmp_path)})
    agent.cancel(session)
    agent.result(prompt)
    mark = agent.mark
    agent.call("session/load", params)
    agent.wait_for(lambda message: "not called: far" in str(message.get("params", "")), since=mark)
