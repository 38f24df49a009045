"""What was looked at, how it stands and what to do: a check, and how checks are printed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rich.console import Console
from rich.text import Text

from acp_bridge.cli.formatting import clean, line_of
from acp_bridge.cli.terminal import console, print_line, print_wrapped
from acp_bridge.text import quantity

Level: TypeAlias = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line.

    Attributes:
        name: what was looked at.
        detail: how it stands.
        remedy: what to do, empty if nothing.
    """

    name: str
    level: Level = "ok"
    detail: str
    remedy: str = ""


_MARKS: Final[dict[Level, tuple[str, str]]] = {
    "ok": ("ok", "green"),
    "warning": ("warning", "yellow"),
    "problem": ("problem", "red"),
}
_LEAD = 25


def print_checks(checks: Sequence[Check]) -> None:
    """Print checks for a person, or a line of columns each where stdout is no terminal."""
    terminal = console()
    for check in checks:
        if terminal.is_terminal:
            _print_check(terminal, check)
        else:
            print_line("\t".join((check.level, check.name, line_of(check.detail), line_of(check.remedy))).rstrip("\t"))
    if terminal.is_terminal:
        terminal.print(Text(f"\n{_summary(checks)}", style="bold"))


def _print_check(terminal: Console, check: Check) -> None:
    word, color = _MARKS[check.level]
    lead = Text.assemble((f"{word:<9}", color), (f"{check.name:<{_LEAD - 9}}", "bold"))
    body = Text(clean(check.detail)).wrap(terminal, max(terminal.width - _LEAD, 20))
    for at, line in enumerate(body):
        terminal.print((lead if not at else Text(" " * _LEAD)) + line, no_wrap=True, overflow="fold")
    if check.remedy:
        print_wrapped(terminal, " " * _LEAD + "→ ", clean(check.remedy), "cyan" if check.level == "ok" else color)


def _summary(checks: Sequence[Check]) -> str:
    problems, warnings = (sum(check.level == level for check in checks) for level in ("problem", "warning"))
    if not problems and not warnings:
        return "Everything is there."
    said = [quantity(count, word) for count, word in ((problems, "problem"), (warnings, "warning")) if count]
    return " and ".join(said) + "."
