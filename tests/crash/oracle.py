"""The one judge of every disk that a crash, a kill or a fault left.

The log loads; every acknowledged record is in it; nothing is in it that was never written; what is repaired stays as
it is, however often it is repaired.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count

from crash.disk import ImageDisk

from acp_bridge.errors import SessionNotFound
from acp_bridge.session import Header, Page, Record, SessionFilter, TurnEnded
from acp_bridge.storage import folder
from acp_bridge.storage.blocking import BlockingStore
from acp_bridge.storage.disk import exists
from acp_bridge.storage.format import body_of
from acp_bridge.storage.index import Index

ROOT = "/home/acp/sessions"
INDEX = f"{ROOT}/index.cache"
CLOSER = TurnEnded(turn=999, reason="interrupted")


class Violation(AssertionError):
    """A promise was broken."""


@dataclass(slots=True)
class Promise:
    """What one session was promised, and all that was ever handed over to be written."""

    header: Header
    histories: list[list[Record]]
    acknowledged: int = 0
    exists: bool = False
    deleting: bool = False
    deleted: bool = False
    content: dict[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Ledger:
    """All promises of a run, as they stand at one moment."""

    sessions: dict[str, Promise] = field(default_factory=dict)

    def copy(self) -> "Ledger":
        return deepcopy(self)


def demand(claim: bool, words: str) -> None:
    if not claim:
        raise Violation(words)


def store_on(disk: ImageDisk) -> BlockingStore:
    """Return a new process's store, whose gens never repeat those of another."""
    numbers = count(disk.next_number * 1000)
    return BlockingStore(disk, ROOT, make_gen=lambda: f"{next(numbers):016x}", patience_s=0)


def judge(disk: ImageDisk, ledger: Ledger) -> None:
    """Open, repair, and repair again every session on `disk`.

    Raises:
        Violation: something does not hold.
        StoreError: a session is refused, which no crash may bring about.
    """
    store = store_on(disk)
    remembered = exists(disk, INDEX)
    listed = _listed(disk)
    demand({line.session_id for line in listed.sessions} <= set(ledger.sessions), "a session is listed that is none")
    demand(not listed.damaged, f"{listed.damaged} cannot be listed")
    for session_id, promise in ledger.sessions.items():
        _judge(disk, store, session_id, promise)
    if remembered:
        listed = _listed(disk)
        disk.unlink(INDEX)
        demand(listed == _listed(disk), "the listing remembers what is not so")


def _listed(disk: ImageDisk) -> Page:
    return Index(disk, ROOT).page(SessionFilter(with_empty=True), None, 1000, is_open=())


def _judge(disk: ImageDisk, store: BlockingStore, session_id: str, promise: Promise) -> None:
    try:
        held, loaded = store.hold(session_id)
    except SessionNotFound:
        demand(promise.deleting or not promise.exists, f"session {session_id} is gone")
        return
    demand(not promise.deleted, f"session {session_id} came back")
    records = list(loaded.records)
    demand(loaded.header == promise.header, "the header is another")
    demand(
        len(records) >= promise.acknowledged, f"{promise.acknowledged} records were promised, {len(records)} are there"
    )
    demand(
        any(records == history[: len(records)] for history in promise.histories),
        "a record is there that was never written there",
    )
    _judge_content(disk, session_id, promise, records)
    closer = Record(len(records), 7, CLOSER, synthetic=True)
    held.save([body_of(closer)])
    held.close()
    path = f"{ROOT}/{session_id}/log.jsonl"
    repaired = disk.file(path)
    held, loaded = store.hold(session_id)
    demand(list(loaded.records) == [*records, closer], "repair did not last")
    demand(not loaded.dropped_bytes, "repair left something to drop")
    demand(not held.must_rewrite, "repair left something in doubt")
    held.close()
    demand(disk.file(path) == repaired, "a second repair changed something")


def _judge_content(disk: ImageDisk, session_id: str, promise: Promise, records: list[Record]) -> None:
    for name in folder.content_needed(records[: promise.acknowledged]):
        there = folder.read_content(disk, f"{ROOT}/{session_id}", name)
        demand(there == promise.content[name], f"content file {name} of an acknowledged record is lost")
