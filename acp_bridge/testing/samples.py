"""Samples of what a session is made of: a header, an event of each type, a turn, ids that are none.

For contract suites and other tests of parts that carry events. Owns values; knows no store and no agent.
"""

import hashlib
from collections.abc import Sequence

from acp_bridge.content import Diff, Failure, Image, Location, Text, Thought, ToolRequest, Usage
from acp_bridge.session import (
    AssistantDelta,
    AssistantMessage,
    ContextCompacted,
    Event,
    Header,
    InputDropped,
    InputQueued,
    PermissionAsked,
    PermissionDecided,
    PermissionRevoked,
    PlanUpdated,
    Record,
    RequestFailed,
    RequestHeader,
    SessionConfigured,
    SessionOpened,
    SessionSalvaged,
    SessionTitled,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UsageReported,
    UserMessage,
)

MALFORMED_IDS = (
    "",
    ".",
    "..",
    "../../etc/passwd",
    "a/b",
    "/etc",
    "%2e%2e",
    "C:\\x",
    "a\0b",
    "a b",
    "a\n",
    "é",
    "x" * 65,
    "x" * 10_000,
    "tmp-x",
    "trash-x",
)
"""Ids that no store may take for a session's, nor let near a path."""

PICTURE = b"\x89PNG picture"
PICTURE_NAME = hashlib.sha256(PICTURE).hexdigest()
PICTURE_BLOCK = Image(mime_type="image/png", file=PICTURE_NAME, size=len(PICTURE))

EVERY_EVENT: tuple[Event, ...] = (
    SessionOpened(version="1", barriers=("step", "tool"), cwd="/w", roots=("/w", "/x")),
    SessionSalvaged(lost_bytes=5, first_lost_seq=7, kept_file="cut.jsonl"),
    InputQueued(id="i1", content=(Text(text="hé\u2028llo\n"), PICTURE_BLOCK), source="user"),
    InputDropped(id="i2", reason="cancelled"),
    TurnStarted(turn=1),
    UserMessage(id="m1", content=(Text(text="hello"),), source="user"),
    StepStarted(turn=1, step=1),
    RequestHeader(route="demo", options={"t": 0.5}, system="", tools=({"name": "x"},), reason="initial"),
    RequestFailed(
        turn=1,
        step=1,
        attempt=1,
        message_id="a0",
        failure=Failure(kind="rate_limit", message="slow down", status=429),
        retry_after_s=1.5,
    ),
    AssistantDelta(turn=1, step=1, message_id="a1", kind="text", text="wo\0rd"),
    AssistantMessage(
        turn=1,
        step=1,
        id="a1",
        content=(
            Thought(text="hm", signature="s"),
            Text(text="words"),
            ToolRequest(
                call_id="c1",
                name="read_file",
                arguments='{"path": "/w/a"',
                title="Read a",
                kind="read",
                locations=(Location(path="/w/a", line=3),),
            ),
        ),
        usage=Usage(input_tokens=3, output_tokens=4),
    ),
    PermissionAsked(call_id="c1", options=({"optionId": "yes"},)),
    PermissionDecided(call_id="c1", outcome="allowed", option_id="yes", grant={"id": "g1"}),
    PermissionRevoked(grant_id="g1"),
    ToolCalled(turn=1, step=1, call_id="c1", name="read_file", arguments={"path": "/w/a"}, effect="read"),
    ToolResult(
        turn=1,
        step=1,
        call_id="c1",
        content=(Text(text="text"),),
        is_error=True,
        code="FAILED",
        shown=(Diff(path="/w/a", old_text=None, new_text="x"),),
        digests={"/w/a": "00"},
    ),
    StepEnded(turn=1, step=1),
    TurnEnded(turn=1, reason="cancelled", by="client"),
    ContextCompacted(first_seq=0, last_seq=3, summary="all", header={"route": "demo"}),
    SessionConfigured(values={"mode": "ask"}),
    SessionTitled(title="A title"),
    PlanUpdated(entries=({"content": "do", "status": "pending", "priority": "low"},)),
    UsageReported(used=10, size=100),
)
"""One event of each type, with what is awkward to carry in it."""


def header(session_id: str = "s1", *, cwd: str = "/w", created: int = 1_000) -> Header:
    """Return a session's header."""
    return Header(session_id=session_id, created=created, version="1", cwd=cwd, roots=(cwd,))


def records(events: Sequence[Event], *, first: int = 0, since: int = 2_000) -> list[Record]:
    """Return `events` as records from seq `first` on, a millisecond apart."""
    return [Record(seq, since + seq, event) for seq, event in enumerate(events, first)]


A_TURN: tuple[Event, ...] = (TurnStarted(turn=1), TurnEnded(turn=1, reason="completed"))
