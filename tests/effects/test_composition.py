"""Parts: their order, and what becomes of it when something fails or everything is cancelled."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest

from acp_bridge.effects import Deadline, Key, Part, Services, compose, shielded_cleanup

A: Key[str] = Key("a")
B: Key[str] = Key("b")
C: Key[str] = Key("c")


class Log(list[str]):
    """Makes parts that say what happens to them."""

    def part(
        self, key: Key[str], *, entering: Exception | None = None, leaving: Exception | None = None, words: bool = True
    ) -> Part:
        @asynccontextmanager
        async def setup(services: Services) -> AsyncGenerator[str]:
            await anyio.lowlevel.checkpoint()
            if entering is not None:
                raise entering
            self.append(f"+{key.name}")
            try:
                yield key.name
            finally:
                if words:
                    with shielded_cleanup():
                        await anyio.lowlevel.checkpoint()
                        self.append(f"-{key.name}")
                else:
                    self.append(f"-{key.name}")
                    await anyio.lowlevel.checkpoint()
                if leaving is not None:
                    raise leaving

        return Part(key, setup)


async def test_parts_are_entered_as_listed_and_left_last_first() -> None:
    log = Log()
    async with compose([log.part(A), log.part(B), log.part(C)]) as services:
        assert (services[A], services[B], services[C]) == ("a", "b", "c")
        log.append("body")
    assert log == ["+a", "+b", "+c", "body", "-c", "-b", "-a"]


async def test_a_part_gets_what_the_earlier_ones_gave_and_nothing_of_the_later_ones() -> None:
    log = Log()

    @asynccontextmanager
    async def greedy(services: Services) -> AsyncGenerator[str]:
        assert services[A] == "a"
        yield services[C]

    with pytest.raises(LookupError, match="no earlier part gives 'c'") as caught:
        async with compose([log.part(A), Part(B, greedy), log.part(C)]):
            pytest.fail("not reached")
    assert caught.value.__notes__ == ["while setting up 'b'"]
    assert log == ["+a", "-a"]


async def test_two_parts_that_give_the_same_are_an_error_and_both_are_left() -> None:
    log = Log()
    with pytest.raises(LookupError, match="two parts give 'a'"):
        async with compose([log.part(A), log.part(B), log.part(A)]):
            pytest.fail("not reached")
    assert log == ["+a", "+b", "-b", "-a"]


async def test_a_failed_set_up_leaves_what_was_entered() -> None:
    log = Log()
    error = ValueError("no")
    with pytest.raises(ValueError, match="no") as caught:
        async with compose([log.part(A), log.part(B), log.part(C, entering=error)]):
            pytest.fail("not reached")
    assert caught.value is error
    assert log == ["+a", "+b", "-b", "-a"]


async def test_the_error_of_the_body_comes_as_it_is_once_all_is_left() -> None:
    log = Log()
    error = ValueError("no")
    with pytest.raises(ValueError, match="no") as caught:
        async with compose([log.part(A), log.part(B)]):
            raise error
    assert caught.value is error
    assert log == ["+a", "+b", "-b", "-a"]


async def test_all_that_failed_is_reported_together_and_keeps_nothing_from_being_left() -> None:
    log = Log()
    body, first, last = ValueError("body"), ValueError("first"), OSError("last")
    with pytest.raises(ExceptionGroup) as caught:
        async with compose([log.part(A, leaving=last), log.part(B), log.part(C, leaving=first)]):
            raise body
    assert caught.value.exceptions == (body, first, last)
    assert first.__notes__ == ["while leaving 'c'"]
    assert log == ["+a", "+b", "+c", "-c", "-b", "-a"]


async def test_one_failed_exit_comes_as_it_is() -> None:
    log = Log()
    error = ValueError("no")
    with pytest.raises(ValueError, match="no") as caught:
        async with compose([log.part(A), log.part(B, leaving=error)]):
            pass
    assert caught.value is error
    assert log == ["+a", "+b", "-b", "-a"]


@pytest.mark.parametrize("words", [True, False])
async def test_the_order_holds_when_everything_is_cancelled(words: bool) -> None:
    log = Log()
    with anyio.fail_after(5), anyio.CancelScope() as scope:
        async with compose([log.part(A, words=words), log.part(B, words=words), log.part(C, words=words)]):
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert log == ["+a", "+b", "+c", "-c", "-b", "-a"]


async def test_a_failure_during_a_cancellation_is_reported_and_the_order_holds() -> None:
    log = Log()
    error = ValueError("no")
    with pytest.raises(ValueError, match="no") as caught:
        with anyio.fail_after(5), anyio.CancelScope() as scope:
            async with compose([log.part(A), log.part(B, leaving=error), log.part(C)]):
                scope.cancel()
                await anyio.sleep_forever()
    assert caught.value is error
    assert log == ["+a", "+b", "+c", "-c", "-b", "-a"]


async def test_a_cancellation_during_set_up_leaves_what_was_entered() -> None:
    log = Log()

    @asynccontextmanager
    async def slow(services: Services) -> AsyncGenerator[None]:
        await anyio.sleep_forever()
        yield

    with anyio.fail_after(5), anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tg:

            async def run() -> None:
                async with compose([log.part(A), log.part(B), Part(C, slow)]):
                    pytest.fail("not reached")

            tg.start_soon(run)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
    assert log == ["+a", "+b", "-b", "-a"]


async def test_a_part_that_overruns_its_share_leaves_the_others_their_time() -> None:
    log = Log()
    deadline = Deadline.after(0.2)

    @asynccontextmanager
    async def slow(services: Services) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            with deadline.shield(share=0.1):
                await anyio.sleep_forever()
            log.append("cut short")

    @asynccontextmanager
    async def careful(services: Services) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            with deadline.shield():
                await anyio.lowlevel.checkpoint()
                log.append("flushed")

    with anyio.fail_after(5), anyio.CancelScope() as scope:
        async with compose([Part(A, careful), Part(B, slow)]):
            scope.cancel()
            await anyio.sleep_forever()
    assert log == ["cut short", "flushed"]


def tasks(work: Callable[[], Any]) -> Callable[[Services], AbstractAsyncContextManager[None]]:
    """A part that is a task group, which is left once its task is done."""

    @asynccontextmanager
    async def setup(services: Services) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as tg:
            tg.start_soon(work)
            yield

    return setup


@pytest.mark.parametrize("failing", ["body", "inner"])
async def test_a_task_group_among_the_parts_is_told_of_a_failure_and_ends_its_tasks(failing: str) -> None:
    log = Log()
    error = ValueError("no")
    inner = log.part(B, leaving=error if failing == "inner" else None)
    with anyio.fail_after(5):
        with pytest.raises(ExceptionGroup) as caught:
            async with compose([log.part(A), Part(C, tasks(anyio.sleep_forever)), inner]):
                if failing == "body":
                    raise error
    assert caught.value.exceptions == (error,)
    assert log == ["+a", "+b", "-b", "-a"]


async def test_a_task_that_fails_cancels_the_body_and_the_rest_is_left_in_order() -> None:
    log = Log()
    error = ValueError("no")

    entered = anyio.Event()

    async def fail() -> None:
        await entered.wait()
        raise error

    with anyio.fail_after(5):
        with pytest.raises(ExceptionGroup) as caught:
            async with compose([log.part(A), Part(C, tasks(fail)), log.part(B)]):
                entered.set()
                await anyio.sleep_forever()
    assert caught.value.exceptions == (error,)
    assert log == ["+a", "+b", "-b", "-a"]


async def test_a_part_that_is_a_cancel_scope_ends_what_it_cancelled() -> None:
    log = Log()

    inside: Key[anyio.CancelScope] = Key("inside")

    @asynccontextmanager
    async def scoped(services: Services) -> AsyncGenerator[anyio.CancelScope]:
        with anyio.CancelScope() as scope:
            yield scope

    with anyio.fail_after(5):
        async with compose([log.part(A), Part(inside, scoped), log.part(B)]) as services:
            services[inside].cancel()
            await anyio.sleep_forever()
    assert log == ["+a", "+b", "-b", "-a"]


async def test_an_interrupt_is_reported_too() -> None:
    log = Log()
    error = ValueError("no")
    with pytest.raises(BaseExceptionGroup) as caught:
        async with compose([log.part(A, leaving=error)]):
            raise KeyboardInterrupt
    assert [type(exc) for exc in caught.value.exceptions] == [KeyboardInterrupt, ValueError]
