"""Stored sessions as the program leaves them, made with the store itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from acp_bridge.content import Diff, Failure, Text, Thought, ToolRequest
from acp_bridge.session import (
    AssistantDelta,
    AssistantMessage,
    Event,
    Header,
    InputDropped,
    InputQueued,
    PermissionAsked,
    PermissionDecided,
    PlanUpdated,
    Record,
    RequestFailed,
    RequestHeader,
    SessionOpened,
    SessionTitled,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from acp_bridge.storage import JsonlStore

BARRIERS = ("step", "request", "tool", "result", "turn", "open", "answer")
START = 1_760_000_000_000
OPENED = SessionOpened(version="0.1.0", barriers=BARRIERS, cwd="/w", roots=("/w",))
MODEL = RequestHeader(route="demo", options={}, system="", tools=(), reason="initial")


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of everything that the program writes."""

    path: Path

    @property
    def sessions(self) -> Path:
        return self.path / "sessions"

    def log(self, session_id: str) -> Path:
        return self.sessions / session_id / "log.jsonl"

    def make(
        self,
        session_id: str,
        events: Sequence[Event] = (),
        *,
        cwd: str = "/w",
        created: int = START,
        synthetic: int = 0,
    ) -> str:
        """Store a session; its last `synthetic` events are repair's."""
        header = Header(session_id=session_id, created=created, version="0.1.0", cwd=cwd, roots=(cwd,))
        first = len(events) - synthetic
        records = [Record(seq, created + seq, event, seq >= first) for seq, event in enumerate(events)]
        anyio.run(partial(_made, self.sessions, header, records))
        return session_id


async def _made(root: Path, header: Header, records: Sequence[Record]) -> None:
    held = await JsonlStore(root).create(header, records)
    await held.close()


def asked(turn: int, text: str) -> list[Event]:
    """A turn up to its first request."""
    return [
        TurnStarted(turn=turn),
        UserMessage(id=f"u{turn}", content=(Text(text=text),), source="client"),
        StepStarted(turn=turn, step=1),
    ]


def answered(turn: int, text: str) -> list[Event]:
    """The rest of a turn that only talks."""
    return [
        AssistantMessage(turn=turn, step=1, id=f"a{turn}", content=(Text(text=text),)),
        StepEnded(turn=turn, step=1),
        TurnEnded(turn=turn, reason="completed"),
    ]


def talked(turns: int = 1, title: str = "Say hello") -> list[Event]:
    """Turns that only talk."""
    events: list[Event] = [OPENED]
    for turn in range(1, turns + 1):
        events += [
            *asked(turn, f"Question {turn}?"),
            *([MODEL] if turn == 1 else []),
            *answered(turn, f"Answer {turn}."),
        ]
    return [*events, SessionTitled(title=title)]


EDIT = ToolRequest(
    call_id="1.1.1",
    name="edit_file",
    arguments='{"path": "greeting.py", "old_text": "hello", "new_text": "good day"}',
    title="Edit greeting.py",
    kind="edit",
)
RUN = ToolRequest(
    call_id="1.1.2", name="run_command", arguments='{"command": "make"}', title="Run `make`", kind="execute"
)


def worked(*, output: str = "ok\n", thought: str = "The greeting is curt.") -> list[Event]:
    """A whole turn with an edit, a command that was asked for, and a plan."""
    return [
        OPENED,
        *asked(1, "Make greeting.py more polite, then try it."),
        MODEL,
        RequestFailed(
            turn=1,
            step=1,
            attempt=1,
            message_id="lost",
            failure=Failure(kind="rate_limit", message="slow down", status=429),
            retry_after_s=2.0,
        ),
        AssistantMessage(
            turn=1,
            step=1,
            id="a1",
            content=(Thought(text=thought), Text(text="I **edit** it, then run it:\n\n- once"), EDIT, RUN),
        ),
        ToolCalled(turn=1, step=1, call_id=EDIT.call_id, name=EDIT.name, arguments={}, effect="idempotent"),
        ToolResult(
            turn=1,
            step=1,
            call_id=EDIT.call_id,
            content=(Text(text="edited"),),
            shown=(Diff(path="/w/greeting.py", old_text="a\nhello\nb\n", new_text="a\ngood day\nb\n"),),
        ),
        PermissionAsked(call_id=RUN.call_id, options=()),
        PermissionDecided(call_id=RUN.call_id, outcome="allowed", option_id="allow_once"),
        ToolCalled(turn=1, step=1, call_id=RUN.call_id, name=RUN.name, arguments={}, effect="write"),
        ToolResult(turn=1, step=1, call_id=RUN.call_id, content=(Text(text=output),)),
        PlanUpdated(entries=({"content": "be polite", "status": "completed", "priority": "high"},)),
        StepEnded(turn=1, step=1),
        TurnEnded(turn=1, reason="completed"),
        SessionTitled(title="Make greeting.py more polite"),
    ]


def cut_off() -> list[Event]:
    """A log as a kill in the middle of a command leaves it: one call begun, one not, a prompt still queued."""
    return [
        OPENED,
        SessionTitled(title="Cut off"),
        *asked(1, "Edit and run."),
        MODEL,
        AssistantMessage(turn=1, step=1, id="a1", content=(Text(text="At once."), RUN, EDIT)),
        ToolCalled(turn=1, step=1, call_id=RUN.call_id, name=RUN.name, arguments={}, effect="write"),
        InputQueued(id="u2", content=(Text(text="And then rest."),), source="client"),
    ]


def cut_off_streaming() -> list[Event]:
    """A log as a kill in the middle of an answer leaves it."""
    return [
        OPENED,
        *asked(1, "Tell me."),
        MODEL,
        AssistantDelta(turn=1, step=1, message_id="a1", kind="thought", text="Hm."),
        AssistantDelta(turn=1, step=1, message_id="a1", kind="text", text="Once upon"),
        AssistantDelta(turn=1, step=1, message_id="a1", kind="text", text=" a time"),
    ]


def recovered() -> list[Event]:
    """`cut_off`, with what repair appends: five events."""
    texts = (Text(text="for the model"),)
    return [
        *cut_off(),
        ToolResult(turn=1, step=1, call_id=RUN.call_id, content=texts, is_error=True, code="TOOL_OUTCOME_UNKNOWN"),
        ToolResult(turn=1, step=1, call_id=EDIT.call_id, content=texts, is_error=True, code="TOOL_NOT_STARTED"),
        InputDropped(id="u2", reason="interrupted"),
        StepEnded(turn=1, step=1),
        TurnEnded(turn=1, reason="interrupted"),
    ]


RECOVERED = 5
