"""The fold into messages, whenever it is looked at."""

from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import walked

from acp_bridge.content import Text, Thought
from acp_bridge.session import AssistantMessage, Event, FromAssistant, Record, RequestHeader
from acp_bridge.session.transcript import Transcript


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 1 << 16), max_size=120), st.integers(1, 7))
def test_looking_in_between_changes_nothing(choices: list[int], every: int) -> None:
    """What is merged is kept between two requests; whatever changes behind it must be seen."""
    records, looked_at = walked(choices).records, Transcript()
    for place, record in enumerate(records):
        looked_at.add(record)
        if place % every == 0:
            untouched = Transcript()
            for earlier in records[: place + 1]:
                untouched.add(earlier)
            assert looked_at.messages == untouched.messages


def header(route: str, reason: str = "change") -> Event:
    return RequestHeader(route=route, options={}, system="", tools=(), reason=reason)  # pyright: ignore[reportArgumentType]


def said(text: str, **more: object) -> AssistantMessage:
    return AssistantMessage(turn=1, step=1, id=text, content=(Text(text=text),), **more)  # pyright: ignore[reportArgumentType]


def folded(*events: Event) -> list[FromAssistant]:
    transcript = Transcript()
    for seq, event in enumerate(events):
        transcript.add(Record(seq, 0, event))
    return [message for message in transcript.messages if isinstance(message, FromAssistant)]


def test_an_answer_is_its_requests_routes_with_what_came_beside_it() -> None:
    (message,) = folded(header("a:1"), header("b:2", "compaction"), said("x", extra={"seal": 1}))
    assert message == FromAssistant((Text(text="x"),), "a:1", {"seal": 1})


def test_two_answers_of_one_route_in_a_row_are_one_with_what_came_beside_either() -> None:
    (message,) = folded(header("a:1"), said("x", extra={"seal": 1}), said("y", extra={"proof": 2}))
    assert message == FromAssistant((Text(text="x"), Text(text="y")), "a:1", {"seal": 1, "proof": 2})


def test_two_answers_of_two_routes_in_a_row_are_nobodys() -> None:
    """What is the one's must not reach the other."""
    (message,) = folded(header("a:1"), said("x", extra={"seal": 1}), header("b:2"), said("y", extra={"proof": 2}))
    assert message == FromAssistant((Text(text="x"), Text(text="y")))


def test_an_unfinished_answer_brings_nothing_back() -> None:
    cut = AssistantMessage(
        turn=1,
        step=1,
        id="m",
        content=(Thought(text="hm", form="thinking"), Text(text="x")),
        interrupted=True,
        extra={"seal": 1},
    )
    assert folded(header("a:1"), cut) == [FromAssistant((Text(text="x"),), "a:1")]
