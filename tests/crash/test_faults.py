"""The k-th call fails, for every k and every way to fail; then the process dies, and then the power goes."""

import errno
from collections.abc import Iterator

import pytest
from crash.disk import CHANGES, Fault, ImageDisk, Op
from crash.oracle import Ledger, judge
from crash.recording import Gallery, Moment, Recording
from crash.run import Run, a_life, go_on, tolerant

pytestmark = pytest.mark.slow


ERRORS = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EINTR, errno.EROFS)
_WRITES = ("write", "write_at")


def failing(number: int, code: int, *, from_then_on: bool = False) -> Fault:
    """Let the `number`-th changing call fail, or every one from there on."""
    left = number

    def fault(op: Op) -> OSError | None:
        nonlocal left
        if op.kind not in CHANGES:
            return None
        left -= 1
        return OSError(code, errno.errorcode[code], op.path) if left == -1 or (from_then_on and left < 0) else None

    return fault


def short(number: int, keep: float) -> Fault:
    """Let the `number`-th write take only a part."""
    left = number

    def fault(op: Op) -> int | None:
        nonlocal left
        left -= op.kind in _WRITES
        return max(1, int(op.size * keep)) if op.kind in _WRITES and left == -1 else None

    return fault


def calls(kinds: frozenset[str]) -> int:
    disk = ImageDisk()
    a_life(Run(disk, Ledger()))
    return sum(op.kind in kinds for op in disk.ops)


def after(fault: Fault) -> Moment:
    """Return what a life with the fault leaves to the next process."""
    moment = Moment(ImageDisk(), Ledger())
    moment.disk.fault = fault
    tolerant(a_life, Run(moment.disk, moment.ledger))
    return Moment(moment.disk.copy(), moment.ledger)


def judge_all(moment: Moment, gallery: Gallery) -> None:
    """Judge the kill, the power cut, and both after another process went on."""
    judge(moment.disk.copy(), moment.ledger)
    gallery.judge(moment, "few")
    later = Recording(moment.disk, moment.ledger).record(go_on).moments
    for at in later[:: max(1, len(later) // 3)]:
        gallery.judge(at, "few")


def faults(stride: int) -> Iterator[Fault]:
    count = calls(CHANGES)
    for code in ERRORS:
        yield from (failing(number, code) for number in range(0, count, stride))
    for code in (errno.EIO, errno.ENOSPC):
        yield from (failing(number, code, from_then_on=True) for number in range(0, count, stride))
    for keep in (0, 0.5, 0.999):
        yield from (short(number, keep) for number in range(calls(frozenset(_WRITES))))


def test_whatever_call_fails_however_nothing_promised_is_lost_while_the_cache_lives() -> None:
    for fault in faults(1):
        moment = after(fault)
        judge(moment.disk, moment.ledger)


@pytest.mark.parametrize("stride", [17, pytest.param(1, marks=pytest.mark.slow)])
def test_whatever_call_fails_however_a_power_cut_then_or_later_loses_nothing_promised(
    stride: int, capsys: pytest.CaptureFixture[str]
) -> None:
    gallery, count = Gallery(), 0
    for fault in faults(stride):
        count += 1
        judge_all(after(fault), gallery)
    with capsys.disabled():
        print(f"\n  {count} faults, {gallery.judged:,} images of what they left, none violating")


def test_what_a_failing_call_leaves_when_the_power_goes_at_once_loses_nothing_promised() -> None:
    gallery = Gallery()
    for fault in faults(7):
        moment = Moment(ImageDisk(), Ledger())
        moment.disk.fault = fault
        tolerant(a_life, Run(moment.disk, moment.ledger))
        gallery.judge(moment, "few")
