"""Threads for work that blocks, all of them daemons: the process's exit waits for none.

anyio's own worker threads are joined at exit under asyncio, so a write that hangs on a dead disk would keep the process
alive. Owns how a waiter is woken, sent away or leaves: a call that has ended wakes it through the event loop's token,
on either event loop. Knows no storage.
"""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

import anyio
from anyio import from_thread
from anyio.lowlevel import EventLoopToken, current_token

T = TypeVar("T")


class Call(Generic[T]):
    """One piece of work on its way through a thread.

    Attributes:
        ended: the work is over, whether or not the waiter knows yet.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self.ended = False
        self._work = work
        self._woken = anyio.Event()
        self._over = anyio.Event()
        self._token: EventLoopToken = current_token()
        self._result: T
        self._error: BaseException | None = None
        self._undo: Callable[[T], None] | None = None
        self._leaving = Lock()

    def run(self) -> None:
        """Do the work and wake the waiter; called in the thread."""
        try:
            self._result = self._work()
        except BaseException as exc:  # noqa: BLE001  carried over to the waiter, whatever it is
            self._error = exc
        with self._leaving:  # a waiter that left before this has its undo run here; a later one runs it itself
            self.ended = True
            undo = self._undo
        if undo is not None and self._error is None:
            undo(self._result)
        try:
            from_thread.run_sync(self._wake, token=self._token)
        except RuntimeError:
            return  # the event loop is gone, and the waiter with it

    def _wake(self) -> None:
        self._over.set()
        self._woken.set()

    async def wait(self) -> None:
        """Return once the work has ended, or was given up."""
        await self._woken.wait()

    async def wait_until_over(self) -> None:
        """Return once the work has ended, given up or not."""
        await self._over.wait()

    def give_up(self, reason: BaseException) -> None:
        """Send the waiter away with `reason`; the work goes on in its thread."""
        with self._leaving:
            if not self.ended:
                self._error = reason
        self._woken.set()

    def leave(self, undo: Callable[[T], None]) -> None:
        """Have `undo` called with the result, in the thread, or here and now if it is there already."""
        with self._leaving:
            if not self.ended:
                self._undo = undo
                return
        if self._error is None:
            undo(self._result)

    def result(self) -> T:
        """Return what the work returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._result


class Worker:
    """A thread that does one piece of work after another; it starts with the first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[Call[Any] | None] = SimpleQueue()
        self._started = False

    def submit(self, call: Call[Any]) -> None:
        """Put `call` at the end of the line."""
        if not self._started:
            self._started = True
            Thread(target=self._serve, name=self._name, daemon=True).start()
        self._queue.put(call)

    def stop(self) -> None:
        """End the thread after what is in the line."""
        self._queue.put(None)

    def _serve(self) -> None:
        while (call := self._queue.get()) is not None:
            call.run()
            del call  # a call holds its batch


def start(call: Call[Any], name: str) -> None:
    """Run `call` in a thread made for it."""
    Thread(target=call.run, name=name, daemon=True).start()


async def in_own_thread(work: Callable[[], T], name: str, *, undo: Callable[[T], None] | None = None) -> T:
    """Do `work` in a thread made for it. If the waiter is cancelled, `undo` gets the result nobody waits for."""
    call = Call(work)
    start(call, name)
    try:
        await call.wait()
    except BaseException:
        if undo is not None:
            call.leave(undo)
        raise
    return call.result()
