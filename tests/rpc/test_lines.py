"""A stream as lines: whole however it was cut, bounded, and with the ends of what was too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.lines import LineSplitter, LongLine

LINES = st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line), max_size=8)


@given(LINES, st.integers(1, 7))
def test_lines_come_out_whole_however_they_are_cut_and_long_ones_by_their_ends(lines: list[bytes], size: int) -> None:
    data = b"".join(line + b"\n" for line in lines)
    splitter = LineSplitter(8, head=3, tail=2)
    found = [line for at in range(0, len(data), size) for line in splitter.feed(data[at : at + size])]
    assert found == [line if len(line) <= 8 else LongLine(line[:3], line[-2:]) for line in lines]
    assert not splitter.under_way


def test_of_a_long_line_nothing_is_held_unless_its_ends_are_wanted() -> None:
    splitter = LineSplitter(8)
    assert splitter.feed(b"x" * 8) == []
    assert not splitter.is_long
    for _ in range(3):
        assert splitter.feed(b"x" * 8) == []
        assert splitter.is_long
        assert not splitter.under_way
    assert splitter.feed(b"\nab\nc") == [LongLine(), b"ab"]
    assert splitter.under_way == b"c"
    assert not splitter.is_long


@pytest.mark.parametrize("long", [False, True])
def test_a_line_under_way_can_be_forgotten(long: bool) -> None:
    splitter = LineSplitter(8)
    splitter.feed(b"x" * (9 if long else 3))
    splitter.clear()
    assert splitter.feed(b"abc\n") == [b"abc"]


def test_a_line_under_way_can_be_cut_and_goes_on() -> None:
    splitter = LineSplitter(8)
    splitter.feed(b"abcdefgh")
    splitter.cut(2)
    assert splitter.feed(b"ij\n") == [b"abij"]
