"""Phrases that all share: things counted, and what was meant by a name that is none."""

import pytest

from acp_bridge.text import nearest, quantity, suggestion


@pytest.mark.parametrize(
    ("count", "grouped", "words"),
    [(0, True, "0 lines"), (1, True, "1 line"), (1200, True, "1,200 lines"), (1200, False, "1200 lines")],
)
def test_things_are_counted_in_words(count: int, grouped: bool, words: str) -> None:
    assert quantity(count, "line", grouped=grouped) == words


def test_the_nearest_name_is_named_if_one_is_like_it() -> None:
    assert nearest("modle", {"model": 1, "tools": 2}) == "model"
    assert nearest("xyz", ("model", "mode")) is None
    assert nearest("xyz", ("model", "mode"), likeness=0) is not None
    assert nearest("xyz", (), likeness=0) is None


def test_a_name_that_is_like_none_is_answered_with_all_there_are() -> None:
    assert suggestion("modle", ("model", "tools")) == "did you mean 'model'?"
    assert suggestion("xyz", ("model", "tools")) == "known are model, tools"
