"""What becomes of a cancellation that nobody asked for; one that somebody did is never touched."""

import asyncio  # noqa: TID251  its own cancellation is what is looked at
from collections.abc import Awaitable, Callable

import anyio
import pytest

from acp_bridge.effects import StrayCancellation, no_stray_cancellation


async def stray() -> None:
    """Await what was cancelled, as code does whose library gave up on something."""
    cancelled: asyncio.Future[None] = asyncio.Future(loop=asyncio.get_running_loop())
    cancelled.cancel()
    await cancelled


async def within_a_timeout_of_its_own() -> None:
    with anyio.fail_after(5):
        await stray()


async def within_a_group_of_its_own() -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.sleep(0))
        await stray()


async def after_a_scope_that_was_cancelled() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await anyio.sleep_forever()
    await stray()


async def after_a_timeout_of_asyncio() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await anyio.sleep_forever()
    await stray()


async def in_a_shield_that_a_cancel_does_not_reach() -> None:
    with anyio.CancelScope() as outer:
        outer.cancel()
        with anyio.CancelScope(shield=True):
            async with no_stray_cancellation():
                await stray()


class TestWithAsyncio:
    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.mark.parametrize(
        "body",
        [
            stray,
            within_a_timeout_of_its_own,
            within_a_group_of_its_own,
            after_a_scope_that_was_cancelled,
            after_a_timeout_of_asyncio,
            in_a_shield_that_a_cancel_does_not_reach,
        ],
    )
    async def test_a_cancellation_that_nobody_asked_for_is_an_error(self, body: Callable[[], Awaitable[None]]) -> None:
        with anyio.fail_after(5):
            with pytest.raises(StrayCancellation):
                async with no_stray_cancellation():
                    await body()

    async def test_the_others_of_a_task_group_hear_of_it(self) -> None:
        ran: list[str] = []

        async def failing() -> None:
            async with no_stray_cancellation():
                await stray()

        async def other() -> None:
            await anyio.lowlevel.checkpoint()
            ran.append("other")

        with anyio.fail_after(5):
            with pytest.raises(ExceptionGroup) as caught:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(failing)
                    tasks.start_soon(other)
        assert caught.group_contains(StrayCancellation)

    @pytest.mark.parametrize("waiting", [True, False])
    async def test_a_native_cancel_goes_through(self, waiting: bool) -> None:
        async def body() -> None:
            async with no_stray_cancellation():
                await anyio.sleep_forever()

        task = asyncio.create_task(body())
        if waiting:
            await anyio.wait_all_tasks_blocked()
        task.cancel()
        with anyio.fail_after(5):
            await asyncio.wait([task])
        assert task.cancelled()

    async def test_a_native_cancel_of_itself_goes_through(self) -> None:
        async def body() -> None:
            async with no_stray_cancellation():
                current = asyncio.current_task()
                assert current is not None
                current.cancel()
                await anyio.lowlevel.checkpoint()

        task = asyncio.create_task(body())
        with anyio.fail_after(5):
            await asyncio.wait([task])
        assert task.cancelled()

    async def test_a_native_cancel_that_a_timeout_and_a_scope_inside_have_seen_goes_through(self) -> None:
        async def body() -> None:
            async with no_stray_cancellation():
                with anyio.CancelScope() as scope:
                    async with asyncio.timeout(5):
                        scope.cancel()
                        await anyio.sleep_forever()

        task = asyncio.create_task(body())
        await anyio.lowlevel.checkpoint()
        task.cancel()
        with anyio.fail_after(5):
            await asyncio.wait([task])
        assert task.cancelled()

    async def test_a_cancel_of_a_timeout_outside_goes_through(self) -> None:
        with anyio.fail_after(5):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    async with no_stray_cancellation():
                        await anyio.sleep_forever()

    async def test_one_that_meets_the_cancel_of_a_scope_ends_with_that_scope(self) -> None:
        after: list[str] = []
        with anyio.fail_after(5):
            with anyio.CancelScope() as scope:
                async with no_stray_cancellation():
                    scope.cancel()
                    await stray()
                after.append("never")
        assert scope.cancelled_caught
        assert after == []

    @pytest.mark.parametrize("native_first", [True, False])
    async def test_a_native_cancel_that_meets_the_cancel_of_a_scope_is_not_lost(self, native_first: bool) -> None:
        scope = anyio.CancelScope()
        after: list[str] = []

        async def body() -> None:
            with scope:
                async with no_stray_cancellation():
                    await anyio.sleep_forever()
            after.append("never")

        task = asyncio.create_task(body())
        await anyio.wait_all_tasks_blocked()
        if native_first:
            task.cancel()
        scope.cancel()
        task.cancel()
        with anyio.fail_after(5):
            await asyncio.wait([task])
        assert task.cancelled()
        assert after == []


async def test_a_cancel_by_a_scope_goes_through_however_deep_it_lies() -> None:
    after: list[str] = []
    with anyio.fail_after(5):
        with anyio.CancelScope() as outer:
            async with no_stray_cancellation():
                with anyio.CancelScope(), anyio.fail_after(3):
                    async with no_stray_cancellation():
                        outer.cancel()
                        await anyio.sleep_forever()
            after.append("never")
    assert outer.cancelled_caught
    assert after == []


async def test_the_end_of_a_task_group_reaches_its_tasks_through_it() -> None:
    ended: list[str] = []

    async def body() -> None:
        try:
            async with no_stray_cancellation():
                await anyio.sleep_forever()
        except BaseException as exc:
            ended.append(type(exc).__name__)
            raise

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(body)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    assert ended == [anyio.get_cancelled_exc_class().__name__]


async def test_a_deadline_outside_and_one_inside_are_timeouts_as_ever() -> None:
    with anyio.fail_after(5):
        with pytest.raises(TimeoutError), anyio.fail_after(0):
            async with no_stray_cancellation():
                await anyio.sleep_forever()
        with pytest.raises(TimeoutError):
            async with no_stray_cancellation():
                with anyio.fail_after(0):
                    await anyio.sleep_forever()


async def test_a_cancellation_of_asyncios_is_nobodys_under_trio_also_while_a_scope_is_cancelled() -> None:
    if anyio.get_cancelled_exc_class() is asyncio.CancelledError:
        pytest.skip("asyncio's own cancellation, seen above")
    with anyio.fail_after(5), anyio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(StrayCancellation):
            async with no_stray_cancellation():
                raise asyncio.CancelledError
