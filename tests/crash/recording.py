"""Runs recorded, killed and made to fail; and the gallery that judges what they leave."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from crash.disk import CHANGES, Fault, ImageDisk, Killed, Op
from crash.images import Grain, images
from crash.oracle import Ledger, judge
from crash.run import Run

Work = Callable[[Run], None]


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

    def record(self, work: Work) -> "Recording":
        """Do `work` and keep its moments."""

        def after(op: Op) -> None:
            if op.kind in CHANGES:
                self._keep()

        self.disk.after = after
        try:
            work(Run(self.disk, self.ledger, self._keep))
        finally:
            self.disk.after = None
        return self

    def _keep(self) -> None:
        self.moments.append(Moment(self.disk.copy(), self.ledger.copy()))


class Gallery:
    """Judges each image once for each state of the promises."""

    def __init__(self) -> None:
        self.judged = 0
        self._seen: set[int] = set()

    def judge(self, moment: Moment, grain: Grain) -> None:
        """Judge every image of the moment."""
        promised = repr(moment.ledger)
        for image in images(moment.disk, grain):
            key = hash((image.key(), promised))
            if key not in self._seen:
                self._seen.add(key)
                judge(image, moment.ledger)
                self.judged += 1


def a_fresh_start() -> Moment:
    """Return an empty disk and no promises."""
    return Moment(ImageDisk(), Ledger())


def kills(work: Work, *, step: int = 1, start: Callable[[], Moment] = a_fresh_start) -> Iterator[Moment]:
    """Yield what a kill before each `step`-th changing call of `work` leaves: the cache survives."""
    at = 0
    while True:
        moment = start()
        disk = moment.disk.copy()
        disk.fault = _dying(disk, at)
        try:
            work(Run(disk, moment.ledger))
        except Killed:
            yield Moment(disk.copy(), moment.ledger)
            at += step
        else:
            return


def _dying(disk: ImageDisk, after: int) -> Fault:
    left = after

    def die(op: Op) -> Killed | None:
        nonlocal left
        if op.kind in CHANGES:
            left -= 1
            disk.dead = left < 0
        return Killed() if disk.dead else None

    return die
