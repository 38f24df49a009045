"""Every legal disk after a crash, for a whole life of sessions, judged by one oracle. Prints how many."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from crash.disk import CHANGES, ImageDisk, Killed, Op
from crash.images import images
from crash.oracle import Ledger, judge
from crash.run import Run, a_life, go_on


@dataclass
class Moment:
    """The disk, and what had been promised."""

    disk: ImageDisk
    ledger: Ledger


@dataclass
class Recording:
    """The moments of a run after each call that changed the disk and after each acknowledgement."""

    disk: ImageDisk = field(default_factory=ImageDisk)
    ledger: Ledger = field(default_factory=Ledger)
    moments: list[Moment] = field(default_factory=list)

    def record(self, work: Callable[[Run], None]) -> "Recording":
        def after(op: Op) -> None:
            if op.kind in CHANGES:
                self._keep()

        self.disk.after = after
        work(Run(self.disk, self.ledger, self._keep))
        self.disk.after = None
        return self

    def _keep(self) -> None:
        self.moments.append(Moment(self.disk.copy(), self.ledger.copy()))


class Gallery:
    """Judges each image once for each state of the promises."""

    def __init__(self) -> None:
        self.judged = 0
        self._seen: set[int] = set()

    def judge(self, moment: Moment, *, fine: bool) -> None:
        promised = repr(moment.ledger)
        for image in images(moment.disk, fine=fine):
            key = hash((image.key(), promised))
            if key not in self._seen:
                self._seen.add(key)
                judge(image, moment.ledger)
                self.judged += 1


def test_no_power_cut_in_a_life_of_sessions_breaks_a_promise(capsys: pytest.CaptureFixture[str]) -> None:
    gallery = Gallery()
    recording = Recording().record(a_life)
    for moment in recording.moments:
        gallery.judge(moment, fine=True)
    with capsys.disabled():
        print(f"\n  {gallery.judged} images of {len(recording.moments)} moments, none violating")


def kills(work: Callable[[Run], None]) -> Iterator[tuple[ImageDisk, Ledger]]:
    """Yield the disk and the promises after a kill at each call of `work`: the cache survives."""
    at = 0
    while True:
        disk, ledger, left = ImageDisk(), Ledger(), at

        def die(op: Op) -> Killed | None:
            nonlocal left
            if op.kind not in CHANGES:
                return None
            left -= 1
            disk.dead = left < 0
            return Killed() if disk.dead else None

        disk.fault = die
        try:
            work(Run(disk, ledger))
        except Killed:
            yield disk.copy(), ledger
            at += 1
        else:
            return


def test_a_kill_at_any_call_then_a_power_cut_in_the_next_process_breaks_no_promise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gallery, killed = Gallery(), 0
    for disk, ledger in kills(a_life):
        killed += 1
        judge(disk.copy(), ledger)
        recording = Recording(disk, ledger).record(go_on)
        for moment in recording.moments:
            gallery.judge(moment, fine=False)
    with capsys.disabled():
        print(f"\n  {killed} kills, {gallery.judged} images of what came after, none violating")
