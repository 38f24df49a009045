import time

import anyio
import pytest

from acp_bridge.effects import Deadline, shielded_cleanup


async def test_last_words_are_said_although_the_run_is_cancelled() -> None:
    said = False
    with anyio.fail_after(5), anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep_forever()
        finally:
            with shielded_cleanup():
                await anyio.lowlevel.checkpoint()
                said = True
    assert said


async def test_last_words_that_take_too_long_are_cut_short() -> None:
    with anyio.fail_after(5), shielded_cleanup(0.01) as words:
        await anyio.sleep_forever()
    assert words.cancelled_caught


async def test_a_shield_ends_with_the_deadline_and_no_later() -> None:
    deadline = Deadline.after(0.02)
    reached: list[str] = []
    with anyio.fail_after(5), anyio.CancelScope() as scope:
        scope.cancel()
        with deadline.shield():
            await anyio.sleep_forever()
        reached.append("after the first")
        with deadline.shield():
            await anyio.sleep_forever()
        reached.append("after the second")
    assert reached == ["after the first", "after the second"]
    assert deadline.remaining_s() == 0


async def test_a_share_leaves_time_to_those_who_follow() -> None:
    deadline = Deadline.after(1000)
    with deadline.shield(share=0.5) as scope:
        assert scope.deadline - anyio.current_time() == pytest.approx(500, abs=5)


def test_what_is_left_shrinks_and_is_never_negative() -> None:
    assert 9 < Deadline.after(10).remaining_s() <= 10
    assert Deadline(time.monotonic() - 1).remaining_s() == 0
