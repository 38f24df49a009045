"""The explicit salvage of a damaged log, cut short at any point."""

from collections.abc import Iterator

from crash.disk import CHANGES, ImageDisk, Killed
from crash.oracle import ROOT, Ledger, demand, store_on
from crash.recording import Moment
from crash.run import OPENED, Run, delta

from acp_bridge.errors import StoreCorrupt
from acp_bridge.session import SessionSalvaged, TurnEnded, TurnStarted

PATH = f"{ROOT}/s1/log.jsonl"
KEPT = 4
"""Records before the damaged one."""


def damaged_disk() -> tuple[ImageDisk, bytes]:
    """Return a disk whose session is damaged in its fifth record of ten, and the log's bytes."""
    disk = ImageDisk()
    run = Run(disk, Ledger())
    run.create("s1", OPENED)
    for _ in range(3):
        run.append("s1", TurnStarted(turn=1), delta("text"), TurnEnded(turn=1, reason="completed"))
    run.close("s1")
    node = disk._node(PATH)
    lines = bytes(node.data).splitlines(keepends=True)
    node.data[sum(map(len, lines[: KEPT + 1])) + 40] ^= 1
    node.stable, node.pending = bytes(node.data), []
    return disk, node.stable


def salvage_moments() -> Iterator[tuple[Moment, bytes]]:
    """Yield the disk after a kill before each call of a salvage, and after its end."""
    at = -1
    died = True
    while died:
        disk, damaged = damaged_disk()
        at, left, died = at + 1, at + 1, False

        def die(op: object, disk: ImageDisk = disk) -> Killed | None:
            nonlocal left
            if getattr(op, "kind", "") in CHANGES:
                left -= 1
                disk.dead = left < 0
            return Killed() if disk.dead else None

        disk.fault = die
        try:
            store_on(disk).salvage("s1", lambda: 5)
        except Killed:
            died = True
        yield Moment(disk.copy(), Ledger()), damaged


def judge_salvaged(disk: ImageDisk, damaged: bytes) -> None:
    """Demand that the log is the damaged one, untouched, or the salvaged one with the other beside it."""
    try:
        held, loaded = store_on(disk).hold("s1")
    except StoreCorrupt:
        demand(disk.file(PATH) == damaged, "the damaged log was changed")
        return
    held.close()
    events = [record.event for record in loaded.records]
    demand(len(events) == KEPT + 1, f"{len(events) - 1} records were kept of {KEPT}")
    last = events[-1]
    demand(isinstance(last, SessionSalvaged), "nothing says that records were lost")
    assert isinstance(last, SessionSalvaged)
    demand(last.first_lost_seq == KEPT, "another loss is told of")
    demand(disk.file(f"{ROOT}/s1/{last.kept_file}") == damaged, "the damaged log was not kept whole")
