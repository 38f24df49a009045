"""What a listing says of a session, and the cutting of a listing into pages. Knows no files."""

import base64
import binascii
import heapq
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from acp_bridge.session.events import Header, Record, SessionTitled, TurnEnded, TurnStarted
from acp_bridge.session.store import SessionFilter, SessionState, SessionSummary


@dataclass(frozen=True, slots=True)
class Digest:
    """What the records of a session say, of which a listing shows a part."""

    title: str = ""
    turns: int = 0
    turn_open: bool = False
    updated: int = 0

    @property
    def state(self) -> SessionState:
        """A turn that is open in a log that nobody here holds was interrupted, or runs elsewhere."""
        return "interrupted" if self.turn_open else "idle"


def digest(header: Header, records: Iterable[Record]) -> Digest:
    """Fold the records into what a listing shows."""
    title, turns, turn_open, updated = "", 0, False, header.created
    for record in records:
        updated = record.time
        match record.event:
            case SessionTitled():
                title = record.event.title
            case TurnStarted():
                turns, turn_open = turns + 1, True
            case TurnEnded():
                turn_open = False
            case _:
                pass
    return Digest(title, turns, turn_open, updated)


def summary(header: Header, found: Digest, *, state: SessionState, size: int) -> SessionSummary:
    """Return the listing's line."""
    return SessionSummary(
        session_id=header.session_id,
        cwd=header.cwd,
        roots=header.roots,
        title=found.title,
        created=header.created,
        updated=found.updated,
        turns=found.turns,
        state=state,
        size=size,
    )


Place = tuple[int, str]
"""Where a session stands in a listing: its last change and its id."""


class Shown:
    """Which sessions a listing under `filter` shows. Lives as long as one listing: links may change."""

    def __init__(self, filter: SessionFilter) -> None:
        self._filter = filter
        self._same: dict[str, bool] = {}
        self._wanted = "" if filter.cwd is None else _resolved(filter.cwd)

    def takes(self, cwd: str, turns: int, *, is_open: bool) -> bool:
        """Whether a session is shown: one without a turn only while it is open, or if asked for."""
        if not (turns or is_open or self._filter.with_empty):
            return False
        if self._filter.cwd is None:
            return True
        if cwd not in self._same:
            self._same[cwd] = _resolved(cwd) == self._wanted
        return self._same[cwd]


def _resolved(cwd: str) -> str:
    """Return what all spellings of one folder have in common."""
    return os.path.normcase(os.path.realpath(cwd))


def page_of(places: Iterable[Place], cursor: str | None, limit: int) -> tuple[list[Place], str | None]:
    """Return the places after `cursor`, newest first, at most `limit`, and the next page's cursor.

    Raises:
        ValueError: the cursor is not one of ours, or the limit is not positive.
    """
    if limit < 1:
        raise ValueError(f"a page holds at least one session, not {limit}")
    after = None if cursor is None else _decoded(cursor)
    shown = heapq.nlargest(limit + 1, (p for p in places if after is None or p < after))
    return shown[:limit], _encoded(shown[limit - 1]) if len(shown) > limit else None


def _encoded(place: Place) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _decoded(cursor: str) -> Place:
    try:
        place: Any = json.loads(base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError) as exc:
        raise ValueError(f"no cursor of a listing: {cursor[:64]!r}") from exc
    match place:
        case [int() as updated, str() as session_id] if not isinstance(updated, bool):
            return updated, session_id
        case _:
            raise ValueError(f"no cursor of a listing: {cursor[:64]!r}")
