"""A file's change as lines to read: what went, what came, and a little of what stayed around it. Pure."""

import difflib
from collections.abc import Sequence

from acp_bridge.content import Diff

_CONTEXT = 3
_COMPARED = 6000
"""How many lines of the changed middle are compared, which takes time by their square. A longer one is shown as gone
and come."""


def diff_lines(diff: Diff) -> list[str]:
    """Return the change as the body of a unified diff; each line begins with a space, `-`, `+` or `@`."""
    old, new = (diff.old_text or "").splitlines(), diff.new_text.splitlines()
    # what both begin and end with is cut off first: most changes of large files are small
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    above = (diff.line or 1) - 1
    first, last = max(head - _CONTEXT, 0), max(tail - _CONTEXT, 0)
    old_part, new_part = old[first : len(old) - last], new[first : len(new) - last]
    if len(old_part) + len(new_part) > _COMPARED:
        return [
            f"@@ line {above + first + 1} @@",
            *(f"-{line}" for line in old_part),
            *(f"+{line}" for line in new_part),
        ]
    lines: list[str] = []
    for group in difflib.SequenceMatcher(None, old_part, new_part, autojunk=False).get_grouped_opcodes(_CONTEXT):
        lines.append(f"@@ line {above + first + group[0][3] + 1} @@")
        for kind, old_from, old_to, new_from, new_to in group:
            if kind == "equal":
                lines.extend(f" {line}" for line in old_part[old_from:old_to])
            else:
                lines.extend(f"-{line}" for line in old_part[old_from:old_to])
                lines.extend(f"+{line}" for line in new_part[new_from:new_to])
    return lines


def figures(lines: Sequence[str]) -> str:
    """Return e.g. `+3 -1`."""
    return f"+{sum(line[0] == '+' for line in lines)} -{sum(line[0] == '-' for line in lines)}"


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines both begin with."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
