"""A log cut after any record is closed by repair: wholly, once, always alike, and so that a provider takes the rest."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.strategies import ALL_BARRIERS, HEADER, choices, walked
from support.strict_provider import accept

from acp_bridge.content import Effect, Failure, Text, Thought, ToolRequest
from acp_bridge.session import (
    AssistantDelta,
    AssistantMessage,
    DeltaKind,
    Event,
    FromAssistant,
    FromTools,
    InputDropped,
    InputQueued,
    Log,
    PermissionAsked,
    PermissionDecided,
    Record,
    RequestFailed,
    RequestHeader,
    SessionOpened,
    SessionSalvaged,
    StepEnded,
    StepStarted,
    ToolAnswer,
    ToolCalled,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserMessage,
    closers,
)

COARSE = ("turn", "open", "answer")
REQUEST = RequestHeader(route="m", options={}, system="", tools=(), reason="initial")


def log_of(*events: Event) -> Log:
    clock = itertools.count(1_000)
    log = Log(HEADER, clock=lambda: next(clock))
    for event in events:
        log.append(event)
    return log


def repaired(log: Log) -> Log:
    """What the next process makes of the log."""
    again = Log(HEADER, log.records, clock=lambda: 5_000)
    for event in closers(again):
        again.append(event, synthetic=True, time=again.records[-1].time)
    again.append(SessionOpened(version="1", barriers=ALL_BARRIERS, cwd="/w", roots=("/w",)))
    return again


def cuts(log: Log) -> Iterator[Log]:
    """The log as a crash after each of its records leaves it."""
    for end in range(len(log.records) + 1):
        yield Log(HEADER, log.records[:end], clock=lambda: 5_000)


def prompted(log: Log) -> None:
    """Ask something, up to the request."""
    turn = log.state.turns + 1
    log.append(TurnStarted(turn=turn))
    log.append(UserMessage(id=f"next_{turn}", content=(Text(text="What now?"),), source="client"))
    log.append(StepStarted(turn=turn, step=1))
    log.append(REQUEST)


# --- properties ---


@settings(max_examples=60, deadline=None)
@given(choices, st.sampled_from([ALL_BARRIERS, COARSE]))
def test_every_cut_is_closed_wholly_and_always_alike(choices: list[int], barriers: tuple[str, ...]) -> None:
    for cut in cuts(walked(choices, barriers=barriers)):
        wanted = closers(cut)
        assert closers(Log(HEADER, cut.records, clock=lambda: 9_999)) == wanted  # whatever the time
        before = len(cut.records)
        for event in wanted:
            cut.append(event, synthetic=True)
        state = cut.state
        assert (state.turn, state.step, state.requests, state.called, state.asked, state.queued) == (
            None,
            None,
            {},
            {},
            set(),
            {},
        )
        assert closers(cut) == ()
        assert before or not wanted


@settings(max_examples=60, deadline=None)
@given(choices)
def test_every_cut_can_be_gone_on_with_as_every_provider_accepts(choices: list[int]) -> None:
    for cut in cuts(walked(choices)):
        log = repaired(cut)
        numbers = log.state.turns
        last = log.state.last_end
        if last is not None and last.reason == "interrupted" and log.state.due:
            going_on = Log(HEADER, log.records, clock=lambda: 6_000)
            going_on.append(TurnStarted(turn=numbers + 1, continues=numbers))
            going_on.append(StepStarted(turn=numbers + 1, step=1))
            going_on.append(REQUEST)
            accept(going_on.request().messages)
        prompted(log)
        accept(log.request().messages)


@settings(max_examples=40, deadline=None)
@given(choices)
def test_what_was_logged_is_untouched_by_its_repair(choices: list[int]) -> None:
    for cut in cuts(walked(choices)):
        kept = tuple(cut.records)
        seqs = [record.seq for record in kept]
        log = repaired(cut)
        settled = {r.event.call_id: r.event for r in kept if isinstance(r.event, ToolResult)}
        after = [r.event for r in log.records if isinstance(r.event, ToolResult)]
        assert len({result.call_id for result in after}) == len(after)
        assert [result for result in after if result.call_id in settled] == list(settled.values())
        superseded = {r.event.id for r in log.records if isinstance(r.event, AssistantMessage)}
        assert [r for r in log.records if r.seq in seqs] == [
            r for r in kept if not (isinstance(r.event, AssistantDelta) and r.event.message_id in superseded)
        ]
        assert [r.seq for r in log.records if r.seq not in seqs] == list(range(cut.next_seq, log.next_seq))


@settings(max_examples=40, deadline=None)
@given(choices, st.sampled_from([ALL_BARRIERS, COARSE]))
def test_a_call_is_said_never_to_have_started_only_where_that_is_certain(
    choices: list[int], barriers: tuple[str, ...]
) -> None:
    for cut in cuts(walked(choices, barriers=barriers)):
        called = {r.event.call_id for r in cut.records if isinstance(r.event, ToolCalled)}
        for result in (event for event in closers(cut) if isinstance(event, ToolResult)):
            certain = "tool" in barriers and result.call_id not in called
            assert result.code == ("TOOL_NOT_STARTED" if certain else "TOOL_OUTCOME_UNKNOWN")
            assert result.is_error


@settings(max_examples=60, deadline=None)
@given(choices)
def test_a_second_crash_in_the_middle_of_the_repair_ends_alike(choices: list[int]) -> None:
    for cut in itertools.islice(cuts(walked(choices)), 0, None, 3):
        wanted = closers(cut)
        for through in range(len(wanted)):
            again = Log(HEADER, cut.records, clock=lambda: 1)
            for event in wanted[:through]:
                again.append(event, synthetic=True)
            rest = closers(Log(HEADER, again.records, clock=lambda: 1))
            assert wanted[:through] + rest == wanted


@settings(max_examples=60, deadline=None)
@given(choices)
def test_thoughts_of_an_interrupted_answer_are_shown_and_never_sent(choices: list[int]) -> None:
    for cut in cuts(walked(choices)):
        log = repaired(cut)
        interrupted = [r.event for r in log.records if isinstance(r.event, AssistantMessage) and r.event.interrupted]
        thoughts = {b.text for message in interrupted for b in message.content if isinstance(b, Thought)}
        sent = [m for m in log.transcript.messages if isinstance(m, FromAssistant)]
        assert not any(isinstance(b, Thought) and b.text in thoughts for m in sent for b in m.content)


# --- D33 to D37, one by one ---

OPENED = SessionOpened(version="1", barriers=ALL_BARRIERS, cwd="/w", roots=("/w",))
PROMPT = UserMessage(id="in_1", content=(Text(text="Do it."),), source="client")
BEGUN: tuple[Event, ...] = (OPENED, TurnStarted(turn=1), PROMPT, StepStarted(turn=1, step=1), REQUEST)
END: tuple[Event, ...] = (StepEnded(turn=1, step=1), TurnEnded(turn=1, reason="interrupted"))


def delta(text: str, kind: DeltaKind = "text", message_id: str = "msg_1_1") -> AssistantDelta:
    return AssistantDelta(turn=1, step=1, message_id=message_id, kind=kind, text=text)


def asking(*names: str) -> AssistantMessage:
    requests = tuple(
        ToolRequest(call_id=f"call_1_1_{place}", name=name, arguments="{}", title=name)
        for place, name in enumerate(names, 1)
    )
    return AssistantMessage(turn=1, step=1, id="msg_1_1", content=requests)


def call(place: int, effect: Effect = "write") -> ToolCalled:
    return ToolCalled(turn=1, step=1, call_id=f"call_1_1_{place}", name="t", arguments={}, effect=effect)


def result(place: int) -> ToolResult:
    return ToolResult(turn=1, step=1, call_id=f"call_1_1_{place}", content=(Text(text=f"result {place}"),))


def codes(events: tuple[Event, ...]) -> dict[str, str | None]:
    return {event.call_id: event.code for event in events if isinstance(event, ToolResult)}


@pytest.mark.parametrize(
    "events",
    [
        (),
        (OPENED,),
        (*BEGUN, asking(), StepEnded(turn=1, step=1), TurnEnded(turn=1, reason="completed")),
        (OPENED, InputQueued(id="in_1", content=(), source="client"), InputDropped(id="in_1", reason="cancelled")),
    ],
)
def test_a_balanced_or_empty_log_needs_nothing(events: tuple[Event, ...]) -> None:
    assert closers(log_of(*events)) == ()


def test_streamed_text_becomes_an_interrupted_message_without_half_made_requests() -> None:
    log = log_of(*BEGUN, delta("Let me ", "thought"), delta("think", "thought"), delta("I "), delta('{"a', "arguments"))
    log.append(delta("see"))
    message = AssistantMessage(
        turn=1,
        step=1,
        id="msg_1_1",
        content=(Thought(text="Let me think"), Text(text="I see")),
        interrupted=True,
    )
    assert closers(log) == (message, *END)


def test_only_the_attempt_under_way_becomes_a_message() -> None:
    failed = RequestFailed(
        turn=1,
        step=1,
        attempt=1,
        message_id="msg_1_1",
        failure=Failure(kind="timeout", message="too late"),
        retry_after_s=1.0,
    )
    assert closers(log_of(*BEGUN, delta("lost"), failed)) == END
    message = AssistantMessage(turn=1, step=1, id="msg_1_1_2", content=(Text(text="kept"),), interrupted=True)
    assert closers(log_of(*BEGUN, delta("lost"), failed, delta("kept", message_id="msg_1_1_2"))) == (message, *END)


def test_an_input_that_came_while_text_was_streaming_hides_none_of_it() -> None:
    queued = InputQueued(id="in_9", content=(Text(text="and?"),), source="client")
    wanted = closers(log_of(*BEGUN, delta("be"), queued, delta("fore")))
    message = AssistantMessage(turn=1, step=1, id="msg_1_1", content=(Text(text="before"),), interrupted=True)
    assert wanted == (message, InputDropped(id="in_9", reason="interrupted"), *END)


def test_a_request_without_a_call_never_started_and_may_be_done_again() -> None:
    [result_, *rest] = closers(log_of(*BEGUN, asking("run")))
    assert isinstance(result_, ToolResult)
    assert result_.code == "TOOL_NOT_STARTED"
    [text] = result_.content
    assert isinstance(text, Text)
    assert "never ran" in text.text
    assert "again" in text.text
    assert tuple(rest) == END


def test_without_the_tool_barrier_a_request_without_a_call_is_unknown() -> None:
    opened = SessionOpened(version="1", barriers=COARSE, cwd="/w", roots=("/w",))
    assert codes(closers(log_of(opened, *BEGUN[1:], asking("run")))) == {"call_1_1_1": "TOOL_OUTCOME_UNKNOWN"}


def test_a_request_that_was_open_where_a_salvage_cut_is_unknown() -> None:
    salvaged = SessionSalvaged(lost_bytes=9, first_lost_seq=6, kept_file="cut-1.jsonl")
    assert codes(closers(log_of(*BEGUN, asking("run"), salvaged))) == {"call_1_1_1": "TOOL_OUTCOME_UNKNOWN"}


def test_after_a_salvage_the_model_is_told_behind_the_results_of_what_was_open() -> None:
    salvaged = SessionSalvaged(lost_bytes=9, first_lost_seq=6, kept_file="cut-1.jsonl")
    log = repaired(log_of(*BEGUN, asking("run"), salvaged))
    prompted(log)
    accept(log.request().messages)
    last = log.request().messages[-1]
    assert "may have changed" in str(last)


@pytest.mark.parametrize(
    ("effect", "said"),
    [
        ("read", ("effect: read", "can be repeated")),
        ("idempotent", ("effect: idempotent", "can be repeated")),
        ("write", ("effect: write", "look at the state of things outside", "ask", "Never repeat it blindly")),
    ],
)
def test_a_call_without_a_result_is_unknown_and_its_effect_is_stated(effect: Effect, said: tuple[str, ...]) -> None:
    [result_, *rest] = closers(log_of(*BEGUN, asking("run"), call(1, effect)))
    assert isinstance(result_, ToolResult)
    assert result_.code == "TOOL_OUTCOME_UNKNOWN"
    [text] = result_.content
    assert isinstance(text, Text)
    assert all(words in text.text for words in ("was begun", "no result survived", *said))
    assert tuple(rest) == END


def test_an_open_question_is_not_started_and_grants_nothing() -> None:
    log = log_of(*BEGUN, asking("run"), PermissionAsked(call_id="call_1_1_1", options=()))
    assert codes(closers(log)) == {"call_1_1_1": "TOOL_NOT_STARTED"}
    after = repaired(log)
    assert after.state.grants == {}
    assert not any(isinstance(record.event, PermissionDecided) for record in after.records)


def test_a_call_with_a_result_is_untouched_whatever_its_neighbours_state() -> None:
    log = log_of(*BEGUN, asking("a", "b", "c"), call(1), call(3), result(3))
    assert codes(closers(log)) == {"call_1_1_1": "TOOL_OUTCOME_UNKNOWN", "call_1_1_2": "TOOL_NOT_STARTED"}
    tools = repaired(log).transcript.messages[2]
    assert isinstance(tools, FromTools)
    assert [answer.call_id for answer in tools.answers] == ["call_1_1_1", "call_1_1_2", "call_1_1_3"]
    assert tools.answers[2] == ToolAnswer("call_1_1_3", (Text(text="result 3"),), False)


def test_queued_inputs_are_dropped_as_interrupted_in_their_order() -> None:
    queued = [InputQueued(id=f"in_{n}", content=(), source="client") for n in (7, 8)]
    assert closers(log_of(OPENED, *queued)) == (
        InputDropped(id="in_7", reason="interrupted"),
        InputDropped(id="in_8", reason="interrupted"),
    )


def test_a_turn_between_its_steps_is_ended_without_a_step() -> None:
    log = log_of(*BEGUN, asking("a"), result(1), StepEnded(turn=1, step=1))
    assert closers(log) == (TurnEnded(turn=1, reason="interrupted"),)


def test_a_turn_whose_prompt_was_lost_has_nothing_to_go_on_with() -> None:
    queued = InputQueued(id="in_1", content=PROMPT.content, source="client")
    log = repaired(log_of(OPENED, queued, TurnStarted(turn=1)))
    assert not log.state.due


@example(time=7)
@given(st.integers(0, 2**50))
def test_closers_take_the_last_real_events_time(time: int) -> None:
    log = Log(HEADER, [Record(0, time, OPENED), Record(1, time, TurnStarted(turn=1))], clock=lambda: 5)
    assert [r.time for r in repaired(log).records] == [time, time, time, 5_000]


def test_a_turn_that_was_answered_whole_has_nothing_to_go_on_with() -> None:
    answer = AssistantMessage(turn=1, step=1, id="msg_1_1", content=(Text(text="Done."),))
    log = repaired(log_of(*BEGUN, delta("Do"), answer))
    assert log.state.last_end == TurnEnded(turn=1, reason="interrupted")
    assert not log.state.due
