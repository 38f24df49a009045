"""Facts about processes and files that tests wait for."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_POLL_S = 0.005


def eventually(find: Callable[[], T | None], what: str, timeout_s: float = 10.0) -> T:
    """Return what `find` finds, as soon as it is true."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = find()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}"
        time.sleep(_POLL_S)  # the other process owes us no notification


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and only waits to be reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return os.path.isdir("/proc/self") is False  # no such file system here, or gone meanwhile
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def pids_in(file: Path) -> list[int]:
    """Return the process ids that a command wrote into a file, once they are there."""

    def read() -> list[int] | None:
        text = file.read_text() if file.exists() else ""
        return [int(word) for word in text.split()] if text.endswith("\n") else None

    return eventually(read, f"process ids in {file.name}")


def gone(pids: list[int], within_s: float) -> None:
    """Fail unless all processes end within a time."""
    eventually(lambda: not any(alive(pid) for pid in pids), f"the end of {pids}", within_s)


def writing_pids(file: Path, then: str = "sleep 600") -> str:
    """Return a shell command that tells its own pid and its guard's, and goes on with `then`."""
    return f"echo $$ $PPID > '{file}.part' && mv '{file}.part' '{file}' && {then}"
