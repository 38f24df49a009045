"""Cancelling, in every phase of a turn and at every moment around it."""

import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from support import log
from support.client import DISMISSED, Client, prompt_params, selected
from support.processes import gone, pids_in, writing_pids
from support.script import fail, hang, pieces, say, use, use_all, written

Start = Callable[..., Client]

ENDLESS = hang("I begin", " and never end", when="stream")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[Client]:
    folder = tmp_path_factory.mktemp("cancel")
    script = written(
        folder / "s.json",
        say("Hello, you.", when="say hello"),  # first: a prompt may stand in one message with an earlier, cancelled one
        ENDLESS,
        pieces({"text": "word "}, {"text": "and "}, {"text": "on ", "repeat": 100_000_000}, when="flood"),
        hang(when="think"),
        use("run_command", command="touch ran", when="ask me"),
        use_all(("run_command", {"command": "touch ran"}), ("run_command", {"command": "touch ran"}), when="ask twice"),
        fail("rate_limit", retry_after_s=60.0, when="wait and retry"),
        use("run_command", command=writing_pids(Path("pids")), when="sleep"),
    )
    with Client(folder / "home", script) as client:
        client.initialize()
        yield client


@pytest.fixture
def agent(shared: Client) -> Client:
    return shared


@pytest.fixture
def session(agent: Client, tmp_path: Path) -> str:
    return agent.new_session(tmp_path)


def usable(agent: Client, session: str) -> None:
    """Fail unless the session takes its next prompt as ever, and its log has nothing open."""
    assert agent.prompted(session, "say hello") == "end_turn"
    kinds = log.kinds(agent.home, session)
    assert kinds.count("turn/start") == kinds.count("turn/end")
    assert kinds.count("step/start") == kinds.count("step/end")
    requests = [
        block["callId"]
        for event in log.events(agent.home, session, "assistant/message")
        for block in event["data"]["content"]
        if "callId" in block
    ]
    results = [event["data"]["callId"] for event in log.events(agent.home, session, "tool/result")]
    assert sorted(requests) == sorted(results)


def cancelled_quietly(agent: Client, session: str, prompt: int) -> None:
    """Fail unless a prompt is answered as cancelled, once, with nothing about the session after it."""
    assert agent.result(prompt, timeout_s=3) == {"stopReason": "cancelled"}
    place = agent.place_of(agent.answer(prompt))
    end = agent.settle()
    assert agent.updates(session, since=place, until=end) == []
    answers = [m for m in agent.received if m.get("id") == prompt and "method" not in m]
    assert len(answers) == 1


def test_a_cancel_while_the_model_streams_ends_the_turn_as_cancelled(agent: Client, session: str) -> None:
    """R71, R72, R79: cancel mid-stream → result cancelled, never an error; no update after that response."""
    prompt = agent.prompt(session, "stream")
    agent.update("agent_message_chunk", session=session)
    agent.cancel(session)
    cancelled_quietly(agent, session, prompt)
    said = "".join(u["content"]["text"] for u in agent.updates(session, kind="agent_message_chunk"))
    [kept] = log.events(agent.home, session, "assistant/message")
    assert kept["data"]["interrupted"] is True
    assert kept["data"]["content"] == [{"type": "text", "text": said}]
    usable(agent, session)


def test_a_cancel_of_a_flood_is_heard(agent: Client, session: str) -> None:
    """R71: a model that never pauses for breath does not keep the cancel out."""
    prompt = agent.prompt(session, "flood")
    agent.update("agent_message_chunk", session=session)
    agent.cancel(session)
    cancelled_quietly(agent, session, prompt)
    usable(agent, session)


def test_a_cancel_before_the_models_first_word_shows_no_word(agent: Client, session: str) -> None:
    """R71: cancelled while the model thinks; no agent chunk is invented."""
    prompt = agent.prompt(session, "think")
    log.wait_for_event(agent.home, session, "step/start")
    agent.cancel(session)
    cancelled_quietly(agent, session, prompt)
    assert agent.updates(session, kind="agent_message_chunk") == []
    usable(agent, session)


@pytest.mark.parametrize("first", ["cancel", "answer"])
def test_a_cancel_during_a_question_runs_nothing_in_either_order(
    agent: Client, session: str, tmp_path: Path, first: str
) -> None:
    """R73, R79: outcome cancelled → tool not run, prompt cancelled, in both arrival orders."""
    prompt = agent.prompt(session, "ask me")
    asked = agent.asked(session=session)
    if first == "answer":
        agent.reply(asked, DISMISSED)
    agent.cancel(session)
    if first == "cancel":
        agent.reply(asked, DISMISSED)
    cancelled_quietly(agent, session, prompt)
    assert not (tmp_path / "ran").exists()
    [result] = log.events(agent.home, session, "tool/result")
    assert result["data"]["code"] == "ABORTED_BEFORE_DISPATCH"
    assert "tool/call" not in log.kinds(agent.home, session)
    usable(agent, session)


@pytest.mark.parametrize("order", ["yes, cancel", "cancel, yes"])
def test_a_yes_and_a_cancel_in_one_write_end_the_turn_as_cancelled(
    agent: Client, session: str, tmp_path: Path, order: str
) -> None:
    """R73: a yes that comes with the cancel wins nothing: the prompt is cancelled, and a yes after it is void."""
    prompt = agent.prompt(session, "ask me")
    asked = agent.asked(session=session)
    yes = {"id": asked["id"], "result": selected(asked["params"], "allow_once")}
    cancel = {"method": "session/cancel", "params": {"sessionId": session}}
    agent.send(*([yes, cancel] if order == "yes, cancel" else [cancel, yes]))
    cancelled_quietly(agent, session, prompt)
    assert not (tmp_path / "ran").exists()
    usable(agent, session)


def test_a_question_is_taken_back_and_a_late_answer_changes_nothing(
    agent: Client, session: str, tmp_path: Path
) -> None:
    """R78: outstanding client requests get $/cancel_request; a missing reply does not hang, a late one is void."""
    prompt = agent.prompt(session, "ask me")
    asked = agent.asked(session=session)
    agent.cancel(session)
    cancelled_quietly(agent, session, prompt)
    taken_back = agent.wait_for(lambda m: m.get("method") == "$/cancel_request")
    assert taken_back["params"] == {"requestId": asked["id"]} or any(
        m.get("method") == "$/cancel_request" and m["params"] == {"requestId": asked["id"]} for m in agent.received
    )
    agent.reply(asked, selected(asked["params"], "allow_once"))
    usable(agent, session)
    assert not (tmp_path / "ran").exists()


def test_after_a_cancelled_question_the_next_one_is_not_asked(agent: Client, session: str, tmp_path: Path) -> None:
    """R73: of two calls, the cancel at the first ends both."""
    prompt = agent.prompt(session, "ask twice")
    agent.reply(agent.asked(session=session), DISMISSED)
    cancelled_quietly(agent, session, prompt)
    assert len([m for m in agent.received if m.get("method", "").endswith("permission") and session in str(m)]) == 1
    codes = [event["data"]["code"] for event in log.events(agent.home, session, "tool/result")]
    assert codes == ["ABORTED_BEFORE_DISPATCH"] * 2
    usable(agent, session)


def test_a_cancel_during_a_command_ends_its_whole_tree_within_a_second(
    agent: Client, session: str, tmp_path: Path
) -> None:
    """R74, R79: cancel during a tool: the process tree is gone within 1 s; the result says ABORTED."""
    prompt = agent.prompt(session, "sleep")
    asked = agent.asked(session=session)
    agent.reply(asked, selected(asked["params"], "allow_once"))
    pids = pids_in(tmp_path / "pids")
    began = time.monotonic()
    agent.cancel(session)
    gone(pids, within_s=1)
    cancelled_quietly(agent, session, prompt)
    assert time.monotonic() - began < 2
    [result] = log.events(agent.home, session, "tool/result")
    assert result["data"]["code"] == "ABORTED"
    assert agent.update("tool_call_update", session=session, status="failed")
    usable(agent, session)


def test_a_cancel_while_a_retry_is_waited_for_ends_the_wait(agent: Client, session: str) -> None:
    """R71: cancelled between two attempts; no further request is made."""
    prompt = agent.prompt(session, "wait and retry")
    log.wait_for_event(agent.home, session, "request/failed")
    agent.cancel(session)
    cancelled_quietly(agent, session, prompt)
    assert len(log.events(agent.home, session, "request/failed")) == 1
    usable(agent, session)


def test_a_cancel_in_the_same_write_as_the_prompt_is_heard(agent: Client, session: str) -> None:
    """R75: cancel in the same write as the prompt → cancelled."""
    prompt = agent.made("session/prompt", prompt_params(session, "stream"))
    agent.send(prompt, {"method": "session/cancel", "params": {"sessionId": session}})
    cancelled_quietly(agent, session, prompt["id"])
    usable(agent, session)


def test_an_idle_cancel_is_nothing(agent: Client, session: str) -> None:
    """R76: cancel when idle or for an unknown session: ignored; next prompt normal."""
    before = log.kinds(agent.home, session)
    mark = agent.mark
    agent.cancel(session)
    agent.cancel("no such session")
    assert agent.settle() == mark + 1
    assert log.kinds(agent.home, session) == before
    usable(agent, session)


def test_a_cancel_in_the_same_write_before_the_prompt_is_not_its_own(agent: Client, session: str) -> None:
    """R76: a cancel acts on what came before it, and on nothing after."""
    prompt = agent.made("session/prompt", prompt_params(session, "say hello"))
    agent.send({"method": "session/cancel", "params": {"sessionId": session}}, prompt)
    assert agent.result(prompt["id"]) == {"stopReason": "end_turn"}


def test_cancelling_twice_is_cancelling_once(agent: Client, session: str) -> None:
    """R71: a second cancel finds nothing more to do, and nothing of the next prompt."""
    prompt = agent.prompt(session, "stream")
    agent.update("agent_message_chunk", session=session)
    cancel = {"method": "session/cancel", "params": {"sessionId": session}}
    hello = agent.made("session/prompt", prompt_params(session, "say hello"))
    agent.send(cancel, cancel, hello)
    assert agent.result(prompt) == {"stopReason": "cancelled"}
    assert agent.result(hello["id"]) == {"stopReason": "end_turn"}


def test_a_cancel_drops_the_prompts_that_wait(agent: Client, session: str) -> None:
    """R66, R71: what waits behind the cancelled turn is cancelled too, each answered once."""
    running = agent.prompt(session, "stream")
    waiting = [agent.prompt(session, "say hello") for _ in range(3)]
    agent.update("agent_message_chunk", session=session)
    agent.cancel(session)
    for prompt in (running, *waiting):
        assert agent.result(prompt) == {"stopReason": "cancelled"}
    assert len(log.events(agent.home, session, "input/dropped")) == 3
    usable(agent, session)


def test_fifty_times_cancel_and_prompt_at_once_wedge_nothing(agent: Client, session: str) -> None:
    """Cancel, then prompt at once, 50 times."""
    prompt = agent.prompt(session, "stream")
    for round_ in range(50):
        following = agent.made("session/prompt", prompt_params(session, "stream" if round_ % 2 else "think"))
        agent.send({"method": "session/cancel", "params": {"sessionId": session}}, following)
        assert agent.result(prompt) == {"stopReason": "cancelled"}
        prompt = following["id"]
    agent.cancel(session)
    assert agent.result(prompt) == {"stopReason": "cancelled"}
    usable(agent, session)


@pytest.mark.parametrize("phase", ["stream", "think", "ask me", "sleep"])
def test_a_prompt_taken_back_by_its_id_is_answered_once(agent: Client, session: str, phase: str) -> None:
    """R77: $/cancel_request of a prompt → result or -32800, once; the rest of the queue goes on."""
    prompt = agent.prompt(session, phase)
    following = agent.prompt(session, "say hello")
    if phase in ("ask me", "sleep"):
        agent.asked(session=session)
    else:
        log.wait_for_event(agent.home, session, "step/start")
    agent.notify("$/cancel_request", {"requestId": prompt})
    answer = agent.answer(prompt)
    assert answer.get("result") == {"stopReason": "cancelled"} or answer["error"]["code"] == -32800
    assert agent.result(following) == {"stopReason": "end_turn"}
    usable(agent, session)


def test_a_waiting_prompt_taken_back_leaves_the_running_one_alone(agent: Client, session: str) -> None:
    """R77: it acts on the request that it names."""
    running = agent.prompt(session, "stream")
    waiting = agent.prompt(session, "say hello")
    agent.notify("$/cancel_request", {"requestId": waiting})
    assert agent.result(waiting) == {"stopReason": "cancelled"}
    assert not [m for m in agent.received if m.get("id") == running and "method" not in m]
    agent.cancel(session)
    assert agent.result(running) == {"stopReason": "cancelled"}


@pytest.mark.parametrize("request_id", [999_999, "none", None, True, 1.5, {"x": 1}])
def test_taking_back_what_is_not_there_is_nothing(agent: Client, session: str, request_id: object) -> None:
    """R77: unknown id ignored, also one of no type that an id may have."""
    mark = agent.mark
    agent.notify("$/cancel_request", {"requestId": request_id})
    assert agent.settle() == mark + 1


def test_a_session_new_taken_back_is_answered_once(agent: Client, tmp_path: Path) -> None:
    """R77: $/cancel_request of session/new in the same write → a session or -32800, once; no half of either."""
    made = agent.made("session/new", {"cwd": str(tmp_path), "mcpServers": []})
    agent.send(made, {"method": "$/cancel_request", "params": {"requestId": made["id"]}})
    answer = agent.answer(made["id"])
    agent.settle()
    assert len([m for m in agent.received if m.get("id") == made["id"] and "method" not in m]) == 1
    listed = agent.call("session/list", {"cwd": str(tmp_path)})["sessions"]
    if "error" in answer:
        assert answer["error"]["code"] == -32800
        assert listed == []
    else:
        assert agent.prompted(answer["result"]["sessionId"], "say hello") == "end_turn"
    assert agent.prompted(agent.new_session(tmp_path), "say hello") == "end_turn"
