"""Prompts and the updates they set off."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import log
from support.client import Client, choosing, prompt_params
from support.script import fail, say, use, use_all, written

Start = Callable[..., Client]


def turn(agent: Client, session: str, text: str) -> list[dict[str, Any]]:
    """Run a turn to its end and return its updates."""
    mark = agent.mark
    prompt = agent.prompt(session, text)
    agent.result(prompt)
    return agent.updates(session, since=mark, until=agent.place_of(agent.answer(prompt)))


def test_a_text_prompt_ends_with_a_stop_reason(agent: Client, session: str) -> None:
    """R55: a text prompt ends with end_turn and not with cancelled."""
    assert agent.prompted(session, "say hello") == "end_turn"


@pytest.mark.parametrize(("stop", "reason"), [("length", "max_tokens"), ("refusal", "refusal"), ("end", "end_turn")])
def test_the_models_end_is_the_turns_end(start: Start, tmp_path: Path, stop: str, reason: str) -> None:
    """R55: each stop reason of the protocol that a model can bring about."""
    agent = start(script=written(tmp_path / "s.json", say("So far.", stop=stop)))
    agent.initialize()
    session = agent.new_session(tmp_path)
    assert agent.prompted(session, "x") == reason
    assert agent.prompted(session, "and on") == "end_turn"


def test_a_turn_that_asks_too_often_ends_with_max_turn_requests(start: Start, tmp_path: Path) -> None:
    """R55: at the request limit the text so far is shown and the reason is max_turn_requests."""
    steps = [use("list_files", text=f"Step {i}.") for i in range(9)]
    environment = {"ACP_BRIDGE_AGENT_MAX_REQUESTS": "3"}
    agent = start(script=written(tmp_path / "s.json", *steps), environment=environment)
    agent.initialize()
    session = agent.new_session(tmp_path)
    assert agent.prompted(session, "x") == "max_turn_requests"
    said = [u["content"]["text"] for u in agent.updates(session, kind="agent_message_chunk")]
    assert said == ["Step 0.", "Step 1.", "Step 2."]


def test_every_update_names_its_session(agent: Client, tmp_path: Path) -> None:
    """R56: every update schema-valid (the client judges each) with the right sessionId."""
    sessions = [agent.new_session(tmp_path) for _ in range(3)]
    prompts = [agent.prompt(session, f"say hello {session}") for session in sessions]
    for prompt in prompts:
        agent.result(prompt)
    for session in sessions:
        titles = [u["title"] for u in agent.updates(session, kind="session_info_update")]
        assert titles == [f"say hello {session}"]
        assert [u["content"]["text"] for u in agent.updates(session, kind="agent_message_chunk")] == ["Hello, you."]


def test_a_resource_link_is_taken_and_reaches_the_log(agent: Client, session: str) -> None:
    """R57: resource_link accepted."""
    link = {"type": "resource_link", "uri": "file:///a/b.py", "name": "b.py", "size": 5, "title": None}
    params = {"sessionId": session, "prompt": [{"type": "text", "text": "say hello"}, link]}
    assert agent.call("session/prompt", params) == {"stopReason": "end_turn"}
    [message] = log.events(agent.home, session, "user/message")
    assert message["data"]["content"][1]["uri"] == "file:///a/b.py"


def test_an_embedded_text_is_taken_since_it_is_advertised(agent: Client, session: str) -> None:
    """R58: resource accepted when advertised, and its text reaches the log."""
    resource = {"type": "resource", "resource": {"uri": "file:///a", "text": "the content", "mimeType": "text/x"}}
    params = {"sessionId": session, "prompt": [resource, {"type": "text", "text": "say hello"}]}
    assert agent.call("session/prompt", params) == {"stopReason": "end_turn"}
    [message] = log.events(agent.home, session, "user/message")
    assert message["data"]["content"][0]["text"] == "the content"


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


@pytest.mark.parametrize(
    ("capability", "block"),
    [
        ("image", {"type": "image", "data": PIXEL, "mimeType": "image/png"}),
        ("audio", {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}),
    ],
)
def test_a_block_is_taken_exactly_if_it_is_advertised(
    start: Start, tmp_path: Path, capability: str, block: dict[str, Any]
) -> None:
    """R58: image and audio accepted when advertised; -32602 when not, and no turn begins."""
    agent = start()
    advertised = agent.initialize()["agentCapabilities"]["promptCapabilities"][capability]
    session = agent.new_session(tmp_path)
    answer = agent.answer(
        agent.request(
            "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "say hello"}, block]}
        )
    )
    if advertised:
        assert answer["result"] == {"stopReason": "end_turn"}
    else:
        assert answer["error"]["code"] == -32602
        assert "user/message" not in log.kinds(agent.home, session)


@pytest.mark.parametrize(
    "block",
    [{"type": "hologram"}, {"type": "text"}, {"text": "x"}, {}, "text", None, {"type": "text", "text": 5}],
)
def test_a_block_that_is_none_is_refused(agent: Client, session: str, block: object) -> None:
    """R58: what is no content block → -32602."""
    assert agent.refused("session/prompt", {"sessionId": session, "prompt": [block]}).code == -32602


def test_the_end_of_a_call_carries_its_output_for_those_who_keep_only_that(agent: Client, session: str) -> None:
    agent.permit = choosing("allow_once")
    agent.prompted(session, "where are you")
    ended = agent.update("tool_call_update", session=session, status="completed")
    cwd = next(m["params"]["cwd"] for m in agent.sent[::-1] if m.get("method") == "session/new")
    assert cwd in ended["rawOutput"]["output"]
    mark = agent.mark
    agent.call("session/load", {"sessionId": session, "cwd": cwd, "mcpServers": []})
    assert agent.update("tool_call", session=session, since=mark)["rawOutput"] == ended["rawOutput"]


def test_a_refused_prompt_leaves_no_image_behind(agent: Client, session: str) -> None:
    picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    sound = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
    refused = agent.refused("session/prompt", {"sessionId": session, "prompt": [picture, sound]})
    assert (refused.code, refused.message) == (-32602, "prompt.1: audio is not taken")
    agent.prompted(session, "say hello")
    assert [file.name for file in (agent.home / "sessions" / session).iterdir()] == ["log.jsonl"]


@pytest.mark.parametrize("size", [-1, 2**53 + 1, 2**80])
def test_a_size_that_is_none_is_refused(agent: Client, session: str, size: int) -> None:
    link = {"type": "resource_link", "uri": "file:///a/b.py", "name": "b.py", "size": size}
    assert agent.refused("session/prompt", {"sessionId": session, "prompt": [link]}).code == -32602


def test_each_answer_to_a_slash_command_is_a_message_of_its_own(agent: Client, session: str) -> None:
    for _ in range(2):
        agent.prompted(session, "/permissions")
    chunks = agent.updates(session, kind="agent_message_chunk")
    assert len({chunk["messageId"] for chunk in chunks}) == len(chunks) == 2


def test_no_object_has_a_member_that_the_schema_does_not_name(agent: Client, session: str) -> None:
    """R59: no root key outside the schema on any outgoing object; the client's judge is shown to see them."""
    from support.schema import faults

    agent.permit = choosing("allow_once")
    turn(agent, session, "do three things")
    agent.check()
    update = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "colour": "red"}
    bad = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}
    assert any("colour" in fault for fault in faults(bad))


def test_all_updates_precede_the_answer_and_then_it_is_quiet(agent: Client, session: str) -> None:
    """R60: all updates precede the response; quiet after."""
    agent.permit = choosing("allow_once")
    prompt = agent.prompt(session, "do three things")
    agent.result(prompt)
    place = agent.place_of(agent.answer(prompt))
    end = agent.settle()
    assert agent.updates(session, since=place, until=end) == []


def test_a_call_is_announced_moves_forward_and_is_closed(agent: Client, session: str) -> None:
    """R61: each update names an announced call; status moves only forward; none is left open at the end."""
    agent.permit = choosing("allow_once", "reject_once")
    statuses: dict[str, list[str]] = {}
    for update in turn(agent, session, "do three things"):
        if update["sessionUpdate"] == "tool_call":
            assert update["toolCallId"] not in statuses
            statuses[update["toolCallId"]] = [update["status"]]
        elif update["sessionUpdate"] == "tool_call_update" and "status" in update:
            statuses[update["toolCallId"]].append(update["status"])
    assert list(statuses.values()) == [
        ["pending", "in_progress", "completed"],
        ["pending", "in_progress", "completed"],
        ["pending", "failed"],
    ]


def test_the_chunks_of_a_message_are_its_text_and_messages_have_ids_of_their_own(agent: Client, session: str) -> None:
    """R62: concatenated chunks with one messageId equal the full text; ids distinct per message."""
    agent.permit = choosing("allow_once")
    for text in ("think first", "do three things"):
        turn(agent, session, text)
    texts: dict[str, str] = {}
    for update in agent.updates(session):
        if update["sessionUpdate"] == "agent_message_chunk":
            texts[update["messageId"]] = texts.get(update["messageId"], "") + update["content"]["text"]
    assert list(texts.values()) == ["One, two.", "Three things.", "Done."]
    stored = log.events(agent.home, session, "assistant/message")
    assert list(texts) == [event["data"]["id"] for event in stored]


def test_a_plan_is_shown_whole_each_time(start: Start, tmp_path: Path) -> None:
    """R63: plan updates hold the full list; it is there again, as it was last, after a load."""
    first = [
        {"content": "Look", "status": "in_progress"},
        {"content": "Change", "status": "pending", "priority": "high"},
    ]
    second = [{**first[0], "status": "completed"}, {**first[1], "status": "in_progress"}]
    script = written(tmp_path / "s.json", use("update_plan", entries=first), use("update_plan", entries=second))
    agent = start(script=script)
    agent.initialize()
    session = agent.new_session(tmp_path)
    turn(agent, session, "x")
    plans = [update["entries"] for update in agent.updates(session, kind="plan")]
    assert plans == [[{"priority": "medium", **entry} for entry in entries] for entries in (first, second)]
    mark = agent.mark
    agent.call("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
    assert [update["entries"] for update in agent.updates(session, since=mark, kind="plan")] == plans[1:]


def test_paths_are_absolute_and_a_new_file_has_no_old_text(agent: Client, session: str, tmp_path: Path) -> None:
    """R64: paths in locations and diffs absolute; lines ≥ 1; new file has oldText null or absent."""
    agent.permit = choosing("allow_once")
    made = turn(agent, session, "make a file")
    edited = turn(agent, session, "edit the file")
    diffs = [
        block
        for u in made + edited
        if u.get("status") == "completed"
        for block in u["content"]
        if block["type"] == "diff"
    ]
    assert [(d["path"], d.get("oldText"), d["newText"]) for d in diffs] == [
        (str(tmp_path / "made.txt"), None, "made\n"),
        (str(tmp_path / "kept.txt"), "old\n", "new\n"),
    ]
    places = [place for u in made + edited for place in u.get("locations", [])]
    assert places
    assert all(place["path"].startswith("/") and place.get("line", 1) >= 1 for place in places)


def test_a_models_failure_is_an_error_and_the_session_goes_on(agent: Client, session: str) -> None:
    """R65: model error → JSON-RPC error that says so, stored; session usable after."""
    failure = agent.refused("session/prompt", prompt_params(session, "fail for good"))
    assert (failure.code, failure.data["details"]) == (-32603, "the turn failed: the provider said no")
    end = log.wait_for_event(agent.home, session, "turn/end")
    assert (end["data"]["reason"], end["data"]["failure"]["message"]) == ("error", "the provider said no")
    assert agent.prompted(session, "say hello") == "end_turn"


def test_a_failure_that_passes_is_tried_again_and_shown_as_one_message(start: Start, tmp_path: Path) -> None:
    """R65: a time-out or network loss that passes is no error; the discarded text is not glued to the new one."""
    broken = {"deltas": [{"text": "Half an ans"}, {"fail": {"kind": "broken_stream"}}]}
    script = written(tmp_path / "s.json", fail("timeout"), broken, say("The whole answer."))
    agent = start(script=script, environment={"ACP_BRIDGE_AGENT_RETRY_WAIT_S": "0.01"})
    agent.initialize()
    session = agent.new_session(tmp_path)
    assert agent.prompted(session, "x") == "end_turn"
    texts = [(u["messageId"], u["content"]["text"]) for u in agent.updates(session, kind="agent_message_chunk")]
    assert [text.strip() for _, text in texts] == [
        "[The model's provider did not answer in time; asking again, 2 of 5.]",
        "Half an ans",
        "[The answer broke off; asking again, 3 of 5. What it had said so far does not count.]",
        "The whole answer.",
    ]
    assert len({message_id for message_id, _ in texts}) == 4


def test_failures_that_do_not_pass_end_the_turn_with_an_error(start: Start, tmp_path: Path) -> None:
    """R65: after the last attempt the prompt is answered with an error; session usable after."""
    script = written(tmp_path / "s.json", fail("overloaded", message="too many"), otherwise="")
    environment = {"ACP_BRIDGE_AGENT_RETRY_WAIT_S": "0.01", "ACP_BRIDGE_AGENT_MAX_ATTEMPTS": "3"}
    agent = start(script=script, environment=environment)
    agent.initialize()
    session = agent.new_session(tmp_path)
    failure = agent.refused("session/prompt", prompt_params(session, "x"))
    assert (failure.code, failure.data["kind"]) == (-32603, "overloaded")
    assert len(log.events(agent.home, session, "request/failed")) == 3


def test_a_second_prompt_waits_for_the_first(agent: Client, session: str) -> None:
    """R66: second prompt while one runs: queued; never two interleaved turns."""
    agent.permit = choosing("allow_once")
    first = agent.prompt(session, "do three things")
    second = agent.prompt(session, "say hello")
    assert agent.result(first) == agent.result(second) == {"stopReason": "end_turn"}
    assert agent.place_of(agent.answer(first)) < agent.place_of(agent.answer(second))
    marks = [kind for kind in log.kinds(agent.home, session) if kind in ("turn/start", "turn/end")]
    assert marks == ["turn/start", "turn/end"] * 2
    said = [u["content"]["text"] for u in agent.updates(session, kind="agent_message_chunk")]
    assert said == ["Three things.", "Done.", "Hello, you."]


def test_an_empty_prompt_is_refused(agent: Client, session: str) -> None:
    """R67: empty prompt array: a defined answer, no hang."""
    assert agent.refused("session/prompt", {"sessionId": session, "prompt": []}).code == -32602


def test_a_prompt_of_nothing_but_blanks_is_a_turn(agent: Client, session: str) -> None:
    """R67: likewise a prompt whose one text is empty."""
    assert agent.prompted(session, "") == "end_turn"
    assert agent.prompted(session, "\n") == "end_turn"


GATED = {"notice", "compaction_update", "compaction_summary_chunk", "plan_update", "plan_removed", "subagent_update"}


def test_a_client_that_takes_no_notices_gets_none(agent: Client, tmp_path: Path) -> None:
    """R68: notice, compaction, plan and subagent updates only with the matching client flag."""
    server = {"name": "weather", "command": "/bin/false", "args": [], "env": []}
    session = agent.new_session(tmp_path, mcpServers=[server])
    agent.update("agent_message_chunk", session=session)
    agent.permit = choosing("allow_once")
    turn(agent, session, "do three things")
    assert not {update["sessionUpdate"] for update in agent.updates()} & GATED


def test_a_client_that_takes_notices_gets_them(start: Start, tmp_path: Path) -> None:
    """R68: with session.notices, what is not the model's is a notice and no message."""
    agent = start()
    agent.initialize({"session": {"notices": {}}})
    server = {"name": "weather", "command": "/bin/false", "args": [], "env": []}
    session = agent.new_session(tmp_path, mcpServers=[server])
    notice = agent.update("notice", session=session)
    assert "weather" in f"{notice['title']} {notice['description']}"
    assert agent.updates(session, kind="agent_message_chunk") == []


@pytest.mark.parametrize(
    "meta",
    [
        {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b"},
        {"traceparent": "not a trace", "baggage": 5},
        {"traceparent": {"x": [None]}},
        None,
        "text",
        [],
    ],
)
def test_trace_context_is_taken_and_a_malformed_one_ignored(agent: Client, session: str, meta: object) -> None:
    """R69: _meta.traceparent accepted; malformed ignored."""
    params = {**prompt_params(session, "say hello"), "_meta": meta}
    assert agent.call("session/prompt", params) == {"stopReason": "end_turn"}


def test_what_stands_in_meta_routes_nothing(agent: Client, session: str, tmp_path: Path) -> None:
    """R70: _meta with session ids has no effect on routing."""
    other = agent.new_session(tmp_path)
    meta = {"session_id": other, "sessionId": other, "cwd": "/", "prompt": [], "mcpServers": 1, "modeId": "full"}
    mark = agent.mark
    agent.call("session/prompt", {**prompt_params(session, "say hello"), "_meta": meta})
    agent.call("session/set_mode", {"sessionId": session, "modeId": "plan", "_meta": meta})
    agent.notify("session/cancel", {"sessionId": "none", "_meta": meta})
    assert agent.updates(other, since=mark) == []
    assert agent.updates(session, since=mark, kind="agent_message_chunk")
    assert "current_mode_update" not in str(agent.updates(other, since=mark))


def test_calls_marked_parallel_all_get_their_results(start: Start, tmp_path: Path) -> None:
    """R61: many calls in one answer are each announced, run and closed, in whatever order they end."""
    (tmp_path / "kept.txt").write_text("old\n")
    calls = [("read_file", {"path": "kept.txt"})] * 25
    agent = start(script=written(tmp_path / "s.json", use_all(*calls)))
    agent.initialize()
    session = agent.new_session(tmp_path)
    updates = turn(agent, session, "x")
    cards = [u["toolCallId"] for u in updates if u["sessionUpdate"] == "tool_call"]
    ended = [u["toolCallId"] for u in updates if u.get("status") == "completed"]
    assert len(set(cards)) == 25
    assert sorted(cards) == sorted(ended)


def test_usage_is_the_context_now_and_the_window(start: Start, tmp_path: Path) -> None:
    """Three turns: used is the current context and no sum over them, size the window."""
    answers = [say("x", usage={"input_tokens": 100 * turn, "output_tokens": 10}) for turn in (1, 2, 3)]
    agent = start(script=written(tmp_path / "s.json", *answers, context_window=8192))
    agent.initialize()
    session = agent.new_session(tmp_path)
    for _ in answers:
        turn(agent, session, "x")
    shown = [(update["used"], update["size"]) for update in agent.updates(session, kind="usage_update")]
    assert shown == [(110, 8192), (210, 8192), (310, 8192)]


def test_usage_is_told_with_a_size_of_zero_where_the_window_is_not_known(start: Start, tmp_path: Path) -> None:
    """The protocol asks for a size; 0 is what clients read as unknown."""
    agent = start(script=written(tmp_path / "s.json", say("x", usage={"input_tokens": 100, "output_tokens": 10})))
    agent.initialize()
    session = agent.new_session(tmp_path)
    turn(agent, session, "x")
    assert [(u["used"], u["size"]) for u in agent.updates(session, kind="usage_update")] == [(110, 0)]


def test_a_turn_that_failed_is_there_whole_after_a_load_and_is_not_taken_up_again(start: Start, tmp_path: Path) -> None:
    """Two tools, then the provider fails; loaded elsewhere: text, tools and error; then "hello"."""
    (tmp_path / "kept.txt").write_text("old\n")
    script = written(
        tmp_path / "s.json",
        say("Hello.", when="ended with an error"),  # the next request tells the model how the turn before it ended
        use_all(("read_file", {"path": "kept.txt"}), ("list_files", {}), when="do it"),
        fail("bad_request", message="no such model"),
    )
    first = start(script=script)
    first.initialize()
    session = first.new_session(tmp_path)
    assert first.refused("session/prompt", prompt_params(session, "do it")).code == -32603
    first.kill()
    second = start(script=script)
    second.initialize()
    second.call("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
    shown = [u for u in second.updates(session) if u["sessionUpdate"] in ("user_message_chunk", "agent_message_chunk")]
    assert shown[0]["content"]["text"] == "do it"
    assert "no such model" in shown[-1]["content"]["text"]
    assert [u["status"] for u in second.updates(session, kind="tool_call")] == ["completed"] * 2
    mark = second.mark
    assert second.prompted(session, "hello") == "end_turn"
    [said] = second.updates(session, since=mark, kind="agent_message_chunk")
    assert said["content"]["text"] == "Hello."
