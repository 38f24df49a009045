"""Modes and config options."""

from pathlib import Path
from typing import Any

import pytest
from support.client import Client, choosing


def options(agent: Client, session: str, config: str, value: Any) -> dict[str, str]:
    """Set a config option; return the current values that the answer tells, by id."""
    params = {"sessionId": session, "configId": config, "value": value}
    return {o["id"]: o["currentValue"] for o in agent.call("session/set_config_option", params)["configOptions"]}


def test_what_is_current_is_among_what_is_offered(agent: Client, tmp_path: Path) -> None:
    """R85: currentModeId is among availableModes, currentValue among options; there is a model option."""
    opened = agent.call("session/new", {"cwd": str(tmp_path), "mcpServers": []})
    modes = opened["modes"]
    assert modes["currentModeId"] in [mode["id"] for mode in modes["availableModes"]]
    assert [option["id"] for option in opened["configOptions"]] == ["mode", "model"]
    assert [option["category"] for option in opened["configOptions"]] == ["mode", "model"]
    for option in opened["configOptions"]:
        assert option["currentValue"] in [choice["value"] for choice in option["options"]]


def test_a_mode_can_be_set_and_the_options_follow(agent: Client, session: str) -> None:
    """R86, R87: set_mode works; mode option and modes stay equal."""
    mark = agent.mark
    assert agent.call("session/set_mode", {"sessionId": session, "modeId": "edit"}) == {}
    update = agent.update("config_option_update", session=session, since=mark)
    assert {o["id"]: o["currentValue"] for o in update["configOptions"]}["mode"] == "edit"


@pytest.mark.parametrize("mode", ["", "yolo", "ASK"])
def test_an_unknown_mode_is_refused_and_changes_nothing(agent: Client, session: str, mode: str) -> None:
    """R86, R89: unknown mode → -32602, state unchanged."""
    assert agent.refused("session/set_mode", {"sessionId": session, "modeId": mode}).code == -32602
    loaded = agent.call("session/load", {"sessionId": session, "cwd": "/", "mcpServers": []})
    assert loaded["modes"]["currentModeId"] == "ask"


def test_setting_an_option_answers_with_all_of_them_and_the_mode_is_told(agent: Client, session: str) -> None:
    """R86, R87: the full list with the change; the echo uses currentModeId."""
    mark = agent.mark
    values = options(agent, session, "mode", "plan")
    assert (set(values), values["mode"]) == ({"mode", "model"}, "plan")
    assert agent.update("current_mode_update", session=session, since=mark)["currentModeId"] == "plan"
    assert options(agent, session, "model", values["model"]) == values


def test_a_mode_is_in_force_at_once(agent: Client, session: str, tmp_path: Path) -> None:
    """R86: in plan mode nothing is changed, in full mode nobody is asked."""
    agent.call("session/set_mode", {"sessionId": session, "modeId": "plan"})
    agent.prompted(session, "make a file")
    assert not (tmp_path / "made.txt").exists()
    agent.call("session/set_mode", {"sessionId": session, "modeId": "full"})
    agent.prompted(session, "make a file")
    assert (tmp_path / "made.txt").exists()
    assert not [m for m in agent.received if m.get("method") == "session/request_permission" and session in str(m)]


def test_an_option_may_be_set_while_a_turn_runs(agent: Client, session: str) -> None:
    """ACP, Session Config Options: setting one is allowed at any time, idle or running."""
    prompt = agent.prompt(session, "never end")
    agent.update("agent_message_chunk", session=session)
    assert options(agent, session, "mode", "plan")["mode"] == "plan"
    agent.cancel(session)
    assert agent.result(prompt) == {"stopReason": "cancelled"}


def test_no_option_is_a_boolean(agent: Client, tmp_path: Path) -> None:
    """R88: no boolean option without the client flag."""
    opened = agent.call("session/new", {"cwd": str(tmp_path), "mcpServers": []})
    assert {option["type"] for option in opened["configOptions"]} == {"select"}


@pytest.mark.parametrize(
    ("config", "value"),
    [("colour", "red"), ("mode", "yolo"), ("model", "openai:none"), ("mode", True), ("mode", None), ("mode", 1)],
)
def test_an_unknown_option_or_value_is_refused_and_changes_nothing(
    agent: Client, session: str, config: str, value: Any
) -> None:
    """R89: unknown config id or value → -32602, state unchanged."""
    params = {"sessionId": session, "configId": config, "value": value}
    assert agent.refused("session/set_config_option", params).code == -32602
    assert options(agent, session, "mode", "ask")["mode"] == "ask"


def test_widening_the_mode_does_not_reach_the_call_that_is_being_asked_about(
    agent: Client, session: str, tmp_path: Path
) -> None:
    """R83: a question that is open stays a question, whatever the mode becomes."""
    prompt = agent.prompt(session, "make a file")
    asked = agent.asked(session=session)
    agent.call("session/set_mode", {"sessionId": session, "modeId": "full"})
    assert not (tmp_path / "made.txt").exists()
    choose = choosing("reject_once")(asked["params"])
    assert choose is not None
    agent.reply(asked, choose["result"])
    assert agent.result(prompt) == {"stopReason": "end_turn"}
    assert not (tmp_path / "made.txt").exists()
