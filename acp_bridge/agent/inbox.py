"""What waits to be worked on: prompts and wishes to continue, in the order in which they came.

Owns the order and each one's outcome. Holds nothing across processes: repair drops what a dead process left queued.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import anyio

from acp_bridge.content import Failure, PromptBlock
from acp_bridge.session import TurnReason

Source: TypeAlias = Literal["client", "program"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a prompt ended. `failure` is set for `error`, and where the end could not be saved."""

    reason: TurnReason
    failure: Failure | None = None


@dataclass(slots=True, eq=False)
class Job:
    """One prompt or continuation, from the moment it was read until its outcome is known.

    Attributes:
        input_id: the queued input's id; empty for a continuation.
        continues: the interrupted turn to go on with.
        dropped: it never ran.
        then: called once when the outcome is known.
    """

    input_id: str = ""
    content: tuple[PromptBlock, ...] = ()
    source: Source = "client"
    continues: int | None = None
    dropped: bool = False
    outcome: Outcome | None = None
    then: Callable[[], None] = lambda: None
    _done: anyio.Event = field(default_factory=anyio.Event)

    def finish(self, outcome: Outcome) -> None:
        """Set the outcome, once."""
        if self.outcome is None:
            self.outcome = outcome
            self._done.set()
            self.then()

    async def wait(self) -> Outcome:
        """Wait for the outcome."""
        await self._done.wait()
        if self.outcome is None:  # finish() sets it first
            raise AssertionError("a job is done without an outcome")
        return self.outcome


@dataclass(slots=True)
class Inbox:
    """A queue of jobs that one reader takes from."""

    _jobs: deque[Job] = field(default_factory=deque[Job])
    _filled: anyio.Event = field(default_factory=anyio.Event)

    def __len__(self) -> int:
        """Return how many jobs wait."""
        return len(self._jobs)

    def put(self, job: Job) -> None:
        """Queue a job."""
        self._jobs.append(job)
        self._filled.set()

    async def take(self) -> Job:
        """Wait for a job and take the oldest."""
        while not self._jobs:
            self._filled = anyio.Event()
            await self._filled.wait()
        return self._jobs.popleft()

    def remove(self, job: Job) -> bool:
        """Take one job out; whether it waited here."""
        if job in self._jobs:
            self._jobs.remove(job)
            return True
        return False

    def drain(self) -> list[Job]:
        """Take all that wait, without waiting."""
        jobs = list(self._jobs)
        self._jobs.clear()
        return jobs
