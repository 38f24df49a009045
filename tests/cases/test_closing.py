"""Closing side by side, and steps within their share: the parts of dispose that need no process."""

import anyio
import anyio.lowlevel
import pytest

from acp_bridge.effects import Deadline, close_together

pytestmark = pytest.mark.anyio


async def test_what_fails_to_close_keeps_nothing_else_open() -> None:
    closed: list[str] = []

    async def slowly() -> None:
        await anyio.sleep(0.01)
        closed.append("slow")

    async def failing() -> None:
        raise RuntimeError("no")

    async def at_once() -> None:
        closed.append("quick")

    with anyio.fail_after(5), pytest.raises(ExceptionGroup) as caught:
        await close_together((failing, slowly, at_once, failing))
    assert sorted(closed) == ["quick", "slow"]
    assert [str(failure) for failure in caught.value.exceptions] == ["no", "no"]


async def test_a_step_that_overruns_its_share_fails_and_leaves_time_to_the_next() -> None:
    deadline = Deadline.after(0.2)
    with anyio.fail_after(5):
        with pytest.raises(TimeoutError, match="the first did not end in time"):
            with deadline.within(0.5, "the first"):
                await anyio.sleep_forever()
        assert deadline.remaining_s() > 0
        with deadline.within(1.0, "the second"):
            await anyio.lowlevel.checkpoint()
