"""`acp-bridge sessions show`: a conversation on a terminal, or as plain text."""

from collections.abc import Iterator, Sequence
from typing import assert_never

import anyio
from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding
from rich.text import Text

from acp_bridge.cli.parser import CommandParser
from acp_bridge.cli.terminal import console, put
from acp_bridge.cli.words import clean, counted, line_of, minute, short_path
from acp_bridge.content import Diff, Image
from acp_bridge.content import Text as TextBlock

from .diffs import figures, unified
from .pieces import Answer, Begun, Card, Level, Note, Piece, Plan, Prompt, Story, Thinking, block_text
from .stored import Stored, stored
from .story import story_of

_OUTPUT_LINES = 15
"""Lines of an output that are shown; two thirds of them from its beginning."""
_DIFF_LINES = 40
_THOUGHT_LINES = 8
_COLORS: dict[Level, str] = {"info": "dim", "warning": "yellow", "error": "red"}
_MARKS: dict[Level, str] = {"info": "·", "warning": "!", "error": "!"}
_DIFF_COLORS = {"+": "green", "-": "red", "@": "cyan"}
_PLAN_MARKS = {"completed": "[x]", "in_progress": "[~]"}


def main(argv: list[str]) -> int:
    """Show a session.

    Raises:
        ConfigError, StoreError: in words for a person.
    """
    parser = CommandParser(
        "sessions show", "Shows a conversation. Reads without the lock, so it may be open elsewhere."
    )
    parser.add_argument("id", metavar="ID", help="a session's id, or the beginning of one")
    parser.add_argument("--full", action="store_true", help="outputs, diffs and thoughts whole, and tools' arguments")
    args = parser.parse_args(argv)
    return anyio.run(_show, stored(), args.id, args.full)


async def _show(sessions: Stored, beginning: str, full: bool) -> int:
    story = story_of(await sessions.store.read(sessions.find(beginning)))
    terminal = console()
    for line in _head(story):
        terminal.print(line)
    for piece in story.pieces:
        _print(terminal, piece, full)
    if not story.pieces:
        terminal.print(Text("Nothing was asked yet.", style="dim"))
    return 0


def _head(story: Story) -> Iterator[Text]:
    yield Text(line_of(story.title) or "untitled", style="bold")
    facts = [
        story.session_id,
        short_path(story.cwd),
        minute(story.created),
        counted(story.turns, "turn"),
        *story.models,
    ]
    yield Text(" · ".join(map(line_of, facts)), style="dim")
    if story.forked_from:
        yield Text(f"forked from {line_of(story.forked_from)}", style="dim")


def _print(terminal: Console, piece: Piece, full: bool) -> None:
    match piece:
        case Begun():
            how = ", continued" if piece.continues else ""
            terminal.print(Text(f"\n── turn {piece.turn}{how} · {minute(piece.time)} ──", style="dim"))
        case Prompt():
            _labelled(terminal, "you", "green", clean("\n".join(block_text(block) for block in piece.blocks)))
            if piece.fate:
                terminal.print(Text(f"  ! {piece.fate}", style="yellow"))
        case Answer():
            _answer(terminal, piece)
        case Thinking():
            lines = _bounded(clean(piece.text.strip()).split("\n"), None if full else _THOUGHT_LINES)
            terminal.print(Text(""))
            for line in lines:
                put(terminal, "~ ", line, "dim italic")
        case Card():
            _card(terminal, piece, full)
        case Note():
            terminal.print(Text(""))
            for line in clean(piece.text).split("\n"):
                put(terminal, f"{_MARKS[piece.level]} ", line, _COLORS[piece.level])
        case Plan():
            terminal.print(Text("\nplan", style="bold blue"))
            for entry in piece.entries:
                mark = _PLAN_MARKS.get(str(entry.get("status")), "[ ]")
                put(terminal, f"  {mark} ", line_of(str(entry.get("content", ""))))
        case _:
            assert_never(piece)


def _labelled(terminal: Console, who: str, style: str, text: str) -> None:
    terminal.print(Text(f"\n{who}", style=f"bold {style}"))
    for line in text.strip("\n").split("\n"):
        put(terminal, "  ", line)


def _answer(terminal: Console, piece: Answer) -> None:
    """Print what the model said: set in type for a person, as it is for a program."""
    text = clean(piece.text.strip("\n"))
    if terminal.is_terminal:
        terminal.print(Text("\nagent", style="bold magenta"))
        terminal.print(Padding(Markdown(text, hyperlinks=False), (0, 0, 0, 2)))
    else:
        _labelled(terminal, "agent", "magenta", text)
    if piece.partial:
        terminal.print(Text("  ! cut off here", style="yellow"))


def _card(terminal: Console, card: Card, full: bool) -> None:
    status = (f"  {card.status}", _COLORS[card.level])
    terminal.print(Text.assemble(("\ntool  ", "bold blue"), (line_of(card.title), "bold"), status))
    if card.permission:
        put(terminal, "  ", line_of(card.permission), "dim")
    if full and card.arguments:
        put(terminal, "  ", f"{card.name} {clean(card.arguments)}", "dim")
    for block in card.shown:
        match block:
            case Diff():
                _diff(terminal, block, full)
            case TextBlock():
                for line in _bounded(clean(block.text.rstrip("\n")).split("\n"), None if full else _OUTPUT_LINES):
                    put(terminal, "  │ ", line, "dim")
            case Image():
                put(terminal, "  │ ", block_text(block), "dim")
            case _:
                assert_never(block)


def _diff(terminal: Console, diff: Diff, full: bool) -> None:
    lines = unified(diff)
    what = "new file" if diff.old_text is None else figures(lines)
    put(terminal, "  ", f"{short_path(diff.path)}  {what}", "dim")
    for line in _bounded(lines, None if full else _DIFF_LINES):
        put(terminal, f"  {line[:1]}", clean(line[1:]), _DIFF_COLORS.get(line[:1], "dim"))


def _bounded(lines: Sequence[str], most: int | None) -> list[str]:
    """Return `lines`, or their beginning and end with a word on what is left out between."""
    if most is None or len(lines) <= most + 1:  # one line is not worth a word on it
        return list(lines)
    tail = most // 3
    left_out = len(lines) - most
    return [*lines[: most - tail], f"… {counted(left_out, 'line')} left out; --full shows them", *lines[-tail:]]
