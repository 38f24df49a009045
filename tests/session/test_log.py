"""The log refuses what its nesting forbids and is then as it was; what it accepts is folded for the model."""

import itertools
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from support.strategies import ALL_BARRIERS, HEADER, choices, events, walked
from support.strict_provider import accept

from acp_bridge.content import Failure, Text, ToolRequest
from acp_bridge.errors import IllegalEvent
from acp_bridge.session import (
    AssistantDelta,
    AssistantMessage,
    ContextCompacted,
    Event,
    FromAssistant,
    FromTools,
    FromUser,
    InputDropped,
    InputQueued,
    Log,
    PermissionAsked,
    PermissionDecided,
    Record,
    RequestFailed,
    RequestHeader,
    SessionOpened,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

OPENED = SessionOpened(version="1", barriers=ALL_BARRIERS, cwd="/w", roots=("/w",))
TURN = TurnStarted(turn=1)
PROMPT = UserMessage(id="in_1", content=(Text(text="Do it."),), source="client")
STEP = StepStarted(turn=1, step=1)
HEAD = RequestHeader(route="m", options={}, system="s", tools=(), reason="initial")
ASK = AssistantMessage(
    turn=1, step=1, id="m", content=(ToolRequest(call_id="c1", name="t", arguments="{}", title="t"),)
)
CALL = ToolCalled(turn=1, step=1, call_id="c1", name="t", arguments={}, effect="write")
RESULT = ToolResult(turn=1, step=1, call_id="c1", content=(Text(text="ok"),))
DELTA = AssistantDelta(turn=1, step=1, message_id="m", kind="text", text="x")
FAILED = RequestFailed(
    turn=1, step=1, attempt=1, message_id="m", failure=Failure(kind="timeout", message="late"), retry_after_s=None
)


def log_of(*given: Event) -> Log:
    clock = itertools.count(1_000)
    log = Log(HEADER, clock=lambda: next(clock))
    for event in given:
        log.append(event)
    return log


def spoken(text: str, *, turn: int, step: int = 1, interrupted: bool = False) -> AssistantMessage:
    return AssistantMessage(turn=turn, step=step, id=f"m{turn}", content=(Text(text=text),), interrupted=interrupted)


ILLEGAL: list[tuple[tuple[Event, ...], Event]] = [
    ((TURN,), TurnStarted(turn=2)),
    ((), TurnStarted(turn=2)),
    ((), TurnStarted(turn=1, continues=1)),
    ((TURN, TurnEnded(turn=1, reason="interrupted")), TurnStarted(turn=1)),
    (
        (TURN, TurnEnded(turn=1, reason="interrupted"), TurnStarted(turn=2), TurnEnded(turn=2, reason="completed")),
        TurnStarted(turn=3, continues=1),
    ),
    ((), STEP),
    ((TURN,), StepStarted(turn=2, step=1)),
    ((TURN,), StepStarted(turn=1, step=2)),
    ((TURN, STEP), StepStarted(turn=1, step=2)),
    ((TURN, STEP, StepEnded(turn=1, step=1)), StepStarted(turn=1, step=1)),
    ((TURN,), DELTA),
    ((TURN,), FAILED),
    ((TURN,), ASK),
    ((TURN, STEP), AssistantMessage(turn=1, step=2, id="m", content=())),
    ((TURN, STEP), CALL),
    ((TURN, STEP), RESULT),
    ((TURN, STEP, ASK), ASK),
    ((TURN, STEP, ASK, CALL), CALL),
    ((TURN, STEP, ASK, RESULT), RESULT),
    ((TURN, STEP, ASK, RESULT), CALL),
    ((TURN, STEP, ASK), StepEnded(turn=1, step=1)),
    ((TURN, STEP, ASK), ContextCompacted(first_seq=0, last_seq=1, summary="s", header={})),
    ((TURN, STEP, ASK, RESULT), PermissionAsked(call_id="c1", options=())),
    ((TURN, STEP), PermissionDecided(call_id="c1", outcome="allowed")),
    ((TURN, STEP), StepEnded(turn=1, step=2)),
    ((TURN,), StepEnded(turn=1, step=1)),
    ((TURN, STEP), TurnEnded(turn=1, reason="completed")),
    ((TURN,), TurnEnded(turn=2, reason="completed")),
    ((), TurnEnded(turn=1, reason="completed")),
    ((), InputDropped(id="in_1", reason="cancelled")),
    ((InputQueued(id="in_1", content=(), source="client"), TURN, PROMPT), InputDropped(id="in_1", reason="cancelled")),
]


@pytest.mark.parametrize(("before", "event"), ILLEGAL)
def test_what_the_nesting_forbids_is_refused_by_name_and_changes_nothing(
    before: tuple[Event, ...], event: Event
) -> None:
    log = log_of(*before)
    was = _whole(log)
    with pytest.raises(IllegalEvent, match=event.type):
        log.append(event)
    assert _whole(log) == was


def _whole(log: Log) -> tuple[Any, ...]:
    return deepcopy((log.records, log.state, log.transcript.messages, log.next_seq))


@settings(max_examples=100, deadline=None)
@given(choices, events)
def test_any_event_is_either_refused_whole_or_taken_whole(choices: list[int], event: Event) -> None:
    log = walked(choices)
    was = _whole(log)
    try:
        record = log.append(event)
    except IllegalEvent:
        assert _whole(log) == was
    else:
        assert (record.seq, log.last_seq) == (was[3], was[3])
        assert log.records[-1] == record


@settings(max_examples=100, deadline=None)
@given(choices)
def test_a_log_read_again_is_the_log_that_was_written(choices: list[int]) -> None:
    log = walked(choices)
    again = Log(HEADER, log.records, clock=lambda: 0)
    assert _whole(again) == _whole(log)


def test_seqs_count_from_zero_and_a_record_out_of_order_is_refused() -> None:
    log = log_of(OPENED, TURN, PROMPT)
    assert [record.seq for record in log.records] == [0, 1, 2]
    with pytest.raises(IllegalEvent, match="seq 0"):
        Log(HEADER, [Record(0, 1, OPENED), Record(0, 1, OPENED)], clock=lambda: 0)


def test_a_gap_left_by_a_skipped_type_keeps_the_numbers() -> None:
    log = Log(HEADER, [Record(0, 1, OPENED), Record(2, 1, TURN)], clock=lambda: 0)
    assert log.append(PROMPT).seq == 3


def test_time_may_step_back() -> None:
    log = Log(HEADER, [Record(0, 9, OPENED)], clock=lambda: 4)
    assert log.append(TURN).time == 4


def test_deltas_are_forgotten_once_their_message_is_there_and_a_failed_attempts_are_kept() -> None:
    queued = InputQueued(id="in_2", content=(), source="client")
    lost = AssistantDelta(turn=1, step=1, message_id="m0", kind="text", text="lost")
    log = log_of(TURN, PROMPT, STEP, lost, FAILED, DELTA, queued, DELTA)
    log.append(ASK)
    assert [record.event for record in log.records] == [TURN, PROMPT, STEP, lost, FAILED, queued, ASK]
    assert log.next_seq == 9


# --- the fold ---


def test_results_stand_behind_their_requests_in_the_order_of_asking() -> None:
    requests = tuple(ToolRequest(call_id=f"c{n}", name="t", arguments="{}", title="t") for n in (1, 2))
    log = log_of(TURN, PROMPT, STEP, AssistantMessage(turn=1, step=1, id="m", content=requests))
    for n in (2, 1):
        log.append(ToolResult(turn=1, step=1, call_id=f"c{n}", content=(Text(text=f"r{n}"),)))
    [_, assistant, tools] = log.transcript.messages
    assert isinstance(assistant, FromAssistant)
    assert isinstance(tools, FromTools)
    assert [answer.call_id for answer in tools.answers] == ["c1", "c2"]


def test_text_that_the_program_adds_while_tools_run_comes_behind_their_results() -> None:
    added = UserMessage(id="n", content=(Text(text="by the way"),), source="program")
    log = log_of(TURN, PROMPT, STEP, HEAD, ASK, CALL, added, RESULT)
    assert [type(message) for message in log.transcript.messages] == [FromUser, FromAssistant, FromTools, FromUser]
    accept(log.request().messages)


def test_a_turn_that_did_not_complete_says_so_to_the_model_and_a_shutdown_is_not_the_users_doing() -> None:
    ends = {
        "by the user": TurnEnded(turn=1, reason="cancelled", by="client"),
        "by the end": TurnEnded(turn=1, reason="cancelled", by="shutdown"),
        "by a crash": TurnEnded(turn=1, reason="interrupted"),
    }
    said = {name: str(log_of(TURN, PROMPT, end).transcript.messages[-1]) for name, end in ends.items()}
    assert "The user cancelled" in said["by the user"]
    assert "the user did not cancel" in said["by the end"]
    assert "the user did not stop" in said["by a crash"]


def test_going_on_leaves_out_the_half_answer_and_the_closing_note_and_nothing_else() -> None:
    log = log_of(TURN, PROMPT, STEP, HEAD, ASK, RESULT, StepEnded(turn=1, step=1), StepStarted(turn=1, step=2))
    whole = log.request().messages
    log.append(spoken("half", turn=1, step=2, interrupted=True))
    log.append(StepEnded(turn=1, step=2))
    log.append(TurnEnded(turn=1, reason="interrupted"))
    assert len(log.transcript.messages) == len(whole) + 2
    log.append(TurnStarted(turn=2, continues=1))
    assert log.transcript.messages == whole


def test_going_on_twice_in_a_row_asks_the_same_again() -> None:
    log = log_of(TURN, PROMPT, STEP, HEAD)
    whole = log.request().messages
    for turn in (1, 2):
        log.append(spoken("half", turn=turn, interrupted=True))
        log.append(StepEnded(turn=turn, step=1))
        log.append(TurnEnded(turn=turn, reason="interrupted"))
        log.append(TurnStarted(turn=turn + 1, continues=turn))
        log.append(StepStarted(turn=turn + 1, step=1))
        assert log.transcript.messages == whole


def test_compaction_replaces_its_range_and_not_the_prompt_that_followed_it() -> None:
    log = log_of(TURN, PROMPT, TurnEnded(turn=1, reason="cancelled", by="client"))
    log.append(TurnStarted(turn=2))
    log.append(UserMessage(id="in_2", content=(Text(text="Something else."),), source="client"))
    log.append(ContextCompacted(first_seq=0, last_seq=2, summary="They tried.", header={}))
    assert log.transcript.messages == (FromUser((Text(text="They tried."), Text(text="Something else."))),)
    log.append(ContextCompacted(first_seq=0, last_seq=4, summary="All of it.", header={}))
    assert log.transcript.messages == (FromUser((Text(text="All of it."),)),)


def test_going_on_after_a_compaction_takes_back_the_half_answer_alone() -> None:
    log = log_of(TURN, PROMPT, TurnEnded(turn=1, reason="completed"), TurnStarted(turn=2))
    log.append(UserMessage(id="in_2", content=(Text(text="Now this."),), source="client"))
    log.append(StepStarted(turn=2, step=1))
    log.append(spoken("half", turn=2, interrupted=True))
    log.append(StepEnded(turn=2, step=1))
    log.append(TurnEnded(turn=2, reason="interrupted"))
    log.append(ContextCompacted(first_seq=0, last_seq=2, summary="Before.", header={}))
    log.append(TurnStarted(turn=3, continues=2))
    assert log.transcript.messages == (FromUser((Text(text="Before."), Text(text="Now this."))),)


def test_a_header_for_a_compaction_is_not_the_last_header() -> None:
    log = log_of(TURN, PROMPT, STEP, HEAD)
    log.append(RequestHeader(route="small", options={}, system="sum up", tools=(), reason="compaction"))
    assert log.request().route == "m"


def test_a_lasting_grant_lives_until_it_is_revoked() -> None:
    grant = {"id": "g1", "tool": "t", "scope": "make"}
    log = log_of(TURN, PROMPT, STEP, ASK, PermissionAsked(call_id="c1", options=()))
    log.append(PermissionDecided(call_id="c1", outcome="allowed", grant=grant))
    assert Log(HEADER, log.records, clock=lambda: 0).state.grants == {"g1": grant}
