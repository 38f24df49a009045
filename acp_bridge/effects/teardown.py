"""Tear-down within a time: a bounded shield, the one deadline that all steps share, and closing side by side."""

import time
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from typing import NamedTuple, Self

import anyio


@contextmanager
def shielded_cleanup(seconds: float = 5) -> Generator[anyio.CancelScope]:
    """Let the awaits inside finish although the run is being cancelled, for `seconds` at most."""
    # a shield without a bound would turn one step that hangs into a program that cannot be ended
    with anyio.move_on_after(seconds, shield=True) as scope:
        yield scope


class Deadline(NamedTuple):
    """A moment, handed down from step to step, so that what each may wait does not add up.

    Attributes:
        at: on the monotonic clock.
    """

    at: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        """The moment `seconds` from now."""
        return cls(time.monotonic() + seconds)

    def remaining_s(self) -> float:
        """Seconds until then; never negative."""
        return max(0.0, self.at - time.monotonic())

    @contextmanager
    def shield(self, share: float = 1.0) -> Generator[anyio.CancelScope]:
        """Shield the block for this share of what is left: a step that overruns leaves time to those that follow."""
        with shielded_cleanup(self.remaining_s() * share) as scope:
            yield scope

    @contextmanager
    def within(self, share: float, what: str) -> Generator[None]:
        """Like `shield`, where an overrun is a failure; the message names the step by `what`.

        Raises:
            TimeoutError: its share was over before its end.
        """
        with self.shield(share) as scope:
            yield
        if scope.cancelled_caught:
            raise TimeoutError(f"{what} did not end in time")


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
