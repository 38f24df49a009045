"""A session's log as it lies on the disk."""

import json
from pathlib import Path
from typing import Any

from .processes import eventually


def log_file(home: Path, session: str) -> Path:
    """Return where a session's log lies; `home` is the program's folder."""
    return home / "sessions" / session / "log.jsonl"


def events(home: Path, session: str, kind: str = "") -> list[dict[str, Any]]:
    """Return the whole records of a log behind its header, or those of one type."""
    text = log_file(home, session).read_text()
    lines = [json.loads(line) for line in text.split("\n")[1:-1]]
    return [line for line in lines if not kind or line["type"] == kind]


def kinds(home: Path, session: str) -> list[str]:
    """Return the types of a log's events."""
    return [event["type"] for event in events(home, session)]


def wait_for_event(home: Path, session: str, kind: str, **of: Any) -> dict[str, Any]:
    """Return the first event of a type with members that equal `of`, once it is on disk."""

    def find() -> dict[str, Any] | None:
        found = (e for e in events(home, session, kind) if all(e["data"].get(k) == v for k, v in of.items()))
        return next(found, None)

    return eventually(find, f"{kind} {of} in the log")
