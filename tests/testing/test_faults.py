"""Faults, planted one at a time in the agent's process, are each caught by a scenario of the library."""

import sys
from pathlib import Path

import pytest

from acp_bridge.testing.play import play
from acp_bridge.testing.sandbox import make_sandbox
from acp_bridge.testing.scenario import read_scenario
from acp_bridge.testing.snapshot import consumption, differences, gaps, render

from .faulty_agent import FAULTS

pytestmark = pytest.mark.slow

LIBRARY = Path(__file__).parents[2] / "fixtures" / "snapshots"
AGENT = Path(__file__).with_name("faulty_agent.py")

CAUGHT_BY = {
    "an_update_behind_the_response": "tools/read_file",
    "an_update_before_the_session_is_known": "protocol/cancel_of_nothing",
    "a_request_answered_twice": "protocol/unknown_methods",
    "an_id_of_another_type": "protocol/ids_come_back_as_they_were",
    "a_line_that_is_no_message": "updates/thoughts_and_text",
    "a_wrong_stop_reason": "stops/max_tokens",
    "a_cancel_that_surfaces_as_an_error": "stops/cancelled_in_text",
    "an_editor_that_is_passed_over": "editors/unsaved_buffer",
    "a_load_that_forgets_diffs": "protocol/load_shows_what_was_seen_live",
    "a_recovery_that_is_not_told": "recovery/unknown_write",
    "a_lost_closing_event": "recovery/end_of_input_in_a_turn",
    "a_retry_glued_to_the_discarded_attempt": "failures/broken_stream",
    "a_failure_that_is_not_retried": "failures/retried",
    "a_queue_that_outlives_the_cancel": "protocol/cancel_drops_what_waits",
    "a_continuation_twice": "recovery/interrupted_text",
    "a_half_answer_kept_on_continuation": "recovery/interrupted_text",
    "the_answer_barrier_skipped": "protocol/set_mode",
    "the_request_barrier_skipped": "recovery/interrupted_waiting",
    "the_tool_barrier_skipped": "recovery/unknown_write",
    "the_turn_barrier_skipped": "recovery/killed_behind_the_answer",
    "an_unknown_outcome_told_as_never_started": "recovery/unknown_write",
    "everything_told_as_unknown": "recovery/never_started",
    "a_write_told_as_repeatable": "recovery/unknown_write",
    "a_crash_told_as_the_users_cancel": "recovery/unknown_write",
    "a_queued_prompt_forgotten": "recovery/dropped_queue",
    "a_result_at_the_wrong_call": "tools/side_by_side",
    "a_permission_not_asked": "permissions/reject_once",
    "a_failed_question_taken_as_yes": "permissions/error_is_a_denial",
    "a_mode_not_looked_at_again": "permissions/mode_narrowed_while_asked",
    "a_grant_that_covers_every_command": "permissions/allow_always",
    "a_renamed_tool": "tools/run_command",
    "a_changed_file_overwritten": "tools/edit_of_a_changed_file",
    "a_command_that_sees_everything": "tools/run_command_sees_no_keys",
    "a_command_run_again_on_load": "recovery/unknown_write",
    "a_mode_that_is_always_full": "permissions/plan_mode",
}
"""Which scenario catches which fault; others may as well."""

_ELSEWHERE = {"none"}


def said_of(scenario_name: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what a run of a scenario against an agent with a fault is told."""
    monkeypatch.setattr("acp_bridge.testing.process.WAIT_S", 8.0)
    scenario = read_scenario(LIBRARY / scenario_name / "scenario.toml")
    with make_sandbox(scenario) as sandbox:
        played = play(scenario, sandbox, (sys.executable, str(AGENT), fault))
    begun = [line for line in played.frames if "protocolVersion" in line.result]
    assert begun, f"the faulty agent did not even begin, so nothing is shown: {played.faults}"
    return [
        *played.faults,
        *consumption(played, scenario, summaries=True),
        *gaps(played),
        *differences(render(played, scenario), scenario),
    ]


@pytest.mark.parametrize("fault", sorted(CAUGHT_BY))
def test_a_fault_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said_of(CAUGHT_BY[fault], fault, monkeypatch), f"{fault} is not caught by {CAUGHT_BY[fault]}"


@pytest.mark.parametrize("scenario", ["tools/read_file", "recovery/unknown_write"])
def test_without_a_fault_nothing_is_caught(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said_of(scenario, "none", monkeypatch) == []


def test_every_fault_is_tried() -> None:
    assert CAUGHT_BY.keys() | _ELSEWHERE == FAULTS.keys()
