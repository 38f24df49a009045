"""How a run is told: as JSON for a program, or as text for a person.

Owns both forms of `acp-bridge run`'s output. Knows no exit code's meaning, and decides nothing.

With `--json`, each line is one object, told apart by `type`:

    session   sessionId, recovered: what the load said, if it said anything
    chunk     kind (text or thought), messageId, text
    record    record: an event as it stands in the log (type, seq, time, data)
    denied    callId, title, hint
    end       reason, failure: {kind, message} or null, exitCode; kind is a turn's, or, where no turn came about,
              configuration, storage or system
"""

import sys
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import orjson
from rich.console import Console
from rich.markup import escape

from acp_bridge.agent import Outcome
from acp_bridge.content import Failure, ToolRequest
from acp_bridge.headless import Session, Streamed, TurnEvent
from acp_bridge.session import AssistantMessage, Record, RequestFailed, ToolResult, encode_record, retry_text
from acp_bridge.tools import Question

from .formatting import clean


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why there was no turn: what is wrong with the settings, the stored session or the system."""

    kind: Literal["configuration", "storage", "system"]
    message: str


def _failure_text(failure: Failure) -> str:
    """Return in words how a turn failed, for a console; the kind's own word stays what scripts look for."""
    kind = "the turn failed" if failure.kind == "internal" else failure.kind.replace("_", " ")
    return f"{kind}: {escape(failure.message)}"


def _hint(question: Question) -> str:
    mode = "edit" if question.presentation.kind == "edit" else "full"
    return f"nobody can be asked here, so it was denied; --mode {mode} allows it"


class JsonPrinter:
    """One object a line."""

    def print_session(self, session: Session) -> None:
        recovered = None if session.recovery.clean else session.recovery.members()
        about = {"notices": list(session.notices)} if session.notices else {}
        self._line({"type": "session", "sessionId": session.id, "recovered": recovered, **about})

    def print_event(self, event: TurnEvent) -> None:
        match event:
            case Streamed():
                self._line(
                    {
                        "type": "chunk",
                        "kind": event.kind,
                        "messageId": event.message_id,
                        "text": event.text,
                    }
                )
            case Record():
                self._line({"type": "record", "record": encode_record(event)})

    def print_denial(self, question: Question) -> None:
        title = question.presentation.title
        self._line({"type": "denied", "callId": question.call_id, "title": title, "hint": _hint(question)})

    def print_end(self, outcome: Outcome, trouble: Trouble | None, code: int) -> None:
        failure = trouble or outcome.failure
        said = None if failure is None else {"kind": failure.kind, "message": failure.message}
        self._line({"type": "end", "reason": outcome.reason, "failure": said, "exitCode": code})

    def _line(self, value: dict[str, Any]) -> None:
        sys.stdout.write(orjson.dumps(value).decode() + "\n")
        sys.stdout.flush()


class TextPrinter:
    """The answer on stdout; what was done, on stderr."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._titles: dict[str, str] = {}
        self._open_line = False
        self._is_read = sys.stdout.isatty()  # by a person, on what obeys escape sequences

    def print_session(self, session: Session) -> None:
        self._note(f"[dim]session {session.id}[/dim]")
        if session.recovery.interrupted:
            self._note("[yellow]the last turn was interrupted; what was recovered is in the session[/yellow]")
        for notice in session.notices:
            self._note(f"[yellow]notes for agents left out: {escape(notice)}[/yellow]")

    def print_event(self, event: TurnEvent) -> None:
        match event:
            case Streamed(kind="text"):
                sys.stdout.write(clean(event.text) if self._is_read else event.text)
                sys.stdout.flush()
                self._open_line = not event.text.endswith("\n")
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

    def print_denial(self, question: Question) -> None:
        self._note(f"[yellow]{escape(question.presentation.title)}: {_hint(question)}[/yellow]")

    def print_end(self, outcome: Outcome, trouble: Trouble | None, code: int) -> None:
        if trouble is not None:
            self._note(f"[red]acp-bridge: {escape(trouble.message)}[/red]")
        elif outcome.failure is not None:
            self._note(f"[red]{_failure_text(outcome.failure)}[/red]")
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
        # soft: a name or path that is broken over two lines cannot be copied
        self._console.print(clean(markup), soft_wrap=True)


Printer: TypeAlias = JsonPrinter | TextPrinter
