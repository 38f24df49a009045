import anyio

from acp_bridge.effects import Cancellation


async def test_the_first_cause_stands() -> None:
    cancellation = Cancellation()
    assert cancellation.cause is None
    cancellation.cancel("the user")
    cancellation.cancel("the end")
    assert cancellation.cause == "the user"


async def test_a_scope_is_cut_short_by_a_later_cancel_and_the_code_around_it_is_not() -> None:
    cancellation = Cancellation()
    log: list[str] = []

    async def work(name: str) -> None:
        with cancellation.scope() as scope:
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()
        log.append(f"{name} {cancellation.cause} {scope.cancelled_caught}")

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tg:
            tg.start_soon(work, "one")
            tg.start_soon(work, "two")
            await anyio.wait_all_tasks_blocked()
            cancellation.cancel("the user")
            await anyio.lowlevel.checkpoint()
    assert sorted(log) == ["one the user True", "two the user True"]


async def test_a_scope_opened_after_the_cancel_ends_at_its_first_await() -> None:
    cancellation = Cancellation()
    cancellation.cancel("the user")
    before = after = False
    with anyio.fail_after(5):
        with cancellation.scope():
            before = True
            await anyio.lowlevel.checkpoint()
            after = True
    assert (before, after) == (True, False)


async def test_a_scope_that_was_left_is_not_reached_any_more() -> None:
    cancellation = Cancellation()
    with anyio.fail_after(5):
        with cancellation.scope() as scope:
            await anyio.lowlevel.checkpoint()
        cancellation.cancel("the user")
        await anyio.lowlevel.checkpoint()
    assert not scope.cancel_called


async def test_what_finished_before_the_cancel_took_hold_keeps_its_value() -> None:
    cancellation = Cancellation()
    value = None
    with cancellation.scope() as scope:
        value = 1
        cancellation.cancel("the user")
    assert value == 1
    assert not scope.cancelled_caught


async def test_scopes_may_lie_in_one_another() -> None:
    cancellation = Cancellation()
    log: list[str] = []
    with anyio.fail_after(5):
        with cancellation.scope():
            try:
                with cancellation.scope():
                    cancellation.cancel("the user")
                    await anyio.sleep_forever()
            finally:
                log.append("inner")
            await anyio.lowlevel.checkpoint()
            log.append("never")
    assert log == ["inner"]


async def test_a_cancel_from_outside_is_no_cause() -> None:
    cancellation = Cancellation()
    called: list[bool] = []
    with anyio.fail_after(5), anyio.CancelScope() as outer:
        with cancellation.scope() as scope:
            outer.cancel()
            try:
                await anyio.sleep_forever()
            finally:
                called.append(scope.cancel_called)
    assert outer.cancelled_caught
    assert called == [False]
    assert cancellation.cause is None
