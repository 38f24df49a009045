"""Commands under guard: to be written."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended.

    Attributes:
        code: exit code, 128 + n after signal n; None if it was ended for its time limit.
        output: what it wrote to stdout and stderr, in order of arrival, decoded, bounded by keeping head and tail.
        cut: bytes left out of the middle of `output`.
        spilled: the file that holds the whole, if something was left out and could be kept.
        left_running: descendants that go on in the background.
    """

    code: int | None
    output: str
    cut: int = 0
    spilled: Path | None = None
    left_running: int = 0


class Commands(Protocol):
    """Runs commands so that none outlives its session, also after SIGKILL of this process."""

    async def run(
        self, command: str, *, cwd: Path, timeout_s: float, name: str, progress: Callable[[str], None]
    ) -> Ended:
        """Run `sh -c command` until the shell ends.

        Cancelled, it ends every descendant of the command first.
        """
        ...
