"""Time that tear-down may take: words that may still be said, and the one deadline they share."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import NamedTuple, Self

import anyio


@contextmanager
def last_words(seconds: float = 5) -> Generator[anyio.CancelScope]:
    """Let the awaits inside finish although the run is being cancelled, for `seconds` at most."""
    with anyio.move_on_after(seconds, shield=True) as scope:
        yield scope


class Deadline(NamedTuple):
    """A moment that is handed down, so that those who wait one after another do not add up.

    Attributes:
        at: on the monotonic clock.
    """

    at: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        """The moment `seconds` from now."""
        return cls(time.monotonic() + seconds)

    def left(self) -> float:
        """Seconds until then; never negative."""
        return max(0.0, self.at - time.monotonic())

    @contextmanager
    def shield(self, share: float = 1.0) -> Generator[anyio.CancelScope]:
        """`last_words` for this share of what is left, so that who overruns it leaves time to those who follow."""
        with last_words(self.left() * share) as scope:
            yield scope

    @contextmanager
    def within(self, share: float, what: str) -> Generator[None]:
        """As `shield`, for a step whose overrun is a failure; `what` says in the message what did not end.

        Raises:
            TimeoutError: its share was over before its end.
        """
        with self.shield(share) as scope:
            yield
        if scope.cancelled_caught:
            raise TimeoutError(f"{what} did not end in time")
