"""Parts that bring a set-up of their own: entered and left in a task of their own each, strictly last first.

Owns the bounds of both and what a failure in them is called. Knows no domain.

Decision: a guest lives in its own task. It may hold a task group, which only the task that entered it can leave, and
no scope that bounds its end may be younger than that group (see `effects`).
"""

import logging
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import cast

import anyio
from anyio.abc import TaskGroup, TaskStatus

from acp_bridge.errors import PART_FAILURES

from .cancellation import no_stray_cancellation

logger = logging.getLogger(__name__)


def is_context_manager(part: object) -> bool:
    """Whether `part` has a set-up of its own: `__aenter__` and `__aexit__`, found on its type as `async with` does."""
    return hasattr(type(part), "__aenter__") and hasattr(type(part), "__aexit__")


class Host:
    """Enters guests as they come; made by `open_host`, which leaves them."""

    def __init__(self, tasks: TaskGroup, enter_s: float) -> None:
        self._tasks = tasks
        self._enter_s = enter_s
        self._guests: list[_Guest] = []
        self._failures: list[Exception] = []

    async def enter(self, part: object, name: str) -> object:
        """Return what entering `part` gives: itself, if that is None; a part without a set-up is returned as it is.

        Raises:
            TimeoutError: it was not ready in time.
            Exception: whatever it raised, with a note that names it.
        """
        if not is_context_manager(part):
            return part
        guest = _Guest(cast("AbstractAsyncContextManager[object]", part), name)
        await self._tasks.start(guest.live, self._enter_s)
        if guest.failure is not None:
            raise guest.failure
        self._guests.append(guest)
        return part if guest.value is None else guest.value

    async def leave_all(self, leave_s: Callable[[], float]) -> list[Exception]:
        """Leave every guest, the last one first; return what failed."""
        with anyio.CancelScope(shield=True):  # each guest's own scope bounds it
            while self._guests:
                guest = self._guests.pop()
                guest.leave(leave_s())
                await guest.gone.wait()
                if guest.failure is not None:
                    self._failures.append(guest.failure)
        return self._failures


class _Guest:
    """One part under way: entered, kept until `leave`, left."""

    def __init__(self, part: AbstractAsyncContextManager[object], name: str) -> None:
        self.value: object = None
        self.failure: Exception | None = None
        self.gone = anyio.Event()
        self._part = part
        self._name = name
        self._scope = anyio.CancelScope()
        self._leaving = anyio.Event()

    def leave(self, seconds: float) -> None:
        """Have it left within `seconds`."""
        self._scope.deadline = anyio.current_time() + seconds
        self._leaving.set()

    async def live(self, enter_s: float, *, task_status: TaskStatus[None]) -> None:
        """Enter, wait for `leave`, leave. Nothing but a cancellation from outside gets out of here."""
        entered = False
        try:
            with self._scope:
                self._scope.deadline = anyio.current_time() + enter_s
                async with no_stray_cancellation(), self._part as self.value:
                    entered = True
                    self._scope.shield = True  # from now on only `leave` ends it, and its deadline
                    self._scope.deadline = math.inf
                    task_status.started()
                    await self._leaving.wait()
        except PART_FAILURES as exc:
            logger.exception("%s failed %s", self._name, self._phase(entered=entered))
            # A part that ends the program ends all sessions, and those not yet left would never be.
            self.failure = exc if isinstance(exc, Exception) else RuntimeError(f"it called sys.exit({exc.code!r})")
            self.failure.add_note(f"{self._name} failed {self._phase(entered=entered)}")
        finally:
            self.gone.set()
        if self._scope.cancelled_caught and self.failure is None:
            self.failure = TimeoutError(f"{self._name} was not done in time {self._phase(entered=entered)}")
        if not entered:
            task_status.started()

    def _phase(self, *, entered: bool) -> str:
        if not entered:
            return "while it was set up"
        return "while it was left" if self._leaving.is_set() else "while it was in use"


@asynccontextmanager
async def open_host(*, enter_s: float, leave_s: Callable[[], float]) -> AsyncGenerator[Host]:
    """Give a host of guests; leaving it leaves them, strictly last first, each within `leave_s()` seconds.

    Raises:
        ExceptionGroup: guests failed in use or while they were left.
    """
    raised: Exception | None = None
    failures: list[Exception] = []
    async with anyio.create_task_group() as tasks:
        host = Host(tasks, enter_s)
        try:
            yield host
        except Exception as exc:  # noqa: BLE001  raised again below, without the group that this one would put round it
            raised = exc
        finally:
            failures = await host.leave_all(leave_s)
    if raised is not None:
        if failures:
            raise ExceptionGroup("several parts failed", [raised, *failures])
        raise raised
    if failures:
        raise ExceptionGroup("parts could not be left", failures)
