"""The places where two texts differ, each with a few lines around it: what is drawn of a change, and nothing else.

Pure. Knows no path and no file. What it costs is bounded, whatever the texts are.
"""

import difflib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

CONTEXT = 3
"""Lines on either side of a change."""
MOST = 50
"""Places of one change that are drawn apart; more are drawn as one."""
_BLOCK = 4096
"""Characters that are compared at once."""
_COMPARED = 4000
"""Lines of the changed middle, of both texts, that are matched to each other; in a longer one, lines stay in place."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """One place: the text there before and after, and the 1-based lines where each begins."""

    old_line: int
    new_line: int
    old: str
    new: str


def hunks(old: str, new: str) -> tuple[Hunk, ...]:
    """Return where `new` differs from `old`, in order; none if it does not."""
    start, tail = _surroundings(old, new)
    above = old.count("\n", 0, start)
    return tuple(
        replace(hunk, old_line=hunk.old_line + above, new_line=hunk.new_line + above)
        for hunk in _hunks(old[start : len(old) - tail], new[start : len(new) - tail])
    )


def _surroundings(old: str, new: str) -> tuple[int, int]:
    """Return how many characters at the beginning and at the end of both no hunk can reach: whole lines, all alike.

    A list of a large file's lines takes one long call, within which no other thread runs; so none is made of them.
    """
    start = _alike(old, new, min(len(old), len(new)))
    tail = _alike(old[start:][::-1], new[start:][::-1], min(len(old), len(new)) - start)
    for _ in range(CONTEXT + 1):  # the line that begins to differ, and those above it
        start = old.rfind("\n", 0, max(start - 1, 0)) + 1 if start else 0
    end = len(old) - tail
    for _ in range(CONTEXT + 1):
        end = old.find("\n", end) + 1 or len(old)
    return start, len(old) - end


def _alike(one: str, other: str, most: int) -> int:
    """Return how many characters both begin with, `most` at most."""
    at = 0
    while at < most and one[at : at + _BLOCK] == other[at : at + _BLOCK]:
        at += _BLOCK
    return min(at + _common(one[at : at + _BLOCK], other[at : at + _BLOCK]), most)


def _hunks(old: str, new: str) -> tuple[Hunk, ...]:
    before, after = _lines(old), _lines(new)
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    if head == len(before) == len(after):
        return ()
    middle = before[head : len(before) - tail], after[head : len(after) - tail]
    changed = list(_changed(*middle, head))
    if len(changed) > MOST:
        changed = [_Span(changed[0].old_from, changed[-1].old_to, changed[0].new_from, changed[-1].new_to)]
    return tuple(_hunk(span, before, after) for span in changed)


@dataclass(frozen=True, slots=True)
class _Span:
    """The lines that differ, from 0, the last excluded."""

    old_from: int
    old_to: int
    new_from: int
    new_to: int


def _changed(before: Sequence[str], after: Sequence[str], offset: int) -> Iterator[_Span]:
    """Yield what differs in the middles, which begin at line `offset`; neighbours whose surroundings touch are one."""
    if len(before) + len(after) > _COMPARED:
        yield from _in_place(before, after, offset)
        return
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        differing = [code for code in group if code[0] != "equal"]
        _, old_from, _, new_from, _ = differing[0]
        _, _, old_to, _, new_to = differing[-1]
        yield _Span(offset + old_from, offset + old_to, offset + new_from, offset + new_to)


def _in_place(before: Sequence[str], after: Sequence[str], offset: int) -> Iterator[_Span]:
    """Yield what differs where line meets line; all of it, gone and come, where there are more or fewer lines."""
    if len(before) != len(after):
        yield _Span(offset, offset + len(before), offset, offset + len(after))
        return
    first = last = -1
    for at, (old, new) in enumerate(zip(before, after, strict=True), offset):
        if old == new:
            continue
        if first >= 0 and at - last > 2 * CONTEXT:
            yield _Span(first, last, first, last)
            first = -1
        first, last = at if first < 0 else first, at + 1
    if first >= 0:
        yield _Span(first, last, first, last)


def _hunk(span: _Span, before: Sequence[str], after: Sequence[str]) -> Hunk:
    above = min(CONTEXT, span.old_from, span.new_from)
    below = min(CONTEXT, len(before) - span.old_to, len(after) - span.new_to)
    return Hunk(
        old_line=span.old_from - above + 1,
        new_line=span.new_from - above + 1,
        old="".join(before[span.old_from - above : span.old_to + below]),
        new="".join(after[span.new_from - above : span.new_to + below]),
    )


def _lines(text: str) -> list[str]:
    """Return the lines as editors count them: a form feed or U+2028 ends none."""
    return list(io.StringIO(text, newline="\n"))


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines both begin with."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
