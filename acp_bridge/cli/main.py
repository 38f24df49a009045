"""Which command was meant, and how it ended.

Owns the verbs, the words for errors, and exit codes: 0, 1 for trouble that was found, 2 for a wrong call, 128 + n as
shells say it. Imports no parser: an editor waits for `serve`.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NoReturn, TextIO

from acp_bridge import __version__
from acp_bridge.errors import BridgeError, ConfigError

EXIT_TROUBLE: Final = 1
EXIT_USAGE: Final = 2
_EXIT_INTERRUPTED: Final = 130
_EXIT_BROKEN_PIPE: Final = 141

COMMANDS: Final = {
    "serve": "serve ACP on stdin and stdout (what an editor starts)",
    "run": "one prompt from a shell, without an editor",
    "sessions": "list, show, export, verify, repair, fork and delete stored sessions",
    "setup": "the settings that make an editor start this agent",
    "doctor": "check Python, model, storage and editors, and say what to do",
    "demo": "a keyless tour: an agent edits a file, is killed in the middle of a tool, and goes on",
}

_PLAIN_HELP: Final = {
    "serve": """\
usage: acp-bridge serve [--trace DIR]

Serves one ACP connection on stdin and stdout until its end; log lines go to stderr. An editor starts it:
`acp-bridge setup EDITOR` prints the settings. What is not given there comes from the configuration file
(`acp-bridge doctor` says which) and from ACP_BRIDGE_MODEL, ACP_BRIDGE_MODE, ACP_BRIDGE_HOME and ACP_BRIDGE_LOG.

--trace DIR leaves a folder behind that a bug report can be made of: what passed, what the model was asked and answered,
and the sessions' logs, without keys. pytest replays it; read it before you send it.

exit codes: 0 after the end of input, 128 + n after signal n, 1 after a failure
""",
    "demo": """\
usage: acp-bridge demo

A tour that needs no key and changes nothing outside a temporary folder: a real agent process edits a file over the
real protocol, is killed in the middle of a command, is started again, and shows what was kept.
""",
}
"""Help of the commands that take no arguments, and so have no parser."""


def run(argv: Sequence[str]) -> NoReturn:
    """Run the command that `argv` names and end the process with its exit code."""
    _exit(_run_command(argv))


def _run_command(argv: Sequence[str]) -> int:
    """Run a command and return its exit code; what it raises becomes words."""
    try:
        return _dispatch(argv)
    except ConfigError as exc:
        return _refuse(str(exc), EXIT_USAGE)
    except BridgeError as exc:
        return _refuse(str(exc), EXIT_TROUBLE)
    except SystemExit as exc:  # a parser's --help
        return exc.code if isinstance(exc.code, int) else EXIT_TROUBLE if exc.code else 0
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except BrokenPipeError:  # who read the output has seen enough
        return _EXIT_BROKEN_PIPE
    except OSError as exc:
        return _refuse(f"{exc.filename or 'the system'}: {(exc.strerror or str(exc)).lower()}", EXIT_TROUBLE)
    except Exception as exc:
        if argv[:1] in ([], ["serve"]) or os.environ.get("ACP_BRIDGE_LOG") == "debug":
            raise  # for whoever runs the agent, or asked to see it
        return _refuse(
            f"a defect of this program: {exc!r}; ACP_BRIDGE_LOG=debug shows where. Please report it", EXIT_TROUBLE
        )


def _refuse(why: str, code: int) -> int:
    print(f"acp-bridge: {display_text(why)}", file=sys.stderr)  # noqa: T201  a person's terminal, beside any protocol
    return code


def display_text(why: str) -> str:
    """Return a reason as it may be printed: foreign text in it is escaped, and secrets are taken out."""
    # imported here, since `serve` needs neither before its first answer
    from acp_bridge.redaction import Secrets, secrets_in
    from acp_bridge.text import escaped

    return escaped(Secrets(secrets_in(os.environ)).hidden(why), lines=True)


def _exit(code: int) -> NoReturn:
    """End at once, waiting for no thread: a write that hangs on a dead disk must not keep the process."""
    try:
        _flush(sys.stdout)
    except BrokenPipeError:
        code = code or _EXIT_BROKEN_PIPE
    except (OSError, ValueError) as exc:
        code = _refuse(f"the output could not be written: {exc}", EXIT_TROUBLE)
    try:
        _flush(sys.stderr)
    finally:
        os._exit(code)


def _flush(stream: TextIO | None) -> None:
    if stream is not None:  # a descriptor that was not open at start
        stream.flush()


def _dispatch(argv: Sequence[str]) -> int:
    if not argv and _is_terminal(sys.stdin):
        return _greet()
    name, rest = (argv[0], list(argv[1:])) if argv else ("serve", [])
    if name == "help" and rest and rest[0] in COMMANDS:
        name, rest = rest[0], ["--help"]
    if name in ("-h", "--help", "help"):
        return _help(sys.stdout)
    if name in ("-V", "--version"):
        print(f"acp-bridge {__version__}")  # noqa: T201  asked for on a terminal
        return 0
    if name not in COMMANDS:
        from .formatting import unknown_name

        raise unknown_name("command", name, COMMANDS, remedy="`acp-bridge --help` lists them")
    if name in _PLAIN_HELP and any(argument in ("-h", "--help") for argument in rest):
        print(_PLAIN_HELP[name], end="")  # noqa: T201  asked for on a terminal
        return 0
    return _command(name, rest)


def _command(name: str, argv: list[str]) -> int:
    """Import and run one command: each is imported alone, since an editor waits for `serve`."""
    if name == "serve" and argv == [] and _is_terminal(sys.stdin) and _is_terminal(sys.stderr):
        print(_WAITING, end="", file=sys.stderr)  # noqa: T201  a terminal, where nobody will speak JSON
    return int(import_module(f"acp_bridge.cli.{name}").main(argv))


_WAITING = """\
Serving ACP on stdin and stdout: one JSON-RPC message a line. Ctrl-D ends it. For a person: acp-bridge --help
"""

_GREETING = """\
acp-bridge is a coding agent that an editor starts and speaks to over stdin and stdout (the Agent Client
Protocol). On a terminal there is nobody to speak to it. Try:

  acp-bridge demo          see it work, without a key
  acp-bridge setup zed     the settings for an editor; `acp-bridge setup` lists the editors
  acp-bridge doctor        is everything there that it needs?
  acp-bridge --help        all commands
"""


def _greet() -> int:
    print(_GREETING, end="")  # noqa: T201  a terminal, where nobody will speak JSON
    return 0


def _help(stream: TextIO) -> int:
    lines = "\n".join(f"  {name:<10} {what}" for name, what in COMMANDS.items())
    print(
        f"usage: acp-bridge [COMMAND] [ARGUMENT…]\n\n{lines}\n\n"
        "Without a command: serve. `acp-bridge COMMAND --help` says more; --version says which program this is.",
        file=stream,
    )
    return 0


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()
