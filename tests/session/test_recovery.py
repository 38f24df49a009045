"""What was cut short is told by the log alone, in place for ever and as news until the next turn begins."""

from collections.abc import Sequence

import pytest
from support.strategies import ALL_BARRIERS, HEADER

from acp_bridge.content import Text, ToolRequest
from acp_bridge.session import (
    AssistantDelta,
    AssistantMessage,
    Event,
    InputDropped,
    InputQueued,
    Interruption,
    Log,
    Recovery,
    ResultCode,
    SessionOpened,
    StepEnded,
    StepStarted,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserMessage,
    closers,
    interruption_text,
    interruptions,
    recovery_of,
    recovery_text,
    recovery_title,
)

HALF = AssistantDelta(turn=1, step=1, message_id="m", kind="text", text="Half")
QUEUED = InputQueued(id="later", content=(), source="client")
KILLED = TurnEnded(turn=1, reason="interrupted")
ENDED = TurnEnded(turn=1, reason="cancelled", by="shutdown")


def opened(*barriers: str) -> SessionOpened:
    return SessionOpened(version="1", barriers=barriers, cwd="/w", roots=("/w",))


def begun(turn: int = 1) -> list[Event]:
    message = UserMessage(id=f"in_{turn}", content=(Text(text="Do it."),), source="client")
    return [TurnStarted(turn=turn), message, StepStarted(turn=turn, step=1)]


def log_of(*events: Event) -> Log:
    log = Log(HEADER, clock=lambda: 0)
    for event in events:
        log.append(event)
    return log


def killed(*events: Event) -> Log:
    """Return the log as the next process leaves it after a kill behind `events`."""
    log = log_of(*events)
    for event in closers(log):
        log.append(event, synthetic=True)
    log.append(opened(*ALL_BARRIERS))
    return log


def news(log: Log) -> Recovery:
    return recovery_of(log.records, log.state)


def called(code: ResultCode) -> list[Event]:
    request = ToolRequest(call_id="c", name="t", arguments="{}", title="t")
    result = ToolResult(turn=1, step=1, call_id="c", content=(), is_error=True, code=code)
    return [AssistantMessage(turn=1, step=1, id="m", content=(request,)), result, StepEnded(turn=1, step=1)]


CUT: Sequence[tuple[str, list[Event]]] = [
    ("killed", [*begun(), HALF, QUEUED]),
    ("ended in order", [*begun(), QUEUED, InputDropped(id="later", reason="interrupted"),
                        AssistantMessage(turn=1, step=1, id="m", content=(Text(text="Half"),), interrupted=True),
                        StepEnded(turn=1, step=1), ENDED]),
]  # fmt: skip


@pytest.mark.parametrize(("how", "events"), CUT, ids=[how for how, _ in CUT])
def test_every_reader_is_told_the_same_until_the_next_turn_begins(how: str, events: list[Event]) -> None:
    log = killed(opened(*ALL_BARRIERS), *events)
    cut = Interruption(turn=1, orderly=how == "ended in order", cut_off="m")
    expected = Recovery(last=cut, dropped_inputs=1, continuable=1)
    assert news(log) == expected
    log.append(opened("turn"))  # another process takes it, and composes otherwise
    log.append(InputQueued(id="x", content=(), source="client"))
    assert news(log) == expected
    log.append(TurnStarted(turn=2, continues=1))
    assert news(log) == Recovery()
    assert interruptions(log.records) == {1: Interruption(turn=1, orderly=cut.orderly, cut_off="m", gone_on_in=2)}


def test_a_prompt_instead_of_going_on_makes_it_history_that_nothing_goes_on_with() -> None:
    log = killed(opened(*ALL_BARRIERS), *begun(), HALF)
    for event in begun(2):
        log.append(event)
    assert news(log) == Recovery()
    assert [cut.gone_on_in for cut in interruptions(log.records).values()] == [None]


@pytest.mark.parametrize(
    "end",
    [
        TurnEnded(turn=1, reason="completed"),
        TurnEnded(turn=1, reason="cancelled", by="client"),
        TurnEnded(turn=1, reason="error"),
    ],
)
def test_what_the_program_did_not_cut_short_is_no_news(end: TurnEnded) -> None:
    log = log_of(*begun(), StepEnded(turn=1, step=1), end)
    assert (news(log), interruptions(log.records)) == (Recovery(), {})


def test_a_turn_cut_short_behind_its_whole_answer_is_told_and_not_offered_to_be_gone_on_with() -> None:
    answer = AssistantMessage(turn=1, step=1, id="m", content=(Text(text="All."),))
    recovery = news(killed(opened(*ALL_BARRIERS), *begun(), answer))
    assert (recovery.interrupted, recovery.continuable) == (True, None)
    assert "go on" not in recovery_text(recovery, way_on="go on")


def test_a_prompt_that_was_only_queued_is_told_without_a_turn() -> None:
    recovery = news(killed(opened(*ALL_BARRIERS), QUEUED))
    assert recovery == Recovery(dropped_inputs=1)
    assert "interrupted" not in recovery_title(recovery)


@pytest.mark.parametrize(
    ("code", "end", "said"),
    [
        ("TOOL_NOT_STARTED", KILLED, "1 tool call never started."),
        ("ABORTED_BEFORE_DISPATCH", ENDED, "1 tool call never started."),
        ("ABORTED", ENDED, "1 tool call may have been done in part."),
        ("TOOL_OUTCOME_UNKNOWN", KILLED, "1 tool call may have run, in part or whole: look before repeating."),
    ],
)
def test_what_became_of_calls_is_said_as_news_and_as_history(code: ResultCode, end: TurnEnded, said: str) -> None:
    log = log_of(opened(*ALL_BARRIERS), *begun(), *called(code), end)
    assert said in recovery_text(news(log), way_on="Go on.")
    assert recovery_text(news(log), way_on="Go on.").endswith("Go on.")
    assert said in interruption_text(interruptions(log.records)[1])


@pytest.mark.parametrize(("barriers", "kept"), [(("tool", "turn"), True), (("turn",), False), ((), False)])
def test_that_all_was_kept_is_said_only_of_a_turn_whose_calls_waited_for_the_disk(
    barriers: tuple[str, ...], kept: bool
) -> None:
    log = killed(opened(*barriers), *begun(), HALF)
    log.append(opened("tool"))
    assert ("All up to there was kept" in recovery_text(news(log))) == kept
