"""Every legal disk after a crash, for a whole life of sessions, judged by one oracle. Prints how many.

The quick run takes some of the moments, evenly spread; the slow run takes them all.
"""

from itertools import islice

import pytest
from crash.images import Grain, images
from crash.oracle import judge
from crash.recording import Gallery, Recording, kills
from crash.run import a_life, go_on, look


def say(capsys: pytest.CaptureFixture[str], words: str) -> None:
    with capsys.disabled():
        print(f"\n  {words}")


@pytest.mark.parametrize(
    ("grain", "step"),
    [
        ("each", 6),
        pytest.param("each", 1, marks=pytest.mark.slow),
        pytest.param("all", 1, marks=pytest.mark.slow),
    ],
)
def test_no_power_cut_in_a_life_of_sessions_breaks_a_promise(
    grain: Grain, step: int, capsys: pytest.CaptureFixture[str]
) -> None:
    gallery = Gallery()
    moments = Recording().record(a_life).moments[::step]
    for moment in moments:
        gallery.judge(moment, grain)
    assert gallery.judged >= 10_000 // step
    say(capsys, f"{gallery.judged:,} images of {len(moments)} moments, none violating")


@pytest.mark.parametrize("step", [3 * 29, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_at_any_call_and_a_power_cut_in_the_next_process_break_no_promise(
    step: int, capsys: pytest.CaptureFixture[str]
) -> None:
    gallery, killed = Gallery(), 0
    for moment in kills(a_life, step=step):
        killed += 1
        judge(moment.disk.copy(), moment.ledger)
        for work in (look, go_on):
            for later in Recording(moment.disk.copy(), moment.ledger.copy()).record(work).moments:
                gallery.judge(later, "few")
    say(capsys, f"{killed} kills, {gallery.judged:,} images of what came after, none violating")


@pytest.mark.parametrize("step", [3 * 4001, pytest.param(101, marks=pytest.mark.slow)])
def test_a_power_cut_during_the_repair_of_what_a_power_cut_left_breaks_no_promise(
    step: int, capsys: pytest.CaptureFixture[str]
) -> None:

    gallery, repairs = Gallery(), 0
    moments = Recording().record(a_life).moments
    left = ((moment, image) for moment in moments for image in images(moment.disk, "each"))
    for moment, image in islice(left, 7, None, step):
        repairs += 1
        for later in Recording(image, moment.ledger.copy()).record(go_on).moments:
            gallery.judge(later, "few")
    say(capsys, f"{repairs} repairs, {gallery.judged:,} images of them, none violating")
