"""A listing of sessions: what it says of each, which it shows, and how it is cut into pages.

Owns the fold of a log into a line, and the cursor. Knows no files: what is stored is handed in, by any backend.
"""

import base64
import binascii
import heapq
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from acp_bridge.content import JsonObject
from acp_bridge.session.store import SessionFilter, SessionState

Place = tuple[int, str]
"""Where a session stands in a listing: its last change and its id."""


@dataclass(slots=True)
class Digest:
    """What a listing shows of a log. Folded from records as they are encoded: to decode each would cost the most."""

    title: str = ""
    updated: int = 0
    turns: int = 0
    turn_open: bool = False

    def take(self, record: JsonObject) -> None:
        """Fold a record in."""
        self.updated = record["time"]
        match record["type"]:
            case "session/title":
                self.title = record["data"]["title"]
            case "turn/start":
                self.turns += 1
                self.turn_open = True
            case "turn/end":
                self.turn_open = False
            case _:
                pass

    @property
    def state(self) -> SessionState:
        """A turn that is open in a log that nobody here holds was interrupted, or runs elsewhere."""
        return "interrupted" if self.turn_open else "idle"


class Selection:
    """Which sessions a listing under `filter` shows. Lives as long as one listing: links may change."""

    def __init__(self, filter: SessionFilter) -> None:
        self._filter = filter
        self._same: dict[str, bool] = {}
        self._wanted = "" if filter.cwd is None else _resolve(filter.cwd)

    def takes(self, cwd: str, turns: int, *, is_open: bool) -> bool:
        """Whether a session is shown: one without a turn only while it is open, or if asked for."""
        if not (turns or is_open or self._filter.with_empty):
            return False
        if self._filter.cwd is None:
            return True
        if cwd not in self._same:  # few folders have many sessions, and each look is a system call or more
            self._same[cwd] = _resolve(cwd) == self._wanted
        return self._same[cwd]


def _resolve(cwd: str) -> str:
    """Return what all spellings of one folder have in common."""
    return os.path.normcase(os.path.realpath(cwd))


def page_of(places: Iterable[Place], cursor: str | None, limit: int) -> tuple[list[Place], str | None]:
    """Return the places after `cursor`, newest first, at most `limit`, and the next page's cursor.

    Raises:
        ValueError: the cursor is not one of ours, or the limit is not positive.
    """
    if limit < 1:
        raise ValueError(f"a page holds at least one session, not {limit}")
    after = None if cursor is None else _decode_cursor(cursor)
    shown = heapq.nlargest(limit + 1, (p for p in places if after is None or p < after))
    return shown[:limit], _encode_cursor(shown[limit - 1]) if len(shown) > limit else None


def _encode_cursor(place: Place) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _decode_cursor(cursor: str) -> Place:
    try:
        place: Any = json.loads(base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError) as exc:
        raise ValueError(f"no cursor of a listing: {cursor[:64]!r}") from exc
    match place:
        case [int() as updated, str() as session_id] if not isinstance(updated, bool):
            return updated, session_id
        case _:
            raise ValueError(f"no cursor of a listing: {cursor[:64]!r}")
