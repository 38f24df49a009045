"""Things that are closed side by side, so that neither the slow nor the failing hold the others up."""

from collections.abc import Awaitable, Callable, Iterable

import anyio


async def close_together(closers: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Run all `closers` to their end; one that fails cancels none of the others.

    Raises:
        ExceptionGroup: some failed; it holds all failures.
    """
    failures: list[Exception] = []

    async def close(closer: Callable[[], Awaitable[object]]) -> None:
        try:
            await closer()
        except Exception as exc:  # noqa: BLE001  collected and raised below
            failures.append(exc)

    async with anyio.create_task_group() as tasks:
        for closer in closers:
            tasks.start_soon(close, closer)
    if failures:
        raise ExceptionGroup("not everything could be closed", failures)
