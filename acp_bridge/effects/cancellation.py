"""Cancellation that remembers why, and that reaches only the awaits that may be cut short."""

from collections.abc import Generator
from contextlib import contextmanager

import anyio


class Cancellation:
    """Something that can be called off once, with a cause. Code outside its scopes is never interrupted.

    Several scopes may be open at a time, in different tasks; each is opened and left within one task.
    """

    def __init__(self) -> None:
        self._cause: str | None = None
        self._scopes: set[anyio.CancelScope] = set()

    @property
    def cause(self) -> str | None:
        """Why it was called off; `None` if it was not."""
        return self._cause

    def cancel(self, cause: str) -> None:
        """Call it off. The first cause stands; later ones change nothing."""
        if self._cause is None:
            self._cause = cause
            for scope in self._scopes:
                scope.cancel()

    @contextmanager
    def scope(self) -> Generator[anyio.CancelScope]:
        """A scope that is cancelled by `cancel`, also by an earlier one; afterwards ask `cause`, or the scope."""
        with anyio.CancelScope() as scope:
            if self._cause is not None:
                scope.cancel()
            self._scopes.add(scope)
            try:
                yield scope
            finally:
                self._scopes.discard(scope)
