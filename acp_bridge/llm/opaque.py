"""Members of an answer that are not ours, joined from the pieces in which they stream, to go back as they came.

Pure. Owns how pieces join and how much is kept of one answer. Knows no provider: what a member means is its maker's
business (a signature of a thought, reasoning in pieces, a list of steps), and that it comes back whole is ours.

Pieces of text are joined; what names a thing (`id`, `type`, `format`, …) stands in each piece and is said once. Objects
are joined by member. Items of a list go on where they bear an index that is known; without one only reasoning goes on,
with the item before it, until that is signed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from acp_bridge.content import JsonObject
from acp_bridge.limits import KEPT

from .payloads import json_text

_NAMES = frozenset(("channel", "format", "id", "index", "model", "name", "object", "role", "status", "type"))
"""Members that are said again with each piece, and are no pieces of text."""

_REASONING = frozenset(("data", "format", "id", "signature", "summary", "text", "thinking", "type"))
_SEALS = ("data", "signature")
"""An item of reasoning that has one of these is whole."""

_DEPTH = 32
"""Levels to which pieces are joined; below, the last one stands."""


class TooMuch(Exception):
    """An answer brings more than `limits.KEPT` of what is not ours."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What an answer brought beside ours, whole.

    Attributes:
        message: members of the message.
        calls: members of its tool calls, by place.
    """

    message: JsonObject = field(default_factory=dict[str, Any])
    calls: dict[int, JsonObject] = field(default_factory=dict[int, JsonObject])

    def __bool__(self) -> bool:
        return bool(self.message or self.calls)


@dataclass(slots=True)
class Keeping:
    """Gathers what one answer brings."""

    _message: dict[str, Any] = field(default_factory=dict[str, Any])
    _calls: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    _bytes: int = 0

    def message(self, members: JsonObject) -> None:
        """Take more members of the message.

        Raises:
            TooMuch: it is beyond the bound.
        """
        self._take(self._message, members)

    def call(self, place: int, members: JsonObject) -> None:
        """Take more members of a call.

        Raises:
            TooMuch: it is beyond the bound.
        """
        self._take(self._calls.setdefault(place, {}), members)

    def whole(self) -> Kept:
        """Return what was taken, joined."""
        calls = {place: _whole(members) for place, members in self._calls.items() if members}
        return Kept(_whole(self._message), calls)

    def _take(self, held: dict[str, Any], members: JsonObject) -> None:
        said = {name: value for name, value in members.items() if value not in (None, "", [], {})}
        if not said:
            return
        self._bytes += len(json_text(said))
        if self._bytes > KEPT:
            raise TooMuch
        _join_members(held, said, _DEPTH)


class _Text(list[str]):
    """Pieces of one text: joined once, since each joining would copy what came before."""


@dataclass(slots=True)
class _Items:
    """A list under way. `known` leads from an item's index, with its type and without, to its latest place."""

    items: list[Any] = field(default_factory=list[Any])
    known: dict[tuple[Any, Any], int] = field(default_factory=dict[tuple[Any, Any], int])


def _start(value: Any, depth: int) -> Any:
    match value:
        case _ if depth <= 0:
            return value
        case str():
            return _Text([value])
        case dict():
            held: dict[str, Any] = {}
            _join_members(held, cast("JsonObject", value), depth)
            return held
        case list():
            items = _Items()
            _join_items(items, cast("list[Any]", value), depth)
            return items
        case _:
            return value


def _join_members(held: dict[str, Any], members: JsonObject, depth: int) -> None:
    for name, value in members.items():
        before = held.get(name)
        match before, value:
            case _, None if before is not None:
                pass
            case _Text(), str() if name in _NAMES:
                held[name] = before if "".join(before) else _Text([value])
            case _Text(), str():
                before.append(value)
            case dict(), dict():
                _join_members(cast("dict[str, Any]", before), cast("JsonObject", value), depth - 1)
            case _Items(), list():
                _join_items(before, cast("list[Any]", value), depth - 1)
            case _:
                held[name] = _start(value, depth - 1)


def _join_items(held: _Items, items: Iterable[Any], depth: int) -> None:
    for item in items:
        if not isinstance(item, dict) or depth <= 0:
            held.items.append(_start(item, depth - 1))
            continue
        piece = cast("JsonObject", item)
        place = _place(held, piece)
        if place is None:
            held.items.append(_start(piece, depth - 1))
            place = len(held.items) - 1
        else:
            _join_members(held.items[place], piece, depth - 1)
        if isinstance(index := piece.get("index"), int):
            kind = piece.get("type")
            held.known[index, None] = place
            if isinstance(kind, str):
                held.known[index, kind] = place


def _place(held: _Items, piece: JsonObject) -> int | None:
    """Return which item `piece` is more of, None if it begins one."""
    index, kind = piece.get("index"), piece.get("type")
    if isinstance(index, int):
        place = held.known.get((index, kind if isinstance(kind, str) else None))
    else:
        place = len(held.items) - 1 if held.items and piece.keys() <= _REASONING else None
    if place is None or not isinstance(before := held.items[place], dict):
        return None
    item = cast("dict[str, Any]", before)
    if any(_differs(item.get(name), piece.get(name)) for name in ("id", "type")):
        return None
    if not isinstance(index, int) and (not item.keys() <= _REASONING or any(_whole(item.get(s)) for s in _SEALS)):
        return None
    return place


def _differs(held: Any, said: Any) -> bool:
    return held is not None and said is not None and _whole(held) != said


def _whole(held: Any) -> Any:
    match held:
        case _Text():
            return "".join(held)
        case _Items():
            return [_whole(item) for item in held.items]
        case dict():
            members = cast("dict[str, Any]", held)
            return {name: _whole(value) for name, value in members.items()}
        case _:
            return held


def ids_in(value: Any) -> set[str]:
    """Return every id that opaque members name: a provider may tell by it which call a signature belongs to."""
    match value:
        case dict():
            members = cast("JsonObject", value)
            own = {said for name, said in members.items() if _is_id(name) and isinstance(said, str)}
            return own.union(*map(ids_in, members.values()))
        case list():
            return set[str]().union(*map(ids_in, cast("list[Any]", value)))
        case _:
            return set()


def with_ids(value: Any, ours: Mapping[str, str]) -> Any:
    """Return opaque members with a provider's ids of calls replaced by those that its calls go back with."""
    match value:
        case dict():
            members = cast("JsonObject", value)
            return {
                name: ours.get(said, said) if _is_id(name) and isinstance(said, str) else with_ids(said, ours)
                for name, said in members.items()
            }
        case list():
            return [with_ids(item, ours) for item in cast("list[Any]", value)]
        case _:
            return value


def _is_id(name: str) -> bool:
    return name == "id" or name.endswith("_id")
