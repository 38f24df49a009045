"""Cancellation that remembers why, and that reaches only the awaits that may be cut short.

Owns, too, what becomes of a cancellation that nobody asked for.
"""

import importlib
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

_OF_ASYNCIO: Final = ("asyncio.exceptions", "CancelledError")
"""By name: with trio nobody need load asyncio, and nobody waits for it before there is a loop."""


class StrayCancellation(RuntimeError):
    """Somebody's code was cancelled inside, and let that out; nobody had cancelled whoever called it."""


@asynccontextmanager
async def no_stray_cancellation() -> AsyncGenerator[None]:
    """Make an error of a cancellation that nobody asked for; one that somebody did goes through.

    Under asyncio, code that awaits a task or future which it, or its library, has cancelled lets the cancellation out.
    A task group takes that for its own, and ends all its tasks without a word. trio knows no such thing.

    Raises:
        StrayCancellation: the block was left by one.
    """
    try:
        yield
    except BaseException as exc:
        if not any((kind.__module__, kind.__name__) == _OF_ASYNCIO for kind in type(exc).__mro__):
            raise
        if not _is_being_cancelled():
            raise StrayCancellation("something that it awaited was cancelled, and not by its caller") from exc
        await checkpoint_if_cancelled()  # a scope ends by nothing but a cancellation of its own; this need not be one
        raise


def _is_being_cancelled() -> bool:
    """Whether somebody cancels the task that runs, by asyncio's own means or by a scope."""
    try:
        task = importlib.import_module("asyncio").current_task()
    except RuntimeError:  # trio runs: its own cancellation is of another type, so this one was nobody's
        return False
    return task is None or task.cancelling() > 0 or anyio.get_current_task().has_pending_cancellation()


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
