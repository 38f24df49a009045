"""A conversation as Markdown. Pure."""

import re
from collections.abc import Iterator
from typing import assert_never

from acp_bridge.cli.formatting import clean, line_of, minute
from acp_bridge.content import Diff, Image, Text
from acp_bridge.text import quantity

from .diff import diff_lines, figures
from .entries import Answer, Card, Entry, Note, Plan, Prompt, Thinking, Timeline, TurnStart, block_text

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~])")
_PLAN_MARKS = {"completed": "[x]"}


def markdown(timeline: Timeline) -> str:
    """Return the whole conversation."""
    facts = {
        "Session": timeline.session_id,
        "Folder": timeline.cwd,
        "Begun": minute(timeline.created),
        "Models": ", ".join(timeline.models),
        "Forked from": timeline.forked_from,
    }
    head = [f"# {_plain(timeline.title or 'Untitled session')}", "\n".join(_facts(facts))]
    return "\n\n".join([*head, *(part for entry in timeline.entries for part in _parts(entry))]) + "\n"


def _facts(facts: dict[str, str]) -> Iterator[str]:
    for name, value in facts.items():
        if value:
            yield f"- {name}: {_code(value)}"


def _parts(entry: Entry) -> Iterator[str]:
    match entry:
        case TurnStart():
            how = ", continued" if entry.continues else ""
            yield f"## Turn {entry.turn}{how} · {minute(entry.time)}"
        case Prompt():
            yield "**You**" + (f" *({entry.fate})*" if entry.fate else "")
            text = clean("\n".join(block_text(block) for block in entry.blocks)).strip("\n")
            yield "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
        case Answer():
            yield "**Agent**" + (" *(cut off)*" if entry.partial else "")
            yield clean(entry.text.strip("\n"))
        case Thinking():
            yield f"<details><summary>Thought</summary>\n\n{_fence(entry.text.strip(), '')}\n\n</details>"
        case Card():
            yield from _card(entry)
        case Note():
            yield "\n".join(f"> *{_plain(line)}*" if line.strip() else ">" for line in entry.text.strip().split("\n"))
        case Plan():
            yield "**Plan**"
            yield "\n".join(
                f"- {_PLAN_MARKS.get(str(item.get('status')), '[ ]')} {_plain(str(item.get('content', '')))}"
                for item in entry.items
            )
        case _:
            assert_never(entry)


def _card(card: Card) -> Iterator[str]:
    said = f" · {_plain(card.permission)}" if card.permission else ""
    yield f"**Tool** {_plain(card.title)} — *{_plain(card.status)}*{said}"
    for block in card.shown:
        match block:
            case Diff():
                lines = diff_lines(block)
                what = "new file" if block.old_text is None else figures(lines)
                yield f"{_code(block.path)} ({what})\n\n{_fence(chr(10).join(lines), 'diff')}"
            case Text():
                if block.text.strip():
                    yield _fold(block.text.rstrip("\n"))
            case Image():
                yield _plain(block_text(block))
            case _:
                assert_never(block)


_OPEN_LINES = 20


def _fold(text: str) -> str:
    """Return an output in a fence, folded away if it is long."""
    count = text.count("\n") + 1
    fence = _fence(text, "text")
    return (
        fence
        if count <= _OPEN_LINES
        else f"<details><summary>{quantity(count, 'line')}</summary>\n\n{fence}\n\n</details>"
    )


def _fence(text: str, language: str) -> str:
    """Return `text` in a fence that nothing in it can close."""
    ticks = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, ticks + 1)
    return f"{fence}{language}\n{clean(text)}\n{fence}"


def _code(text: str) -> str:
    line = line_of(text)
    return f"`{line}`" if "`" not in line else f"`` {line} ``"


def _plain(text: str) -> str:
    """Return `text` as one line that Markdown leaves as it is."""
    return _SPECIAL.sub(r"\\\1", line_of(text))
