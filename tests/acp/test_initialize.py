"""The handshake, and what is told before anybody is known."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.client import Client

import acp_bridge

Start = Callable[..., Client]


def test_initialize_is_answered_with_version_1_and_who_answers(start: Start) -> None:
    """R26, R28: valid result, protocolVersion 1; agentInfo name and version, equal to the package version."""
    result = start().initialize()
    assert result["protocolVersion"] == 1
    assert (result["agentInfo"]["name"], result["agentInfo"]["version"]) == ("acp-bridge", acp_bridge.__version__)


@pytest.mark.parametrize("version", [0, 2, 65535])
def test_another_version_is_answered_with_the_newest_of_ours(start: Start, version: int) -> None:
    """R27: versions 0, 2 and 65535 → success with own newest, not an echo."""
    assert start().call("initialize", {"protocolVersion": version})["protocolVersion"] == 1


@pytest.mark.parametrize(
    "capabilities",
    [
        {},
        {"clientCapabilities": {}},
        {"clientCapabilities": None, "clientInfo": None},
        {"clientCapabilities": {"fs": None, "terminal": None, "session": None, "auth": None}},
        {"clientCapabilities": {"fs": 1, "terminal": "yes", "session": [], "auth": True, "elicitation": 0}},
        {"clientCapabilities": "all", "clientInfo": [], "unknown": {"x": 1}, "_meta": {"terminal_output": True}},
    ],
)
def test_whatever_the_client_says_of_itself_it_is_answered(start: Start, capabilities: dict[str, Any]) -> None:
    """R29: works with clientCapabilities absent, {}, null members, unknown members, wrong-typed members."""
    assert start().call("initialize", {"protocolVersion": 1, **capabilities})["protocolVersion"] == 1


def test_a_version_that_is_none_is_refused_and_the_next_try_counts(start: Start) -> None:
    """R30: protocolVersion missing or no integer of 16 bits → -32602."""
    agent = start()
    for params in ({}, {"protocolVersion": "1"}, {"protocolVersion": 1.0}, {"protocolVersion": True}):
        assert agent.refused("initialize", params).code == -32602
    for version in (None, -1, 65536):
        assert agent.refused("initialize", {"protocolVersion": version}).code == -32602
    assert agent.initialize()["protocolVersion"] == 1


def test_another_request_first_is_invalid_and_initialize_still_works(start: Start, tmp_path: Path) -> None:
    """R31: any other request first → -32600 and initialise still works after."""
    agent = start()
    assert agent.refused("session/new", {"cwd": str(tmp_path), "mcpServers": []}).code == -32600
    assert agent.refused("session/list").code == -32600
    agent.notify("session/cancel", {"sessionId": "x"})
    assert agent.initialize()["protocolVersion"] == 1
    assert agent.refused("initialize", {"protocolVersion": 1}).code == -32600


@pytest.mark.parametrize("capabilities", [{}, {"auth": {"terminal": "yes"}}])
def test_no_terminal_login_is_offered_to_a_client_without_a_terminal(
    start: Start, capabilities: dict[str, Any]
) -> None:
    """R32: no terminal auth method unless auth.terminal is true."""
    methods = start(script="").initialize(capabilities)["authMethods"]
    assert not [method for method in methods if method.get("type") == "terminal"]


def test_without_credentials_a_way_to_get_some_is_offered(start: Start) -> None:
    """R33: auth ids unique; at least one agent-type method even without credentials."""
    methods = start(script="").initialize({"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True})[
        "authMethods"
    ]
    assert len({method["id"] for method in methods}) == len(methods)
    assert [method for method in methods if method.get("type", "agent") == "agent"]


def test_the_first_line_is_the_answer_to_initialize_in_an_empty_home(start: Start, tmp_path: Path) -> None:
    """R34: first stdout line is the initialise response, within 5 s in an empty HOME (registry form)."""
    empty = tmp_path / "empty"
    empty.mkdir()
    agent = start(home="empty", script="", cwd=empty, environment={"TERM": "dumb", "ACP_BRIDGE_HOME": ""})
    capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    message = agent.made("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
    agent.send({**message, "params": {**message["params"], "_meta": {"terminal-auth": True}}})
    assert agent.answer(message["id"], timeout_s=5) is agent.received[0]


@pytest.mark.parametrize("method_id", ["unknown", "", "login"])
def test_an_unknown_way_to_authenticate_is_refused(agent: Client, method_id: str) -> None:
    """R35: unknown methodId, or a terminal one, → -32602."""
    assert agent.refused("authenticate", {"methodId": method_id}).code == -32602


def test_without_a_model_a_session_needs_authentication_and_says_what_to_set(start: Start, tmp_path: Path) -> None:
    """R36: with missing credentials session/new → -32000, in under a second once all is imported."""
    agent = start(script="")
    [method] = agent.initialize()["authMethods"]
    failure = agent.refused("session/new", {"cwd": str(tmp_path), "mcpServers": []})
    assert failure.code == -32000
    assert failure.message.startswith("authentication required: ")
    assert "ACP_BRIDGE_MODEL" in failure.data["details"]
    assert agent.refused("authenticate", {"methodId": method["id"]}).code == -32000


def test_with_a_model_nothing_asks_for_authentication(start: Start, tmp_path: Path) -> None:
    """R36: signed in, nobody is asked to authenticate."""
    agent = start()
    assert agent.initialize()["authMethods"] == []
    assert agent.call("authenticate", {"methodId": "configured"}) == {}
    assert agent.new_session(tmp_path)


def test_a_key_that_the_provider_refuses_needs_authentication(agent: Client, session: str) -> None:
    """R36: a wrong key gives -32000 at the prompt."""
    failure = agent.refused(
        "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "fail to sign in"}]}
    )
    assert failure.code == -32000
    assert failure.message.startswith("authentication required: ")
    assert failure.data["details"] == "the model's provider refused the key: the key was refused"


def test_logout_is_unknown_since_it_is_not_advertised(agent: Client) -> None:
    """R37: unadvertised logout → -32601."""
    assert agent.refused("logout", {}).code == -32601


ROUTED = {
    "session/list": ("list", {}),
    "session/delete": ("delete", {"sessionId": "none"}),
    "session/resume": ("resume", {"sessionId": "none", "cwd": "/"}),
    "session/close": ("close", {"sessionId": "none"}),
    "session/fork": ("fork", {"sessionId": "none", "cwd": "/"}),
    "session/archive": ("archive", {"sessionId": "none"}),
    "session/status": ("status", {"sessionId": "none"}),
    "session/set_title": ("title", {"sessionId": "none", "title": "x"}),
}


def test_what_is_advertised_is_routed_and_what_is_not_is_unknown(start: Start) -> None:
    """R38: every advertised capability's method is routed; every unadvertised gated method → -32601."""
    agent = start()
    capabilities = agent.initialize()["agentCapabilities"]
    advertised = capabilities["sessionCapabilities"]
    for method, (capability, params) in ROUTED.items():
        code = _code(agent, method, params)
        assert (code != -32601) == (capability in advertised), method
    load = _code(agent, "session/load", {"sessionId": "none", "cwd": "/", "mcpServers": []})
    assert (load != -32601) == capabilities["loadSession"]
    assert _code(agent, "logout", {}) == -32601
    assert _code(agent, "providers/list", {}) == -32601
    assert _code(agent, "auth/status", {}) == -32601
    assert _code(agent, "mcp/message", {}) == -32601


def _code(agent: Client, method: str, params: dict[str, Any]) -> int:
    answer = agent.answer(agent.request(method, params))
    return answer["error"]["code"] if "error" in answer else 0
