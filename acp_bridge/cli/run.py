"""`acp-bridge run`: one prompt without an editor, for a shell or a script.

Owns the arguments, the exit codes and the order of a run; how it is told is in `printers`. What would ask is denied,
and the message says which mode allows it.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import anyio

from acp_bridge.agent import Outcome
from acp_bridge.app import Ending, watch_signals
from acp_bridge.config import Config, load
from acp_bridge.effects import flatten_exceptions
from acp_bridge.errors import BridgeError, ConfigError, SessionNotFound
from acp_bridge.headless import Runtime, open_runtime
from acp_bridge.redaction import Secrets
from acp_bridge.tools import Choice, Question

from .inspection import refuse_inspection
from .logs import log_to_stderr
from .printers import JsonPrinter, Printer, TextPrinter, Trouble

EXIT_USAGE: Final = 2
EXIT_BROKEN_PIPE: Final = 141
EXIT_CODES: Final = {
    "completed": 0,
    "error": 1,
    "max_tokens": 3,
    "max_requests": 4,
    "refused": 5,
    "cancelled": 6,
    "interrupted": 6,
}
"""Exit code by how the turn ended; 2 is a usage or configuration error, 128 + n a signal."""


def main(argv: list[str]) -> int:
    """Run one prompt and return the exit code.

    Raises:
        ConfigError: an argument or a setting is wrong.
    """
    arguments = _parse(argv)
    overrides = {key: value for key, value in (("model", arguments.model), ("mode", arguments.mode)) if value}
    config = load(os.environ, overrides)
    prompt = arguments.prompt if arguments.prompt != "-" else sys.stdin.read()
    if not prompt.strip():
        raise ConfigError("run needs a prompt that is not empty")
    arguments.cwd = os.path.abspath(arguments.cwd)  # a session's folder is absolute, wherever it is loaded from
    if not os.path.isdir(arguments.cwd):
        raise ConfigError(f"--cwd names {arguments.cwd!r}, which is no folder")
    log = log_to_stderr(config.log, config.secrets)
    refuse_inspection()
    printer = JsonPrinter() if arguments.json else TextPrinter()
    try:
        return anyio.run(_run, config, arguments, prompt, printer)
    finally:
        log.flush()


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="acp-bridge run",
        description="One prompt without an editor. What would ask is denied; --mode says what is free.",
        epilog="exit codes: 0 completed, 1 error, 2 usage, 3 output limit, 4 request limit, 5 refused, 6 cancelled, "
        "128+n signal n",
    )
    parser.add_argument("prompt", metavar="PROMPT", help="what to do; - reads it from stdin")
    parser.add_argument("-m", "--model", help="provider:model, e.g. anthropic:claude-sonnet-4-5")
    parser.add_argument("--mode", choices=("ask", "edit", "plan", "full"), help="what is free (default: ask)")
    parser.add_argument("--cwd", default=".", help="the project's folder (default: this one)")
    parser.add_argument("--resume", metavar="ID", help="go on with a stored session")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser.parse_args(argv)


async def _run(config: Config, arguments: argparse.Namespace, prompt: str, printer: Printer) -> int:
    runtimes: list[Runtime] = []
    ending = Ending(busy=lambda: any(runtime.busy for runtime in runtimes))
    outcome: Outcome | None = None
    trouble: Trouble | None = None
    code = 0
    async with anyio.create_task_group() as tasks:
        await tasks.start(watch_signals, ending)
        try:
            async with open_runtime(config, deadline=ending.deadline) as runtime:
                runtimes.append(runtime)
                work = partial(_turn, runtime, arguments, prompt, printer, ending)
                outcome = await _unless_ended(ending, work, runtime.stop)
                if ending.code is None:
                    ending.begin(0, "the turn has ended")
        except* (BridgeError, TimeoutError, OSError) as group:
            trouble = _trouble_of(flatten_exceptions(group), config.secrets)
            code = EXIT_USAGE if trouble.kind == "configuration" else 1
        tasks.cancel_scope.cancel()
    ending.reached()
    # a signal's code first: what was raised or answered after it is only how the run came to its end
    code = ending.code or code or (EXIT_CODES[outcome.reason] if outcome is not None else 1)
    try:
        printer.print_end(outcome or Outcome(reason="error" if trouble else "cancelled"), trouble, code)
    except BrokenPipeError:
        code = EXIT_BROKEN_PIPE
    if code == EXIT_BROKEN_PIPE:
        sys.stderr.write("acp-bridge run: nobody reads the output any more, so the turn was ended\n")
    return code


def _trouble_of(causes: Sequence[BaseException], secrets: Secrets) -> Trouble:
    """Return what a person is told of what was raised; the user's mistake comes first, and none is called internal."""
    said = secrets.hidden("; ".join(str(exc) or type(exc).__name__ for exc in causes))
    if any(isinstance(exc, ConfigError) for exc in causes):
        return Trouble("configuration", said)
    if any(isinstance(exc, SessionNotFound) for exc in causes):
        return Trouble("storage", f"{said}; `acp-bridge sessions list` shows those there are")
    stored = any(isinstance(exc, BridgeError) for exc in causes)
    return Trouble("storage" if stored else "system", said)


async def _unless_ended(ending: Ending, work: Callable[[], Any], stop: Callable[[], None]) -> Outcome | None:
    """Return the work's outcome; None if a signal came first, which leaves the turn to `stop` and the ordered end."""
    outcomes: list[Outcome] = []
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            await ending.wait()
            stop()
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        outcomes.append(await work())
        tasks.cancel_scope.cancel()
    return outcomes[0] if outcomes else None


async def _turn(
    runtime: Runtime, arguments: argparse.Namespace, prompt: str, printer: Printer, ending: Ending
) -> Outcome | None:
    async def deny(question: Question) -> Choice:
        with suppress(BrokenPipeError):  # the next event is written too, and its failure ends the turn
            printer.print_denial(question)
        return Choice("reject_once")

    if arguments.resume:
        session = await runtime.resume_session(arguments.resume, cwd=arguments.cwd, permit=deny)
    else:
        session = await runtime.new_session(arguments.cwd, permit=deny)
    printer.print_session(session)
    if arguments.mode:
        await session.configure("mode", arguments.mode)
    if arguments.model and arguments.resume:
        await session.configure("model", arguments.model)
    async with session.prompt(prompt) as turn:
        async for event in turn:
            try:
                printer.print_event(event)
            except BrokenPipeError:
                ending.begin(EXIT_BROKEN_PIPE, "nobody reads the output")
                runtime.stop()
                break
    return turn.outcome
