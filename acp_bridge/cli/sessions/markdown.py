"""A conversation as Markdown. Pure."""

import re
from collections.abc import Iterator
from typing import assert_never

from acp_bridge.cli.words import clean, counted, line_of, minute
from acp_bridge.content import Diff, Image, Text

from .diffs import figures, unified
from .pieces import Answer, Begun, Card, Note, Piece, Plan, Prompt, Story, Thinking, block_text

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~])")
_PLAN_MARKS = {"completed": "[x]"}


def markdown(story: Story) -> str:
    """Return the whole conversation."""
    facts = {
        "Session": story.session_id,
        "Folder": story.cwd,
        "Begun": minute(story.created),
        "Models": ", ".join(story.models),
        "Forked from": story.forked_from,
    }
    head = [f"# {_plain(story.title or 'Untitled session')}", "\n".join(_facts(facts))]
    return "\n\n".join([*head, *(part for piece in story.pieces for part in _parts(piece))]) + "\n"


def _facts(facts: dict[str, str]) -> Iterator[str]:
    for name, value in facts.items():
        if value:
            yield f"- {name}: {_code(value)}"


def _parts(piece: Piece) -> Iterator[str]:
    match piece:
        case Begun():
            how = ", continued" if piece.continues else ""
            yield f"## Turn {piece.turn}{how} · {minute(piece.time)}"
        case Prompt():
            yield "**You**" + (f" *({piece.fate})*" if piece.fate else "")
            text = clean("\n".join(block_text(block) for block in piece.blocks)).strip("\n")
            yield "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
        case Answer():
            yield "**Agent**" + (" *(cut off)*" if piece.partial else "")
            yield clean(piece.text.strip("\n"))
        case Thinking():
            yield f"<details><summary>Thought</summary>\n\n{_fenced(piece.text.strip(), '')}\n\n</details>"
        case Card():
            yield from _card(piece)
        case Note():
            yield "\n".join(f"> *{_plain(line)}*" if line.strip() else ">" for line in piece.text.strip().split("\n"))
        case Plan():
            yield "**Plan**"
            yield "\n".join(
                f"- {_PLAN_MARKS.get(str(entry.get('status')), '[ ]')} {_plain(str(entry.get('content', '')))}"
                for entry in piece.entries
            )
        case _:
            assert_never(piece)


def _card(card: Card) -> Iterator[str]:
    said = f" · {_plain(card.permission)}" if card.permission else ""
    yield f"**Tool** {_plain(card.title)} — *{_plain(card.status)}*{said}"
    for block in card.shown:
        match block:
            case Diff():
                lines = unified(block)
                what = "new file" if block.old_text is None else figures(lines)
                yield f"{_code(block.path)} ({what})\n\n{_fenced(chr(10).join(lines), 'diff')}"
            case Text():
                if block.text.strip():
                    yield _folded(block.text.rstrip("\n"))
            case Image():
                yield _plain(block_text(block))
            case _:
                assert_never(block)


_OPEN_LINES = 20


def _folded(text: str) -> str:
    """Return an output in a fence, folded away if it is long."""
    count = text.count("\n") + 1
    fence = _fenced(text, "text")
    return (
        fence
        if count <= _OPEN_LINES
        else f"<details><summary>{counted(count, 'line')}</summary>\n\n{fence}\n\n</details>"
    )


def _fenced(text: str, language: str) -> str:
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
