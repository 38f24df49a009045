"""The streams of a command: what people read goes through `rich`, and is plain where nobody looks.

Owns how a console is made. Texts are given to it as `Text`, never as markup, since they may be anybody's.
"""

import sys

import orjson
from rich.console import Console
from rich.text import Text

from acp_bridge.text import escaped

_NARROWEST = 20


def console(*, stderr: bool = False) -> Console:
    """Return a console on stdout, or stderr, that wraps only where there is a terminal to wrap for."""
    piped = not (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=piped)


def print_wrapped(terminal: Console, lead: str, text: str, style: str = "") -> None:
    """Print `text` behind `lead`; where it is wrapped, what follows stays behind it too."""
    if terminal.soft_wrap:
        terminal.print(Text(f"{lead}{text}".rstrip(), style=style))
        return
    again = lead if "│" in lead else " " * len(lead)
    parts = Text(text, style=style).wrap(terminal, max(terminal.width - len(lead), _NARROWEST))
    for at, part in enumerate(parts):
        terminal.print(Text(again if at else lead, style=style) + part, no_wrap=True, overflow="fold")


def print_json(value: object) -> None:
    """Print a value for a program."""
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n")


def say(text: str) -> None:
    """Tell a person beside the output."""
    print(escaped(text, lines=True), file=sys.stderr)  # noqa: T201  a person's terminal; no protocol is spoken here


def print_line(text: str) -> None:
    """Print a line of the output."""
    print(text)  # noqa: T201  what was asked for
