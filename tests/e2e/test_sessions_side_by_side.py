"""Two sessions on one connection, and two processes on one store."""

from collections.abc import Callable
from pathlib import Path

from support import log
from support.client import Client, choosing, selected
from support.processes import eventually, pids_in, writing_pids
from support.script import hang, say, use, written

Start = Callable[..., Client]


def test_a_slow_command_in_one_session_does_not_delay_the_other(start: Start, tmp_path: Path) -> None:
    """R25: A runs a long command in /a; B's pwd answers at once, in /b; no update crosses over."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    script = written(
        tmp_path / "s.json",
        use("run_command", command=writing_pids(tmp_path / "pids"), when="be slow"),
        use("run_command", command="pwd", when="where are you"),
    )
    agent = start(script, permit=choosing("allow_once"))
    agent.initialize()
    a, b = agent.new_session(tmp_path / "a"), agent.new_session(tmp_path / "b")
    slow = agent.prompt(a, "be slow")
    pids_in(tmp_path / "pids")
    mark = agent.mark
    assert agent.prompted(b, "where are you") == "end_turn"
    [shown] = agent.update("tool_call_update", session=b, status="completed")["content"]
    assert shown["content"]["text"].strip("`\n") == str(tmp_path / "b")
    assert agent.updates(a, since=mark) == []
    agent.cancel(a)
    assert agent.result(slow) == {"stopReason": "cancelled"}


def test_cancelling_one_session_leaves_the_other_alone(start: Start, tmp_path: Path) -> None:
    """R71: a cancel names its session; the question of the other stays open and can be answered."""
    script = written(
        tmp_path / "s.json",
        hang("I begin", when="stream"),
        use("run_command", command="touch ran", when="ask me"),
    )
    agent = start(script)
    agent.initialize()
    a, b = agent.new_session(tmp_path), agent.new_session(tmp_path)
    streaming, asking = agent.prompt(a, "stream"), agent.prompt(b, "ask me")
    asked = agent.asked(session=b)
    agent.update("agent_message_chunk", session=a)
    agent.cancel(a)
    assert agent.result(streaming) == {"stopReason": "cancelled"}
    agent.reply(asked, selected(asked["params"], "allow_once"))
    assert agent.result(asking) == {"stopReason": "end_turn"}
    assert (tmp_path / "ran").exists()


def test_updates_of_two_streams_never_cross(start: Start, tmp_path: Path) -> None:
    """R56: two long streams at once: each session gets its own words, whole and in order."""
    words = {name: [f"{name}{i} " for i in range(500)] for name in ("a", "b")}
    script = written(
        tmp_path / "s.json",
        *({"when": f"say {name}", "deltas": [{"text": word} for word in said]} for name, said in words.items()),
    )
    agent = start(script)
    agent.initialize()
    sessions = {name: agent.new_session(tmp_path) for name in words}
    prompts = [agent.prompt(session, f"say {name}") for name, session in sessions.items()]
    for prompt in prompts:
        assert agent.result(prompt) == {"stopReason": "end_turn"}
    for name, session in sessions.items():
        said = "".join(u["content"]["text"] for u in agent.updates(session, kind="agent_message_chunk"))
        assert said == "".join(words[name])


def test_two_news_in_one_write_are_two_sessions(start: Start, tmp_path: Path) -> None:
    """editors: a client can fire two session/new at once."""
    agent = start(written(tmp_path / "s.json", say("Hello.")))
    agent.initialize()
    news = [agent.made("session/new", {"cwd": str(tmp_path), "mcpServers": []}) for _ in range(2)]
    agent.send(*news)
    ids = {agent.result(new["id"])["sessionId"] for new in news}
    assert len(ids) == 2
    for session in ids:
        assert agent.prompted(session, "x") == "end_turn"


def test_two_loads_in_one_write_both_show_the_session(start: Start, tmp_path: Path) -> None:
    """Two loads of one session at once: both are answered, and the session goes on."""
    first = start(written(tmp_path / "s.json", say("Hello.")))
    first.initialize()
    session = first.new_session(tmp_path)
    first.prompted(session, "x")
    first.kill()
    agent = start(tmp_path / "s.json")
    agent.initialize()
    params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
    loads = [agent.made("session/load", params) for _ in range(2)]
    agent.send(*loads)
    for load in loads:
        assert agent.result(load["id"])["modes"]
    assert agent.prompted(session, "y") == "end_turn"


def test_a_second_process_is_told_who_holds_the_session(start: Start, tmp_path: Path) -> None:
    """Loaded in two processes: an error of its own; taken at once when the owner is dead."""
    owner = start(written(tmp_path / "s.json", say("Hello.")))
    owner.initialize()
    session = owner.new_session(tmp_path)
    owner.prompted(session, "x")
    other = start(tmp_path / "s.json")
    other.initialize()
    params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
    refusal = other.refused("session/load", params)
    assert refusal.code == -31001
    assert str(owner.process.pid) in refusal.data["details"]
    owner.kill()
    other.call("session/load", params)
    assert other.prompted(session, "y") == "end_turn"
    assert log.kinds(other.home, session).count("turn/end") == 2


def test_a_prompt_survives_a_kill_at_any_moment_of_its_turn(start: Start, tmp_path: Path) -> None:
    """Killed while streaming, asking and running; nothing runs again, nothing is invented."""
    script = written(
        tmp_path / "s.json",
        hang("I begin", when="stream"),
        use("run_command", command="touch asked", when="ask me"),
        use("run_command", command=f"echo once >> '{tmp_path}/file'; {writing_pids(tmp_path / 'pids')}", when="run it"),
    )
    first = start(script)
    first.initialize()
    sessions = {text: first.new_session(tmp_path) for text in ("stream", "ask me", "run it")}
    for text, session in sessions.items():
        first.prompt(session, text)
    asked = first.asked(session=sessions["run it"])
    first.reply(asked, selected(asked["params"], "allow_once"))
    first.asked(session=sessions["ask me"])
    first.update("agent_message_chunk", session=sessions["stream"])
    pids_in(tmp_path / "pids")
    log.wait_for_event(first.home, sessions["stream"], "assistant/delta")
    log.wait_for_event(first.home, sessions["ask me"], "permission/asked")  # no barrier: it comes within 200 ms
    first.kill()
    second = start(script)
    second.initialize()
    for text, session in sessions.items():
        for _ in range(2):  # repaired once: a second load adds nothing
            mark = second.mark
            second.call("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
            assert second.update("user_message_chunk", session=session, since=mark)["content"]["text"] == text
            second.call("session/close", {"sessionId": session})
    repaired = {text: [e for e in log.events(second.home, s) if e.get("synthetic")] for text, s in sessions.items()}
    assert [event["type"] for event in repaired["stream"]] == ["assistant/message", "step/end", "turn/end"]
    for text, code in (("ask me", "TOOL_NOT_STARTED"), ("run it", "TOOL_OUTCOME_UNKNOWN")):
        assert [event["type"] for event in repaired[text]] == ["tool/result", "step/end", "turn/end"]
        assert repaired[text][0]["data"]["code"] == code
    assert (tmp_path / "file").read_text() == "once\n"
    assert not (tmp_path / "asked").exists()
    words = second.update("tool_call", session=sessions["run it"])["content"][0]["content"]["text"]
    assert "Outcome unknown" in words


def test_a_session_goes_on_where_it_was_cut_without_a_new_message(start: Start, tmp_path: Path) -> None:
    """Killed while the model was at work; /continue makes the same request again, with no invented turn."""
    script = written(tmp_path / "s.json", {"deltas": [{"text": "Half"}, {"wait_for": "go"}, {"text": " and whole."}]})
    first = start(script)
    first.initialize()
    session = first.new_session(tmp_path)
    first.prompt(session, "x")
    log.wait_for_event(first.home, session, "step/start")
    first.kill()
    (tmp_path / "go").touch()
    second = start(script)
    second.initialize()
    second.call("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
    mark = second.mark
    assert second.prompted(session, "/continue") == "end_turn"
    said = second.updates(session, since=mark, kind="agent_message_chunk")
    assert "".join(u["content"]["text"] for u in said).endswith("Half and whole.")
    messages = log.events(second.home, session, "user/message")
    assert [m["data"]["content"][0]["text"] for m in messages] == ["x"]
    assert second.refused("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "/continue"}]})
    eventually(lambda: log.kinds(second.home, session)[-1] == "turn/end", "the end of the turn")


def test_closing_and_loading_in_one_write_close_and_load(start: Start, tmp_path: Path) -> None:
    """R52: close, close, load in one write: each waits for the one before it, and the session goes on."""
    agent = start(written(tmp_path / "s.json", say("Hello.")))
    agent.initialize()
    session = agent.new_session(tmp_path)
    agent.prompted(session, "x")
    params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
    requests = [agent.made("session/close", {"sessionId": session}) for _ in range(2)]
    requests += [agent.made("session/load", params)]
    agent.send(*requests)
    for request in requests:
        agent.result(request["id"])
    assert agent.prompted(session, "y") == "end_turn"


def test_a_session_loaded_in_the_middle_of_its_turn_is_shown_and_goes_on_live(start: Start, tmp_path: Path) -> None:
    """D40: loading a session that is open here replays from memory, also during a turn, and goes on live."""
    deltas = [{"text": "The first half, "}, {"wait_for": "go"}, {"text": "and the second."}]
    agent = start(written(tmp_path / "s.json", {"deltas": deltas}))
    agent.initialize()
    session = agent.new_session(tmp_path)
    prompt = agent.prompt(session, "x")
    agent.update("agent_message_chunk", session=session)
    mark = agent.mark
    agent.call("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
    (tmp_path / "go").touch()
    assert agent.result(prompt) == {"stopReason": "end_turn"}
    shown = agent.updates(session, since=mark)
    assert [u["content"]["text"] for u in shown if u["sessionUpdate"] == "user_message_chunk"] == ["x"]
    chunks = [u for u in shown if u["sessionUpdate"] == "agent_message_chunk"]
    assert "".join(chunk["content"]["text"] for chunk in chunks) == "The first half, and the second."
    assert len({chunk["messageId"] for chunk in chunks}) == 1
