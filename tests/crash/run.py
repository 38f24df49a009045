"""Runs to be cut short: each hands records to the store and keeps account of what it was promised."""

from collections.abc import Callable
from contextlib import suppress

from crash.disk import ImageDisk
from crash.oracle import ROOT, Ledger, Promise, store_on

from acp_bridge.content import Image, Text
from acp_bridge.errors import SessionNotFound, StoreError, StorePoisoned
from acp_bridge.session import (
    AssistantDelta,
    Event,
    Header,
    Record,
    SessionFilter,
    SessionOpened,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserMessage,
    encode_header,
)
from acp_bridge.storage import folder
from acp_bridge.storage.disk import exists
from acp_bridge.storage.format import body_of
from acp_bridge.storage.held_log import HeldLog
from acp_bridge.storage.index import Index
from acp_bridge.storage.sweep import sweep

OPENED = SessionOpened(version="1", barriers=("tool",), cwd="/w", roots=("/w",))


def header(session_id: str) -> Header:
    return Header(session_id=session_id, created=1000, version="1", cwd="/w", roots=("/w",))


class Run:
    """One process's dealings with the store.

    A failed write is salvaged at once, as the journal does at the next prompt.
    """

    def __init__(self, disk: ImageDisk, ledger: Ledger, acknowledged: Callable[[], None] = lambda: None) -> None:
        self.disk, self.ledger, self.store = disk, ledger, store_on(disk)
        self._acknowledged = acknowledged
        self._held: dict[str, HeldLog] = {}
        self.in_doubt = False

    def create(self, session_id: str, *events: Event) -> None:
        records = [Record(seq, 1000 + seq, event) for seq, event in enumerate(events)]
        promise = self.ledger.sessions[session_id] = Promise(header(session_id), [records])
        members = encode_header(promise.header)
        self._held[session_id] = self.store.create(session_id, members, [body_of(record) for record in records])
        promise.exists, promise.acknowledged = True, len(records)
        self._acknowledged()

    def hold(self, session_id: str) -> None:
        promise = self.ledger.sessions[session_id]
        self._held[session_id], loaded = self.store.hold(session_id)
        promise.histories.append(list(loaded.records))
        self._acknowledged()
        self.in_doubt = bool(loaded.dropped_bytes) or loaded.may_not_last or loaded.unconfirmed

    def show(self, session_id: str) -> None:
        """Show a client what is in a session that is held, once it is known to last."""
        promise = self.ledger.sessions[session_id]
        if self.in_doubt:
            self.append(session_id, OPENED)
        promise.acknowledged = len(promise.histories[-1])
        promise.exists, promise.deleting = True, False  # whoever showed it undid a deletion that nobody was told of
        self._acknowledged()

    def append(self, session_id: str, *events: Event) -> None:
        held, promise = self._held[session_id], self.ledger.sessions[session_id]
        history = promise.histories[-1]
        del history[held.next_seq :]
        records = [Record(seq, 2000 + seq, event) for seq, event in enumerate(events, held.next_seq)]
        history.extend(records)
        bodies = [body_of(record) for record in records]
        try:
            held.save(bodies)
        except StorePoisoned:
            held.rewrite(bodies)
        promise.acknowledged = len(history)
        promise.exists, promise.deleting = True, False
        self._acknowledged()

    def append_with_image(self, session_id: str, data: bytes) -> None:
        name = folder.content_name(data)
        self.ledger.sessions[session_id].content[name] = data
        try:
            folder.write_content(self.disk, self._held[session_id].folder, name, data)
        except OSError:
            return  # the prompt is refused; the log is none the worse for it
        block = Image(mime_type="image/png", file=name, size=len(data))
        self.append(session_id, UserMessage(id=f"m-{name[:4]}", content=(block,), source="user"))

    def fork(self, session_id: str, new_id: str, *, through: int) -> None:
        source = self.ledger.sessions[session_id]
        records = source.histories[-1][: through + 1]
        promise = self.ledger.sessions[new_id] = Promise(header(new_id), [records], content=dict(source.content))
        self.store.fork(session_id, new_id, encode_header(promise.header), through)
        promise.exists, promise.acknowledged = True, len(records)
        self._acknowledged()

    def tidy(self, *empty: str) -> None:
        """List what there is, as for a client, and sweep leftovers and the sessions `empty`, as at a start."""
        Index(self.disk, ROOT).page(SessionFilter(with_empty=True), None, 1000, is_open=self._held)
        for session_id in empty:
            self.ledger.sessions[session_id].deleting = True
        gone = sweep(self.store, empty)
        for session_id in empty if gone else ():
            self.ledger.sessions[session_id].deleted = not exists(self.disk, f"{ROOT}/{session_id}")
        self._acknowledged()

    def delete(self, session_id: str) -> None:
        promise = self.ledger.sessions[session_id]
        promise.deleting = True
        self.close(session_id)
        remove = self.store.discard(session_id)
        promise.deleted = True
        self._acknowledged()
        if remove is not None:
            remove()

    def close(self, session_id: str) -> None:
        held = self._held.pop(session_id, None)
        if held is not None:
            held.close()


def delta(text: str, turn: int = 1) -> AssistantDelta:
    return AssistantDelta(turn=turn, step=1, message_id="a1", kind="text", text=text)


def a_life(run: Run) -> None:
    """A session from its making to its third opening, a fork of it, and the deletion of another."""
    run.create("s1", OPENED)
    run.append("s1", TurnStarted(turn=1), StepStarted(turn=1, step=1))
    run.append("s1", *(delta(f"word {i}, " * (1 + i % 3)) for i in range(5)))
    run.append_with_image("s1", b"picture" * 150)
    call = ToolCalled(turn=1, step=1, call_id="c1", name="run_command", arguments={"command": "make"}, effect="write")
    run.append("s1", call)
    result = ToolResult(turn=1, step=1, call_id="c1", content=(Text(text="line\n" * 250),))
    run.append("s1", result, StepEnded(turn=1, step=1), TurnEnded(turn=1, reason="completed"))
    run.close("s1")
    run.create("s2", OPENED)
    run.tidy()
    run.hold("s1")
    run.append("s1", OPENED)
    run.fork("s1", "s3", through=len(run.ledger.sessions["s1"].histories[-1]) - 2)
    run.append("s1", TurnStarted(turn=2), delta("again", 2), delta("a long answer\n" * 700, 2))
    run.create("s4", OPENED)
    run.close("s4")
    run.delete("s2")
    run.close("s1")
    run.tidy("s4")


def go_on(run: Run) -> None:
    """What the next process does with whatever it finds."""
    if exists(run.disk, ROOT):
        run.tidy()
    for session_id in [name for name, promise in run.ledger.sessions.items() if not promise.deleted]:
        try:
            run.hold(session_id)
        except SessionNotFound:
            continue
        run.append(session_id, TurnEnded(turn=1, reason="interrupted"))
        run.append(session_id, OPENED, delta("after the restart"))
        run.close(session_id)


def look(run: Run) -> None:
    """What the next process does for a client that only loads what there is."""
    for session_id in [name for name, promise in run.ledger.sessions.items() if not promise.deleted]:
        try:
            run.hold(session_id)
        except SessionNotFound:
            continue
        run.show(session_id)
        run.close(session_id)


def tolerant(work: Callable[[Run], None], run: Run) -> None:
    """Do `work` as far as the store lets it."""
    with suppress(StoreError):
        work(run)
