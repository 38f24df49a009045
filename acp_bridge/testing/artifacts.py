"""What a run leaves on the disk: a session's log, and what the replayed model was asked. Changes nothing."""

import json
import os
import stat
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


def read_regular(path: Path) -> bytes | None:
    """Return what a file holds; None if it cannot be read, or what has its name is a link or no regular file.

    What goes into a trace or a snapshot is handed on: it must not be a file that somebody has only pointed at.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode) and path.parent.resolve() == path.parent
            return file.read() if regular else None
    except OSError:
        return None


def log_records(sessions: Path, session_id: str) -> list[Json]:
    """Return the whole lines of a session's log, its header first; none if there is no log."""
    data = read_regular(sessions.resolve() / session_id / "log.jsonl")  # only the home itself may lie behind a link
    if data is None:
        return []
    text = data.decode(errors="replace")
    records: list[Json] = []
    for line in text.split("\n")[:-1]:  # what follows the last newline is being written just now
        try:
            records.append(json.loads(line))
        except ValueError:
            break  # what stands behind damage is not known to hold
    return records


def model_requests(model: Path) -> list[Json]:
    """Return what the replayed model was asked so far."""
    try:
        lines = (model / "served.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    except OSError:
        return []
    return [json.loads(line) for line in lines]
