"""What is drawn of a change is the places that differ: all of them, where they are, and little beside."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from acp_bridge.tools.hunks import CONTEXT, MOST, Hunk, hunks

lines = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c\r\n", "d\x0ce\u2028f\n", "ü\n"]), max_size=30)
ends = st.sampled_from(["", "last", "last\n"])


def applied(old: str, places: tuple[Hunk, ...]) -> str:
    """Return what becomes of `old` by the places alone."""
    parts, done = old.split("\n"), 0
    out: list[str] = []
    whole = [line + "\n" for line in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
    for place in places:
        out += whole[done : place.old_line - 1]
        assert "".join(out).count("\n") + 1 == place.new_line
        count = place.old.count("\n") + (not place.old.endswith("\n") and bool(place.old))
        assert "".join(whole[place.old_line - 1 : place.old_line - 1 + count]) == place.old
        out.append(place.new)
        done = place.old_line - 1 + count
    return "".join([*out, *whole[done:]])


@given(lines, ends, lines, ends)
@example([], "", [], "")
@example(["a\n"], "", [], "")
@example(["a\n"] * 20, "", ["a\n"] * 10 + ["b\n"] + ["a\n"] * 10, "")
def test_the_places_alone_make_the_new_text_of_the_old(
    before: list[str], end: str, after: list[str], new_end: str
) -> None:
    old, new = "".join(before) + end, "".join(after) + new_end
    places = hunks(old, new)
    assert applied(old, places) == new
    assert bool(places) == (old != new)


def test_a_line_of_a_large_text_is_drawn_with_three_around_it() -> None:
    old = [f"line {number}\n" for number in range(1, 5001)]
    new = [*old]
    new[99], new[3999] = "other\n", "another\n"
    first, second = hunks("".join(old), "".join(new))
    assert (first.old_line, first.new_line, second.new_line) == (97, 97, 3997)
    assert first.new.splitlines() == ["line 97", "line 98", "line 99", "other", "line 101", "line 102", "line 103"]
    assert first.old.count("\n") == 2 * CONTEXT + 1


def test_changes_beyond_so_many_are_one_place_from_the_first_to_the_last() -> None:
    apart = 2 * CONTEXT + 1
    for count, expected in ((MOST, MOST), (MOST + 1, 1)):
        old = "".join(f"{number}\n" + "same\n" * apart for number in range(count))
        new = "".join(f"n{number}\n" + "same\n" * apart for number in range(count))
        assert len(hunks(old, new)) == expected


@settings(max_examples=25)
@given(lines, lines)
def test_where_line_meets_line_the_places_alone_make_the_new_text_too(before: list[str], after: list[str]) -> None:
    length = min(len(before), len(after))
    same = ["same\n"] * 5000
    old, new = "".join([*before[:length], *same, "x\n"]), "".join([*after[:length], *same, "y\n"])
    assert applied(old, hunks(old, new)) == new


def test_texts_that_differ_all_over_are_compared_no_further_than_their_ends() -> None:
    old = "".join(f"{number % 7}\n" for number in range(200_000))
    new = "".join(f"{number % 5}\n" for number in range(200_000))
    [place] = hunks(old, new)
    assert len(place.old) > 300_000
