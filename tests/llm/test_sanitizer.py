"""What every answer has to keep to: whole characters, and bounds."""

import pytest

from acp_bridge.limits import ANSWER, BLOCKS, CALLS
from acp_bridge.llm import Delta, Failed, Finished, TextDelta, ThoughtDelta, ToolDelta
from acp_bridge.llm.sanitizer import Sanitizer

HIGH, LOW = "\ud83d", "\ude00"
END = Finished("end")


def passed(*deltas: Delta) -> list[Delta]:
    sanitizer = Sanitizer("a server")
    return [got for delta in deltas for got in sanitizer.take(delta)]


def broken(*deltas: Delta) -> str:
    last = passed(*deltas)[-1]
    assert isinstance(last, Failed)
    assert (last.failure.kind, last.retryable) == ("broken_stream", True)
    return last.failure.message


def test_halves_of_a_character_are_joined_across_pieces() -> None:
    assert passed(TextDelta(f"a{HIGH}"), TextDelta(f"{LOW}b"), END) == [TextDelta("a"), TextDelta("😀b"), END]
    assert passed(ThoughtDelta(HIGH), ThoughtDelta(LOW), END) == [ThoughtDelta("😀"), END]
    assert passed(TextDelta(HIGH + LOW)) == [TextDelta("😀")]


def test_the_halves_of_calls_side_by_side_are_not_mixed_up() -> None:
    first, second = ToolDelta(0, "f", f"x{HIGH}"), ToolDelta(1, "g", f"y{HIGH}")
    rest = (ToolDelta(0, "", LOW), ToolDelta(1, "", f"{LOW}z"))
    assert passed(first, second, *rest, END) == [
        ToolDelta(0, "f", "x"),
        ToolDelta(1, "g", "y"),
        ToolDelta(0, "", "😀"),
        ToolDelta(1, "", "😀z"),
        END,
    ]


def test_an_empty_piece_does_not_part_two_halves() -> None:
    assert passed(TextDelta(HIGH), TextDelta(""), TextDelta(LOW)) == [TextDelta("😀")]


@pytest.mark.parametrize("text", [f"a{LOW}", f"{LOW}a", f"a{HIGH}b", f"{HIGH}{HIGH}x"])
def test_a_lone_half_is_a_replacement_character(text: str) -> None:
    (got,) = passed(TextDelta(text))
    assert isinstance(got, TextDelta)
    assert got.text == text.replace(HIGH, "\ufffd").replace(LOW, "\ufffd")


def test_a_half_that_nothing_follows_is_told_before_what_comes_next() -> None:
    lone = TextDelta("\ufffd")
    assert passed(TextDelta(HIGH), END) == [lone, END]
    assert passed(TextDelta(HIGH), TextDelta("b")) == [TextDelta("\ufffdb")]
    assert passed(TextDelta(HIGH), ThoughtDelta("t")) == [lone, ThoughtDelta("t")]
    assert passed(ToolDelta(2, "f", HIGH), END) == [ToolDelta(2, "f"), ToolDelta(2, "", "\ufffd"), END]
    assert passed(ThoughtDelta(HIGH, "signed")) == [ThoughtDelta("\ufffd", "signed")]


@pytest.mark.parametrize("piece", [TextDelta("x" * (ANSWER - 2)), TextDelta("ü" * (ANSWER // 2 - 1))])
def test_an_answer_may_have_its_bound_and_not_a_byte_more(piece: TextDelta) -> None:
    assert passed(piece, ThoughtDelta("x"), ToolDelta(0, "f"), END)[-1] == END
    assert "longer than 16 MiB" in broken(piece, ThoughtDelta("x"), ToolDelta(0, "", "xx"))
    assert "longer than 16 MiB" in broken(piece, ThoughtDelta("", "signed"))


def test_an_answer_may_ask_for_calls_up_to_their_bound() -> None:
    calls = [ToolDelta(i, "f") for i in range(CALLS + 1)]
    assert passed(*calls[:-1], *calls[:-1], END)[-1] == END
    assert f"more than {CALLS} tool calls" in broken(*calls)


def test_text_and_thoughts_may_take_turns_up_to_their_bound() -> None:
    turns = [TextDelta("a"), ThoughtDelta("b")] * (BLOCKS // 2)
    assert passed(*turns, END)[-1] == END
    assert "between text and thoughts" in broken(*turns, TextDelta("a"))
    signed = [ThoughtDelta("b", "s")] * (BLOCKS + 1)
    assert "between text and thoughts" in broken(*signed)
