"""Which command was meant."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NoReturn, TextIO

from acp_bridge import __version__
from acp_bridge.errors import ConfigError

EXIT_USAGE: Final = 2

COMMANDS: Final = {
    "serve": "serve ACP on stdin and stdout (what an editor starts)",
    "run": "one prompt without an editor, for a shell or a script",
    "demo": "a keyless tour: an agent edits a file, is killed in the middle of a tool, and goes on",
}


def run(argv: Sequence[str]) -> NoReturn:
    """Run the command that `argv` names and end the process with its exit code."""
    try:
        code = _dispatch(argv)
    except ConfigError as exc:
        print(f"acp-bridge: {exc}", file=sys.stderr)  # noqa: T201  a person's terminal, before any protocol
        code = EXIT_USAGE
    _exit(code)


def _exit(code: int) -> NoReturn:
    """End at once, waiting for no thread: a write that hangs on a dead disk must not keep the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _dispatch(argv: Sequence[str]) -> int:
    if not argv and sys.stdin.isatty():
        return _greet()
    name, rest = (argv[0], list(argv[1:])) if argv else ("serve", [])
    if name in ("-h", "--help", "help"):
        return _help(sys.stdout)
    if name in ("-V", "--version"):
        print(f"acp-bridge {__version__}")  # noqa: T201  asked for on a terminal
        return 0
    if name in COMMANDS:
        return _command(name, rest)
    print(f"acp-bridge: there is no command {name!r}\n", file=sys.stderr)  # noqa: T201  a usage error
    _help(sys.stderr)
    return EXIT_USAGE


def _command(name: str, argv: list[str]) -> int:
    """Import and run one command: each is imported alone, since an editor waits for `serve`."""
    return int(import_module(f"acp_bridge.cli.{name}").main(argv))


_GREETING = """\
acp-bridge is an agent that an editor starts and speaks to over stdin and stdout (the Agent Client
Protocol). On a terminal there is nobody to speak to it. Try:

  acp-bridge demo      see it work, without a key
  acp-bridge --help    all commands
"""


def _greet() -> int:
    print(_GREETING, end="")  # noqa: T201  a terminal, where nobody will speak JSON
    return 0


def _help(stream: TextIO) -> int:
    lines = "\n".join(f"  {name:<10} {what}" for name, what in COMMANDS.items())
    print(f"usage: acp-bridge [COMMAND]\n\n{lines}\n\nWithout a command: serve.", file=stream)
    return 0
