"""What the library of snapshots covers: every method, update, tool, outcome, stop reason and class of recovery."""

import json
import re
from pathlib import Path

import pytest

from acp_bridge.testing.scenario import read_scenario

LIBRARY = Path(__file__).parents[2] / "fixtures" / "snapshots"
SCENARIOS = sorted(LIBRARY.glob("*/*/scenario.toml"))
FRAMES = "".join(path.read_text() for path in LIBRARY.glob("*/*/expected/frames.txt"))
LOGS = "".join(path.read_text() for path in LIBRARY.glob("*/*/expected/log.jsonl"))


def test_there_are_at_least_sixty() -> None:
    assert len(SCENARIOS) >= 60


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.parent.name)
def test_each_says_what_it_pins_and_holds_no_path_of_a_machine(path: Path) -> None:
    scenario = read_scenario(path)
    assert 20 <= len(scenario.about) <= 160
    for file in path.parent.rglob("*"):
        if file.is_file():
            assert not re.search(rb"/tmp/|/home/|/Users/|/private/", file.read_bytes()), file


def test_names_of_scenarios_are_unique() -> None:
    names = [path.parent.name for path in SCENARIOS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "method",
    [
        "initialize",
        "authenticate",
        "session/new",
        "session/load",
        "session/resume",
        "session/list",
        "session/close",
        "session/delete",
        "session/prompt",
        "session/cancel",
        "session/set_mode",
        "session/set_config_option",
        "$/cancel_request",
        "_acp_bridge/session/continue",
        "session/request_permission",
        "elicitation/create",
        "fs/read_text_file",
        "fs/write_text_file",
    ],
)
def test_a_method_is_pinned(method: str) -> None:
    assert f'"method":{json.dumps(method)}' in FRAMES


@pytest.mark.parametrize(
    "kind",
    [
        "user_message_chunk",
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "usage_update",
        "notice",
    ],
)
def test_an_update_is_pinned(kind: str) -> None:
    assert f'"sessionUpdate":"{kind}"' in FRAMES


@pytest.mark.parametrize(
    "tool",
    [
        "read_file",
        "write_file",
        "edit_file",
        "list_files",
        "search_files",
        "run_command",
        "update_plan",
        "ask_user",
    ],
)
def test_a_tool_is_pinned_with_a_result(tool: str) -> None:
    calls = re.findall(rf'"type":"tool/call".*?"callId":"(\w+)","name":"{tool}"', LOGS)
    assert calls


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"])
def test_a_stop_reason_is_pinned(reason: str) -> None:
    assert f'"result":{{"stopReason":"{reason}"}}' in FRAMES


@pytest.mark.parametrize("code", [-32700, -32600, -32601, -32602, -32603, -32000, -32002])
def test_an_error_code_is_pinned(code: int) -> None:
    assert f'"error":{{"code":{code},' in FRAMES


@pytest.mark.parametrize(
    "code",
    [
        "DENIED",
        "INVALID_ARGUMENTS",
        "UNKNOWN_TOOL",
        "ABORTED_BEFORE_DISPATCH",
        "ABORTED",
        "TIMED_OUT",
        "FAILED",
        "TOOL_NOT_STARTED",
        "TOOL_OUTCOME_UNKNOWN",
    ],
)
def test_a_result_code_is_pinned(code: str) -> None:
    assert f'"code":"{code}"' in LOGS


@pytest.mark.parametrize(
    "reason", ["completed", "max_tokens", "max_requests", "refused", "cancelled", "error", "interrupted"]
)
def test_a_turns_end_is_pinned(reason: str) -> None:
    assert re.search(rf'"type":"turn/end","data":{{"turn":\d+,"reason":"{reason}"', LOGS)


@pytest.mark.parametrize("effect", ["read", "idempotent", "write"])
def test_an_unknown_outcome_of_each_effect_is_pinned(effect: str) -> None:
    assert re.search(rf"Outcome unknown: .*?\(effect: {effect}\)", LOGS)


@pytest.mark.parametrize(
    "kind",
    [
        "session/opened",
        "input/queued",
        "input/dropped",
        "turn/start",
        "user/message",
        "step/start",
        "request/header",
        "request/failed",
        "assistant/message",
        "permission/asked",
        "permission/decided",
        "permission/revoked",
        "tool/call",
        "tool/result",
        "step/end",
        "turn/end",
        "session/config",
        "session/title",
        "plan/updated",
        "usage",
    ],
)
def test_an_event_is_pinned(kind: str) -> None:
    assert f'"type":"{kind}"' in LOGS
