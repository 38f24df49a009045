"""`acp-bridge doctor`: is everything there, does it work, and what is to be done.

Owns the order of the checks and how they are shown. Asks no provider and changes nothing.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

import anyio
import anyio.to_thread
from rich.console import Console
from rich.text import Text

from acp_bridge.cli.formatting import clean, line_of, quantity
from acp_bridge.cli.parser import CommandParser
from acp_bridge.cli.terminal import console, print_json, print_line, print_wrapped
from acp_bridge.runtime import home_of

from .check import Check, Level
from .editors import editors
from .program import configuration, guard, model, offered, program, python, search
from .storage import storage

_MARKS: Final[dict[Level, tuple[str, str]]] = {
    "ok": ("ok", "green"),
    "warning": ("warning", "yellow"),
    "problem": ("problem", "red"),
}
_LEAD = 25


def main(argv: list[str]) -> int:
    """Look at everything; 1 if there is a problem.

    Raises:
        ConfigError: an argument is not known.
    """
    parser = CommandParser(
        "doctor",
        "Checks Python, the configuration, the model's route and key, the storage folder, the tools and the editors,\n"
        "and says what to do. Asks no provider and changes nothing. Exit code 1 if there is a problem.",
        epilog="Where stdout is no terminal, a line is: level, name, how it stands and what to do, separated by tabs.",
    )
    parser.add_argument("--json", action="store_true", help="an object with a list of checks")
    args = parser.parse_args(argv)
    checks = anyio.run(_checks)
    healthy = all(check.level != "problem" for check in checks)
    if args.json:
        print_json({"ok": healthy, "checks": [asdict(check) for check in checks]})
    else:
        _print(checks)
    return 0 if healthy else 1


async def _checks() -> list[Check]:
    checked, config = configuration(os.environ)
    checks = [python(), program(), checked, await model(config), *offered(config)]
    if config.storage == "jsonl":
        checks += await storage(home_of(config))
    else:
        checks.append(Check(name="Storage", detail=f"{config.storage}, which this command does not know"))
    checks += [await anyio.to_thread.run_sync(search), await guard(config)]
    return checks + await anyio.to_thread.run_sync(editors)


def _print(checks: Sequence[Check]) -> None:
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
