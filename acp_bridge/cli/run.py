"""`acp-bridge run`: one prompt without an editor, for a shell or a script.

Owns the two forms of output and the exit codes. What would ask is denied, and the message says which mode allows it.

With `--json`, each line is one object, told apart by `type`:

    session   sessionId, recovered: what the load said, if it said anything
    chunk     kind (text or thought), messageId, text
    record    record: an event as it stands in the log (type, seq, time, data)
    denied    callId, title, hint
    end       reason, failure: {kind, message} or null, exitCode; kind is a turn's, or, where no turn came about,
              configuration, storage or system
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import anyio
import orjson
from rich.console import Console
from rich.markup import escape

from acp_bridge.agent import Outcome
from acp_bridge.app import Ending, watch_signals
from acp_bridge.config import Config, load
from acp_bridge.content import Failure, ToolRequest
from acp_bridge.effects import flatten_exceptions
from acp_bridge.errors import BridgeError, ConfigError, SessionNotFound
from acp_bridge.headless import Happened, Runtime, Session, Streamed, open_runtime
from acp_bridge.redaction import Secrets
from acp_bridge.session import AssistantMessage, Record, RequestFailed, ToolResult, encode_record, retry_text
from acp_bridge.tools import Choice, Question

from .formatting import clean
from .inspection import refuse_inspection
from .logs import log_to_stderr

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
    arguments = _parsed(argv)
    overrides = {key: value for key, value in (("model", arguments.model), ("mode", arguments.mode)) if value}
    config = load(os.environ, overrides)
    prompt = arguments.prompt if arguments.prompt != "-" else sys.stdin.read()
    if not prompt.strip():
        raise ConfigError("run needs a prompt that is not empty")
    arguments.cwd = os.path.abspath(arguments.cwd)
    if not os.path.isdir(arguments.cwd):
        raise ConfigError(f"--cwd names {arguments.cwd!r}, which is no folder")
    log = log_to_stderr(config.log, config.secrets)
    refuse_inspection()
    printer = _JsonPrinter() if arguments.json else _TextPrinter()
    try:
        return anyio.run(_run, config, arguments, prompt, printer)
    finally:
        log.flush()


def _parsed(argv: list[str]) -> argparse.Namespace:
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


async def _run(config: Config, arguments: argparse.Namespace, prompt: str, printer: "_Printer") -> int:
    runtimes: list[Runtime] = []
    ending = Ending(busy=lambda: any(runtime.busy for runtime in runtimes))
    outcome: Outcome | None = None
    trouble: _Trouble | None = None
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
            trouble = _trouble(flatten_exceptions(group), config.secrets)
            code = EXIT_USAGE if trouble.kind == "configuration" else 1
        tasks.cancel_scope.cancel()
    ending.reached()
    code = ending.code or code or (EXIT_CODES[outcome.reason] if outcome is not None else 1)
    try:
        printer.end(outcome or Outcome(reason="error" if trouble else "cancelled"), trouble, code)
    except BrokenPipeError:
        code = EXIT_BROKEN_PIPE
    if code == EXIT_BROKEN_PIPE:
        sys.stderr.write("acp-bridge run: nobody reads the output any more, so the turn was ended\n")
    return code


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Why there was no turn: what is wrong with the settings, the stored session or the system."""

    kind: Literal["configuration", "storage", "system"]
    message: str


def _trouble(causes: Sequence[BaseException], secrets: Secrets) -> _Trouble:
    """Return what a person is told of what was raised; the user's mistake comes first, and none is called internal."""
    said = secrets.hidden("; ".join(str(exc) or type(exc).__name__ for exc in causes))
    if any(isinstance(exc, ConfigError) for exc in causes):
        return _Trouble("configuration", said)
    if any(isinstance(exc, SessionNotFound) for exc in causes):
        return _Trouble("storage", f"{said}; `acp-bridge sessions list` shows those there are")
    stored = any(isinstance(exc, BridgeError) for exc in causes)
    return _Trouble("storage" if stored else "system", said)


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
    runtime: Runtime, arguments: argparse.Namespace, prompt: str, printer: "_Printer", ending: Ending
) -> Outcome | None:
    async def deny(question: Question) -> Choice:
        with suppress(BrokenPipeError):  # what happens next is written too, and finds out
            printer.denied(question)
        return Choice("reject_once")

    if arguments.resume:
        session = await runtime.resume_session(arguments.resume, cwd=arguments.cwd, permit=deny)
    else:
        session = await runtime.new_session(arguments.cwd, permit=deny)
    printer.session(session)
    if arguments.mode:
        await session.configure("mode", arguments.mode)
    if arguments.model and arguments.resume:
        await session.configure("model", arguments.model)
    async with session.prompt(prompt) as turn:
        async for happened in turn:
            try:
                printer.happened(happened)
            except BrokenPipeError:
                ending.begin(EXIT_BROKEN_PIPE, "nobody reads the output")
                runtime.stop()
                break
    return turn.outcome


def _failed(failure: Failure) -> str:
    """Return in words how a turn failed, for a console; the kind's own word stays what scripts look for."""
    kind = "the turn failed" if failure.kind == "internal" else failure.kind.replace("_", " ")
    return f"{kind}: {escape(failure.message)}"


def _hint(question: Question) -> str:
    mode = "edit" if question.presentation.kind == "edit" else "full"
    return f"nobody can be asked here, so it was denied; --mode {mode} allows it"


class _JsonPrinter:
    """One object a line."""

    def session(self, session: Session) -> None:
        recovered = None if session.recovery.clean else session.recovery.members()
        about = {"notices": list(session.notices)} if session.notices else {}
        self._line({"type": "session", "sessionId": session.id, "recovered": recovered, **about})

    def happened(self, happened: Happened) -> None:
        match happened:
            case Streamed():
                self._line(
                    {
                        "type": "chunk",
                        "kind": happened.kind,
                        "messageId": happened.message_id,
                        "text": happened.text,
                    }
                )
            case Record():
                self._line({"type": "record", "record": encode_record(happened)})

    def denied(self, question: Question) -> None:
        title = question.presentation.title
        self._line({"type": "denied", "callId": question.call_id, "title": title, "hint": _hint(question)})

    def end(self, outcome: Outcome, trouble: _Trouble | None, code: int) -> None:
        failure = trouble or outcome.failure
        said = None if failure is None else {"kind": failure.kind, "message": failure.message}
        self._line({"type": "end", "reason": outcome.reason, "failure": said, "exitCode": code})

    def _line(self, value: dict[str, Any]) -> None:
        sys.stdout.write(orjson.dumps(value).decode() + "\n")
        sys.stdout.flush()


class _TextPrinter:
    """The answer on stdout; what was done, on stderr."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._titles: dict[str, str] = {}
        self._open_line = False
        self._is_read = sys.stdout.isatty()  # by a person, on what obeys escape sequences

    def session(self, session: Session) -> None:
        self._note(f"[dim]session {session.id}[/dim]")
        if session.recovery.interrupted:
            self._note("[yellow]the last turn was interrupted; what was recovered is in the session[/yellow]")
        for notice in session.notices:
            self._note(f"[yellow]notes for agents left out: {escape(notice)}[/yellow]")

    def happened(self, happened: Happened) -> None:
        match happened:
            case Streamed(kind="text"):
                sys.stdout.write(clean(happened.text) if self._is_read else happened.text)
                sys.stdout.flush()
                self._open_line = not happened.text.endswith("\n")
            case Streamed():
                pass
            case Record(event=RequestFailed() as failed) if text := retry_text(failed):
                self._note(f"[yellow]{escape(text)}[/yellow]")
            case Record(event=AssistantMessage() as message):
                self._titles |= {b.call_id: b.title for b in message.content if isinstance(b, ToolRequest)}
            case Record(event=ToolResult() as result):
                sign = "[red]✗[/red]" if result.is_error else "[green]✓[/green]"
                self._note(f"{sign} {escape(self._titles.get(result.call_id, result.call_id))}")
            case _:
                pass

    def denied(self, question: Question) -> None:
        self._note(f"[yellow]{escape(question.presentation.title)}: {_hint(question)}[/yellow]")

    def end(self, outcome: Outcome, trouble: _Trouble | None, code: int) -> None:
        if trouble is not None:
            self._note(f"[red]acp-bridge: {escape(trouble.message)}[/red]")
        elif outcome.failure is not None:
            self._note(f"[red]{_failed(outcome.failure)}[/red]")
        elif code:
            self._note(f"[yellow]ended: {outcome.reason}[/yellow]")
        elif self._open_line:
            sys.stdout.write("\n")
            sys.stdout.flush()

    def _note(self, markup: str) -> None:
        if self._open_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._open_line = False
        self._console.print(
            clean(markup), soft_wrap=True
        )  # a name or path that is broken over two lines cannot be copied


_Printer = _JsonPrinter | _TextPrinter
