"""JSON-RPC 2.0 as the agent speaks it."""

import json
from pathlib import Path

import pytest
from support.client import Client, choosing, prompt_params

BEYOND_DOUBLES = 2**53 + 1


@pytest.mark.parametrize("request_id", [0, -1, BEYOND_DOUBLES, -(2**63), "", "é", "0", "a" * 1000, None])
def test_an_id_comes_back_with_its_value_and_type(agent: Client, request_id: int | str | None) -> None:
    """R14: integer and string ids echo with value and type."""
    mark = agent.mark
    agent.send({"id": request_id, "method": "session/list"})
    assert "result" in agent.answer(request_id, since=mark)


def test_an_answer_has_either_a_result_or_an_error(agent: Client, session: str) -> None:
    """R15: exactly one of result and error; code an integer, message a string."""
    agent.prompted(session, "say hello")
    agent.refused("session/prompt", {})
    agent.refused("nothing/of/this", {})
    answers = [message for message in agent.received if "method" not in message]
    assert all(("result" in answer) != ("error" in answer) for answer in answers)
    errors = [answer["error"] for answer in answers if "error" in answer]
    assert errors
    assert all(type(error["code"]) is int and type(error["message"]) is str for error in errors)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/cancel", {"sessionId": "unknown"}),
        ("session/cancel", {}),
        ("session/cancel", {"sessionId": 5}),
        ("session/cancel", [1]),
        ("session/prompt", {}),
        ("session/new", {"cwd": "/", "mcpServers": []}),
        ("initialize", {"protocolVersion": 1}),
        ("not/known", {}),
        ("$/cancel_request", {}),
        ("$/cancel_request", {"requestId": [1]}),
    ],
)
def test_a_notification_is_never_answered(agent: Client, method: str, params: object) -> None:
    """R16: notifications, known, unknown or with bad params, are never answered."""
    mark = agent.mark
    agent.send({"method": method, "params": params})
    end = agent.settle()
    assert len([message for message in agent.received[mark:end] if "id" in message]) == 1


@pytest.mark.parametrize("method", ["nothing", "session/nothing", "", "session/set_model", "rpc.discover", "初"])
def test_an_unknown_method_is_not_found(agent: Client, method: str) -> None:
    """R17: unknown method → -32601."""
    assert agent.refused(method, {}).code == -32601


def test_the_connection_is_usable_after_each_kind_of_error(agent: Client, session: str) -> None:
    """R18: connection usable after each error."""
    for method, params in (
        ("nothing", {}),
        ("session/prompt", {}),
        ("session/load", {"sessionId": "none", "cwd": "/", "mcpServers": []}),
        ("initialize", {"protocolVersion": 1}),
    ):
        agent.refused(method, params)
        assert agent.call("session/list", {"cwd": "/nowhere"}) == {"sessions": []}
    assert agent.prompted(session, "say hello") == "end_turn"


@pytest.mark.parametrize("method", ["_test/ping", "_", "_acp_bridge/nothing"])
def test_an_unknown_extension_request_is_answered_as_not_found(agent: Client, method: str) -> None:
    """R19: unknown _x/y request answered, with the same id."""
    assert agent.refused(method, {"free": [1, {}]}).code == -32601


@pytest.mark.parametrize("method", ["_test/note", "$/progress", "$/anything"])
def test_an_unknown_extension_notification_is_ignored(agent: Client, method: str) -> None:
    """R20: unknown _x and $/x notifications ignored silently."""
    mark = agent.mark
    agent.notify(method, {"free": 1})
    assert agent.settle() == mark + 1


def test_responses_that_nobody_waits_for_are_ignored(agent: Client, session: str) -> None:
    """R21: response with unknown id, duplicate response: ignored."""
    agent.send(
        {"id": 999_999, "result": {}}, {"id": "x", "error": {"code": 1, "message": "m"}}, {"id": None, "result": 1}
    )
    agent.permit = choosing("reject_once")
    agent.prompted(session, "make a file")
    asked = agent.asked(session=session)
    agent.reply(asked, {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
    agent.settle()
    assert not (Path(agent.call("session/list", {})["sessions"][0]["cwd"]) / "made.txt").exists()
    assert agent.prompted(session, "say hello") == "end_turn"


@pytest.mark.parametrize("absent", [True, False])
def test_absent_and_null_params_are_as_an_empty_object(agent: Client, absent: bool) -> None:
    """R22: absent and null params behave as {} for list (logout is not advertised, and stays unknown)."""
    params = {} if absent else {"params": None}
    mark = agent.mark
    agent.send({"id": "listing", "method": "session/list", **params}, {"id": "out", "method": "logout", **params})
    assert "sessions" in agent.answer("listing", since=mark)["result"]
    assert agent.answer("out", since=mark)["error"]["code"] == -32601


def test_an_error_is_one_line_without_internals(agent: Client, session: str) -> None:
    """R23: error message one non-empty line; no traceback or secret in data."""
    agent.refused("session/prompt", prompt_params(session, "fail for good"))
    agent.refused("session/new", {"cwd": "relative", "mcpServers": [{"name": "a\nb"}]})
    agent.refused("session/load", {"sessionId": "../../etc", "cwd": "/", "mcpServers": []})
    agent.refused("session/new", {"cwd": "/not/there", "mcpServers": []})
    for error in [message["error"] for message in agent.received if "error" in message]:
        assert error["message"].strip()
        assert "\n" not in error["message"]
        assert "Traceback" not in json.dumps(error)
        assert 'File \\"' not in json.dumps(error)


def test_an_id_in_flight_is_refused_and_the_running_request_goes_on(agent: Client, session: str) -> None:
    """R24: duplicate in-flight request id → -32600; never a hang."""
    first = agent.made("session/prompt", prompt_params(session, "never end"))
    agent.send(first)
    agent.update("agent_message_chunk", session=session)
    agent.send(first)
    refusal = agent.answer(first["id"])
    assert refusal["error"]["code"] == -32600
    mark = agent.mark
    agent.cancel(session)
    assert agent.answer(first["id"], since=mark)["result"] == {"stopReason": "cancelled"}


def test_requests_to_different_sessions_run_side_by_side(agent: Client, session: str, tmp_path: Path) -> None:
    """R25: a slow prompt does not delay session/new, nor a prompt in the new session."""
    slow = agent.prompt(session, "never end")
    agent.update("agent_message_chunk", session=session)
    other = agent.new_session(tmp_path)
    assert agent.prompted(other, "say hello") == "end_turn"
    assert not [message for message in agent.received if message.get("id") == slow and "method" not in message]
    agent.cancel(session)
    assert agent.result(slow) == {"stopReason": "cancelled"}
