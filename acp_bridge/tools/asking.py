"""What a person is asked, as they can be shown it: nothing in it hides, whoever wrote it.

Owns that every question goes through the one escaping, and what is said of a change that holds what no eye sees. Knows
neither who asks nor what for.
"""

import unicodedata
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeAlias

from acp_bridge.content import Diff, JsonObject, ShownBlock, Text
from acp_bridge.text import WIDE_BLANKS, escaped, unseen

from .paths import placed
from .titles import quoted
from .tool import Access, Presentation, UserAnswer, Workspace

MOST_NAMED = 10
"""Places of one change that are named."""


Inquire: TypeAlias = Callable[[str, tuple[str, ...]], Awaitable[UserAnswer]]


async def inquired(inquire: Inquire, question: str, options: tuple[str, ...]) -> UserAnswer:
    """Ask the user; an option that was chosen comes back as whoever asked wrote it."""
    shown = {escaped(option): option for option in options}
    answer = await inquire(escaped(question, lines=True), tuple(shown))
    return UserAnswer(answer.outcome, shown.get(answer.text, answer.text))


def readable(block: ShownBlock) -> ShownBlock:
    """Return a block of what a call would do as it can be shown; a diff as it is: it says what will be written."""
    return Text(text=escaped(block.text, lines=True)) if isinstance(block, Text) else block


def leading_elsewhere(presentation: Presentation, access: Access, workspace: Workspace) -> Iterator[Text]:
    """Yield, for a question, where its paths lead if that is elsewhere.

    Its title was drawn before the call was judged, and a link may be another by then; what is judged is what holds.
    """
    named = {place.path for place in presentation.locations}
    for path in access.paths:
        if named and str(path) not in named:
            yield Text(text=f"This leads to:\n{quoted(placed(path, workspace))}")


def readable_entry(entry: JsonObject) -> JsonObject:
    """Return an entry of a plan as it can be shown."""
    content = entry.get("content")
    return {**entry, "content": escaped(content, lines=True)} if isinstance(content, str) else entry


def hidden_said(block: ShownBlock) -> Iterator[ShownBlock]:
    """Yield a block and, below a diff that holds what no eye sees, where that is."""
    yield block
    if isinstance(block, Diff) and (hidden := hidden_in(block)):
        yield Text(text=hidden)


def hidden_in(change: Diff) -> str:
    """Return what no eye sees in the lines that differ, and where; empty if there is nothing."""
    old, new = (change.old_text or "").split("\n"), change.new_text.split("\n")
    places = [
        *_places(new, set(old), "line", change.line or 1),
        *_places(old, set(new), "old line", change.old_line or 1),
    ]
    if not places:
        return ""
    more = f"; and {len(places) - MOST_NAMED} more" if len(places) > MOST_NAMED else ""
    return "Not to be seen in this change: " + "; ".join(places[:MOST_NAMED]) + more


def _places(lines: list[str], others: set[str], word: str, first: int) -> Iterator[str]:
    for number, line in enumerate(lines, first):
        if line in others:
            continue
        for found in unseen(line.removesuffix("\r")):
            if not (number == 1 and found.start() == 0 and found.group() == "\ufeff"):  # the file's byte order mark
                yield f"{_name(found.group())} at {word} {number}, column {found.start() + 1}"
        if blanks := WIDE_BLANKS.search(line.rstrip()):
            yield f"more text behind {len(blanks.group())} blanks at {word} {number}"


def _name(char: str) -> str:
    return f"U+{ord(char):04X} {unicodedata.name(char, '')}".rstrip()
