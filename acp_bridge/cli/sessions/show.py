"""`acp-bridge sessions show`: a conversation on a terminal, or as plain text."""

from collections.abc import Iterator, Sequence
from typing import assert_never

import anyio
from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding
from rich.text import Text

from acp_bridge.cli.formatting import clean, line_of, minute, short_path
from acp_bridge.cli.parser import CommandParser
from acp_bridge.cli.terminal import console, print_wrapped
from acp_bridge.content import Diff, Image
from acp_bridge.content import Text as TextBlock
from acp_bridge.text import quantity

from .diff import diff_lines, figures
from .entries import Answer, Card, Entry, Level, Note, Plan, Prompt, Thinking, Timeline, TurnStart, block_text
from .folder import SessionFolder, open_folder
from .timeline import timeline_of

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
    return anyio.run(_show, open_folder(), args.id, args.full)


async def _show(sessions: SessionFolder, beginning: str, full: bool) -> int:
    timeline = timeline_of(await sessions.store.read(sessions.find(beginning)))
    terminal = console()
    for line in _head(timeline):
        terminal.print(line)
    for entry in timeline.entries:
        _print(terminal, entry, full)
    if not timeline.entries:
        terminal.print(Text("Nothing was asked yet.", style="dim"))
    return 0


def _head(timeline: Timeline) -> Iterator[Text]:
    yield Text(line_of(timeline.title) or "untitled", style="bold")
    facts = [
        timeline.session_id,
        short_path(timeline.cwd),
        minute(timeline.created),
        quantity(timeline.turns, "turn"),
        *timeline.models,
    ]
    yield Text(" · ".join(map(line_of, facts)), style="dim")
    if timeline.forked_from:
        yield Text(f"forked from {line_of(timeline.forked_from)}", style="dim")


def _print(terminal: Console, entry: Entry, full: bool) -> None:
    match entry:
        case TurnStart():
            how = ", continued" if entry.continues else ""
            terminal.print(Text(f"\n── turn {entry.turn}{how} · {minute(entry.time)} ──", style="dim"))
        case Prompt():
            _print_speech(terminal, "you", "green", clean("\n".join(block_text(block) for block in entry.blocks)))
            if entry.fate:
                terminal.print(Text(f"  ! {entry.fate}", style="yellow"))
        case Answer():
            _print_answer(terminal, entry)
        case Thinking():
            lines = _shorten(clean(entry.text.strip()).split("\n"), None if full else _THOUGHT_LINES)
            terminal.print(Text(""))
            for line in lines:
                print_wrapped(terminal, "~ ", line, "dim italic")
        case Card():
            _print_card(terminal, entry, full)
        case Note():
            terminal.print(Text(""))
            for line in clean(entry.text).split("\n"):
                print_wrapped(terminal, f"{_MARKS[entry.level]} ", line, _COLORS[entry.level])
        case Plan():
            terminal.print(Text("\nplan", style="bold blue"))
            for item in entry.items:
                mark = _PLAN_MARKS.get(str(item.get("status")), "[ ]")
                print_wrapped(terminal, f"  {mark} ", line_of(str(item.get("content", ""))))
        case _:
            assert_never(entry)


def _print_speech(terminal: Console, who: str, style: str, text: str) -> None:
    terminal.print(Text(f"\n{who}", style=f"bold {style}"))
    for line in text.strip("\n").split("\n"):
        print_wrapped(terminal, "  ", line)


def _print_answer(terminal: Console, entry: Answer) -> None:
    """Print what the model said: set in type for a person, as it is for a program."""
    text = clean(entry.text.strip("\n"))
    if terminal.is_terminal:
        terminal.print(Text("\nagent", style="bold magenta"))
        # no hyperlinks: a terminal would hide where they lead
        terminal.print(Padding(Markdown(text, hyperlinks=False), (0, 0, 0, 2)))
    else:
        _print_speech(terminal, "agent", "magenta", text)
    if entry.partial:
        terminal.print(Text("  ! cut off here", style="yellow"))


def _print_card(terminal: Console, card: Card, full: bool) -> None:
    status = (f"  {card.status}", _COLORS[card.level])
    terminal.print(Text.assemble(("\ntool  ", "bold blue"), (line_of(card.title), "bold"), status))
    if card.permission:
        print_wrapped(terminal, "  ", line_of(card.permission), "dim")
    if full and card.arguments:
        print_wrapped(terminal, "  ", f"{card.name} {clean(card.arguments)}", "dim")
    for block in card.shown:
        match block:
            case Diff():
                _print_diff(terminal, block, full)
            case TextBlock():
                for line in _shorten(clean(block.text.rstrip("\n")).split("\n"), None if full else _OUTPUT_LINES):
                    print_wrapped(terminal, "  │ ", line, "dim")
            case Image():
                print_wrapped(terminal, "  │ ", block_text(block), "dim")
            case _:
                assert_never(block)


def _print_diff(terminal: Console, diff: Diff, full: bool) -> None:
    lines = diff_lines(diff)
    what = "new file" if diff.old_text is None else figures(lines)
    print_wrapped(terminal, "  ", f"{short_path(diff.path)}  {what}", "dim")
    for line in _shorten(lines, None if full else _DIFF_LINES):
        print_wrapped(terminal, f"  {line[:1]}", clean(line[1:]), _DIFF_COLORS.get(line[:1], "dim"))


def _shorten(lines: Sequence[str], most: int | None) -> list[str]:
    """Return `lines`, or their beginning and end with a word on what is left out between."""
    if most is None or len(lines) <= most + 1:  # one line is not worth a word on it
        return list(lines)
    tail = most // 3
    left_out = len(lines) - most
    return [*lines[: most - tail], f"… {quantity(left_out, 'line')} left out; --full shows them", *lines[-tail:]]
