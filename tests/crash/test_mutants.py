"""Seeded faults in the storage itself: the crash images, kills, faults and damage must find each one."""

import errno
from collections.abc import Callable, Sequence

import pytest
from crash.disk import ImageDisk, Op
from crash.images import images
from crash.oracle import ROOT, Ledger, Promise, Violation, judge, store_on
from crash.recording import Gallery, Moment, Recording, kills
from crash.run import OPENED, Run, a_life, delta, go_on, header, look, tolerant
from crash.salvage import judge_salvaged, salvage_moments

from acp_bridge.errors import StoreCorrupt, StoreError
from acp_bridge.session import TurnEnded, TurnStarted
from acp_bridge.storage import disk as disks
from acp_bridge.storage import folder, log, scan
from acp_bridge.storage import format as line_format
from acp_bridge.storage.format import Seal
from acp_bridge.storage.held_log import HeldLog
from acp_bridge.storage.lock import Mark
from acp_bridge.storage.log import LogFile

# Where a fault may be found.


def power_cuts() -> None:
    gallery = Gallery()
    for moment in Recording().record(a_life).moments:
        gallery.judge(moment, "few")


def kills_then_power_cuts() -> None:
    for moment in kills(a_life, step=15):
        judge(moment.disk.copy(), moment.ledger)
        gallery = Gallery()
        for later in Recording(moment.disk, moment.ledger).record(go_on).moments[::3]:
            gallery.judge(later, "few")


def kills_in_a_repair() -> None:
    """The process that repairs is killed at each call; the next one goes on, and then the power goes."""
    for moment in kills(go_on, step=1, start=_torn):
        _judge_after(moment, go_on)


def kills_in_a_making() -> None:
    for moment in kills(lambda run: run.create("s1", OPENED)):
        moment.ledger.sessions["s1"] = moment.ledger.sessions.get("s1") or Promise(header("s1"), [[]])
        _judge_after(Moment(moment.disk.copy(), moment.ledger.copy()), lambda run: run.create("s2", OPENED))
        _judge_after(moment, go_on)


def kills_then_a_look() -> None:
    """The process that repairs, or makes, is killed at each call; the next one only shows what there is."""
    for moment in (*kills(go_on, start=_torn), *kills(lambda run: run.create("s1", OPENED))):
        moment.ledger.sessions["s1"] = moment.ledger.sessions.get("s1") or Promise(header("s1"), [[]])
        _judge_after(moment, look)


def _judge_after(moment: Moment, work: Callable[[Run], None]) -> None:
    """Let the next process work on what a killed one left, and the power go at each moment of that."""
    gallery = Gallery()
    for later in Recording(moment.disk, moment.ledger).record(work).moments:
        gallery.judge(later, "few")


def _torn() -> Moment:
    """A session whose log ends in half a line, as the medium has it."""
    moment = Moment(ImageDisk(), Ledger())
    run = Run(moment.disk, moment.ledger)
    run.create("s1", OPENED)
    run.append("s1", TurnStarted(turn=1))
    run.close("s1")
    node = moment.disk._node(f"{ROOT}/s1/log.jsonl")
    node.data += b'{"type":"assistant/del'
    node.stable = bytes(node.data)
    return moment


def salvages_cut_short() -> None:
    """A salvage of a damaged log, cut short anywhere, leaves the damaged log or the salvaged one."""
    for moment, damaged in salvage_moments():
        for image in images(moment.disk, "few"):
            judge_salvaged(image, damaged)


def failed_syncs() -> None:
    """Each sync of a log fails once; the process dies or goes on; the power goes then, or after the next process."""
    for number in sorted(range(12), key=lambda number: number != 7):  # in the seventh most faults show
        moment = Moment(ImageDisk(), Ledger())
        moment.disk.fault = _failing_sync(number)
        tolerant(a_life, Run(moment.disk, moment.ledger))
        Gallery().judge(moment, "few")
        for dies in (True, False):
            if dies:
                moment = _killed_at_failing_sync(number)
            later = Recording(moment.disk.copy(), moment.ledger.copy()).record(go_on).moments
            gallery = Gallery()
            for at in later:
                gallery.judge(at, "few")


def _failing_sync(number: int) -> Callable[[Op], OSError | None]:
    left = number

    def fault(op: Op) -> OSError | None:
        nonlocal left
        left -= op.kind == "sync" and op.path.endswith("log.jsonl")
        is_it = left == -1 and op.kind == "sync"
        return OSError(errno.EIO, "EIO", op.path) if is_it else None

    return fault


def _killed_at_failing_sync(number: int) -> Moment:
    moment = Moment(ImageDisk(), Ledger())
    failing = _failing_sync(number)

    class Gone(BaseException):
        pass

    def fault(op: Op) -> BaseException | None:
        if moment.disk.dead:
            return Gone()
        verdict = failing(op)
        moment.disk.dead = verdict is not None
        return verdict

    moment.disk.fault = fault
    try:
        tolerant(a_life, Run(moment.disk, moment.ledger))
    except BaseException as exc:
        if isinstance(exc, KeyboardInterrupt):
            raise
    return Moment(moment.disk.copy(), moment.ledger)


def damage() -> None:
    """A bit that flips below what is known durable is seen, with or without the mark, and nothing is changed."""
    for with_mark in (True, False):
        disk, ledger = ImageDisk(), Ledger()
        run = Run(disk, ledger)
        run.create("s1", OPENED)
        for _ in range(3):
            run.append("s1", TurnStarted(turn=1), delta("text"), TurnEnded(turn=1, reason="completed"))
        run.close("s1")
        path = f"{ROOT}/s1/log.jsonl"
        whole = disk.file(path)
        last_batch = whole.rindex(b'{"type":"turn/start"')
        for at in range(0, len(whole) if with_mark else last_batch, 7):
            damaged = disk.copy()
            node = damaged._node(path)
            node.data[at] ^= 1
            if not with_mark:
                damaged._node(ROOT).names.pop("s1.lock")
            _must_refuse(damaged, path)


def _must_refuse(disk: ImageDisk, path: str) -> None:
    before = disk.file(path)
    try:
        store_on(disk).hold("s1")
    except StoreCorrupt:
        if disk.file(path) != before:
            raise Violation("a damaged log was changed") from None
        return
    raise Violation("damage below what is known durable was not seen")


def torn_tails() -> None:
    """What follows a torn line is not glued to it."""
    moment = _torn()
    go_on(Run(moment.disk, moment.ledger))
    judge(moment.disk, moment.ledger)


CAMPAIGN = (
    power_cuts,
    torn_tails,
    damage,
    kills_in_a_making,
    kills_then_a_look,
    kills_in_a_repair,
    salvages_cut_short,
    failed_syncs,
    kills_then_power_cuts,
)

# The faults.

Plant = Callable[[pytest.MonkeyPatch], None]
Part = Callable[[], None]


def nothing(_: pytest.MonkeyPatch) -> None:
    """The storage as it is."""


def no_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ImageDisk, "sync", lambda self, fd: None)


def no_folder_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ImageDisk, "sync_folder", lambda self, path: None)


def no_folder_sync_at_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HeldLog, "_make_names_durable", lambda self: None)


def acknowledged_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    sync = ImageDisk.sync
    waiting: list[tuple[ImageDisk, int]] = []

    def late(self: ImageDisk, fd: int) -> None:
        if waiting and waiting[-1][0] is self and waiting[-1][1] in self._open:
            sync(*waiting.pop())
        waiting[:] = [(self, fd)]

    patch.setattr(ImageDisk, "sync", late)


def a_failed_sync_is_tried_again(patch: pytest.MonkeyPatch) -> None:
    sync = ImageDisk.sync

    def again(self: ImageDisk, fd: int) -> None:
        try:
            sync(self, fd)
        except OSError:
            sync(self, fd)

    patch.setattr(ImageDisk, "sync", again)


def a_failed_sync_does_not_poison(patch: pytest.MonkeyPatch) -> None:
    append = LogFile.append

    def forgetful(self: LogFile, bodies: Sequence[bytes]) -> int:
        try:
            return append(self, bodies)
        except StoreError:
            self.poison = None
            self._end = self._disk.fstat(self.fd).st_size
            self._disk.sync(self.fd)
            return 0

    patch.setattr(LogFile, "append", forgetful)


def a_torn_line_is_not_cut(patch: pytest.MonkeyPatch) -> None:
    init = HeldLog.__init__

    def careless(self: HeldLog, *args: object, **kwargs: object) -> None:
        init(self, *args, **kwargs)  # type: ignore[arg-type]
        self.must_rewrite = False

    patch.setattr(HeldLog, "__init__", careless)


def no_checksum(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Seal, "holds", lambda self, line, offset: line.startswith(b"{") and line.endswith(b'"}'))


def a_checksum_without_seed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(line_format, "crc32", lambda data, seed=0: __import__("zlib").crc32(data))


def d_counts_the_batch_itself(patch: pytest.MonkeyPatch) -> None:
    close = Seal.close
    patch.setattr(Seal, "close", lambda self, body, offset, durable: close(self, body, offset, offset))


def d_is_always_zero(patch: pytest.MonkeyPatch) -> None:
    close = Seal.close
    patch.setattr(Seal, "close", lambda self, body, offset, durable: close(self, body, offset, 0))


def the_log_is_cut_at_d(patch: pytest.MonkeyPatch) -> None:
    original = scan._read

    def cut(found: scan.Scan, seal: Seal, lines: object, take: Callable[[dict[str, object]], None]) -> str:
        kept: list[tuple[int, dict[str, object]]] = []
        reason = original(found, seal, lines, lambda r: kept.append((found.end, r)))  # type: ignore[arg-type]
        below = [r for offset, r in kept if offset < found.durable]
        for r in below:
            take(r)
        if found.end > found.durable > found.first.size:
            found.end, found.records = found.durable, len(below)
            found.tail.clear()
        return reason

    patch.setattr(scan, "_read", cut)


def poison_is_forgotten_by_the_next_process(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scan.Scan, "may_not_last", property(lambda self: False))


def no_mark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogFile, "_write_mark", lambda self, *, attempted: None)


def a_mark_of_another_file_is_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Mark, "names", lambda self, inode, gen: True)


def a_listing_goes_on_behind_whatever_is_there(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scan, "_is_still_there", lambda disk, fd, seal, before: before.records > 0)


def the_mark_claims_success_before_it(patch: pytest.MonkeyPatch) -> None:
    write_mark = LogFile._write_mark

    def boastful(self: LogFile, *, attempted: int) -> None:
        self._lock.write_mark(Mark(self.inode, self.first.gen, attempted, attempted))

    assert write_mark
    patch.setattr(LogFile, "_write_mark", boastful)


def what_is_loaded_is_taken_for_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scan.Scan, "is_confirmed", property(lambda self: True))


def the_mark_is_written_before_the_names_are_synced(patch: pytest.MonkeyPatch) -> None:
    finish = LogFile.finish_rewrite

    def hasty(self: LogFile) -> int:
        self._end = self.durable = self._explained
        self._write_mark(attempted=self._end)
        return finish(self)

    patch.setattr(LogFile, "finish_rewrite", hasty)


def what_a_killed_process_made_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    make_root = folder.make_root

    def hasty(disk: ImageDisk, root: str) -> None:
        if not disks.exists(disk, root):
            make_root(disk, root)

    patch.setattr(folder, "make_root", hasty)


def folders_are_made_before_any_is_synced(patch: pytest.MonkeyPatch) -> None:
    make_root = folder.make_root

    def hasty(disk: ImageDisk, root: str) -> None:
        for path in ("/home", "/home/acp", root):
            if not disks.exists(disk, path):
                disk.make_folder(path)
        make_root(disk, root)

    patch.setattr(folder, "make_root", hasty)


def a_new_file_is_renamed_before_its_sync(patch: pytest.MonkeyPatch) -> None:
    def unsynced(disk: ImageDisk, path: str, lines: Sequence[bytes]) -> int:
        fd = disk.open(path, disks.NEW)
        disks.write_whole(disk, fd, b"".join(lines))
        return fd

    patch.setattr(log, "write_lines", unsynced)
    patch.setattr(folder, "write_lines", unsynced)


def a_deletion_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    def hasty(disk: ImageDisk, root: str, session_id: str, lock: object) -> str:
        disk.rename(f"{root}/{session_id}", f"{root}/trash-{session_id}")
        return f"{root}/trash-{session_id}"

    patch.setattr(folder, "discard", hasty)


def a_content_file_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    def hasty(disk: ImageDisk, path: str, data: bytes) -> None:
        fd = disk.open(path, disks.NEW)
        disks.write_whole(disk, fd, data)
        disk.close(fd)

    patch.setattr(folder, "write_new", hasty)


MUTANTS: dict[Plant, Part] = {
    no_sync: power_cuts,
    no_folder_sync: power_cuts,
    no_folder_sync_at_open: kills_in_a_making,
    acknowledged_before_the_sync: power_cuts,
    a_failed_sync_is_tried_again: failed_syncs,
    a_failed_sync_does_not_poison: failed_syncs,
    a_torn_line_is_not_cut: power_cuts,
    no_checksum: power_cuts,
    d_counts_the_batch_itself: power_cuts,
    d_is_always_zero: damage,
    the_log_is_cut_at_d: power_cuts,
    poison_is_forgotten_by_the_next_process: failed_syncs,
    no_mark: damage,
    a_mark_of_another_file_is_believed: salvages_cut_short,
    a_listing_goes_on_behind_whatever_is_there: kills_in_a_repair,
    the_mark_claims_success_before_it: power_cuts,
    what_is_loaded_is_taken_for_synced: kills_in_a_making,
    what_a_killed_process_made_is_not_synced: kills_in_a_making,
    folders_are_made_before_any_is_synced: power_cuts,
    the_mark_is_written_before_the_names_are_synced: kills_then_a_look,
    a_new_file_is_renamed_before_its_sync: power_cuts,
    a_deletion_is_not_synced: power_cuts,
    a_content_file_is_not_synced: power_cuts,
}
"""Each fault, and the first part of the campaign that finds it."""


def finding(plant: Plant, *parts: Part) -> tuple[str, str]:
    """Return which of the parts of the campaign finds the fault first, and what it sees; empty if it lives."""
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        for part in parts:
            try:
                part()
            except (AssertionError, StoreError, KeyError, OSError, ValueError) as exc:
                return part.__name__, f"{type(exc).__name__}: {exc}"[:90]
    return "", ""


def say(capsys: pytest.CaptureFixture[str], plant: Plant, found_by: str, words: str) -> None:
    with capsys.disabled():
        print(f"\n  {plant.__name__:<45}{found_by or 'LIVES':<24}{words}")


@pytest.mark.parametrize("plant", MUTANTS, ids=lambda plant: plant.__name__)
def test_the_campaign_finds(plant: Plant, capsys: pytest.CaptureFixture[str]) -> None:
    """The part that is the first in the whole campaign to find it is enough: that it is, the slow tests see."""
    found_by, words = finding(plant, MUTANTS[plant])
    say(capsys, plant, found_by, words)
    assert found_by


@pytest.mark.slow
@pytest.mark.parametrize("plant", MUTANTS, ids=lambda plant: plant.__name__)
def test_the_part_that_is_named_is_the_first_of_the_campaign_that_finds(
    plant: Plant, capsys: pytest.CaptureFixture[str]
) -> None:
    found_by, words = finding(plant, *CAMPAIGN)
    say(capsys, plant, found_by, words)
    assert found_by == MUTANTS[plant].__name__


@pytest.mark.slow
def test_the_campaign_finds_nothing_in_the_storage_as_it_is() -> None:
    assert finding(nothing, *CAMPAIGN) == ("", "")
