"""What a server lists, as what a model can be offered: named, bounded, and said where something is left out. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson

from acp_bridge.content import JsonObject
from acp_bridge.limits import SERVER_TOOLS

from .names import full_names

MAX_LISTED = 512
"""Tools of a server's list that are looked at."""

MAX_DESCRIPTION = 4_000
MAX_SCHEMA = 32 * 1024
MAX_DEFINITIONS = 256 * 1024
"""Characters of a description; bytes of one schema as JSON, and of all that a server offers: each request holds it."""

MAX_DEPTH = 24
_REFUSED = frozenset({"$schema", "oneOf", "anyOf", "allOf", "not", "enum"})
"""Members at the top of a schema that some models' providers refuse; one such tool would fail every request."""
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One tool. `name` is what models call it, `tool` what its server does."""

    name: str
    tool: str
    description: str
    parameters: JsonObject


def offers(server: str, label: str, listed: Sequence[Any], *, room: int) -> tuple[list[Offer], str]:
    """Return what is offered of a list, `room` tools at most, and in words what is not, empty if all is."""
    known: dict[str, JsonObject] = {}
    dropped: list[str] = []
    for entry in listed[:MAX_LISTED]:
        match entry:
            case {"name": str(name)} if name and name not in known:
                known[name] = cast("JsonObject", entry)
            case {"name": str(name)} if name:
                dropped.append(f"{name[:60]!r} is listed twice")
            case _:
                dropped.append("one has no name")
    if len(listed) > MAX_LISTED:
        dropped.append(f"{len(listed) - MAX_LISTED} are more than is looked at")
    made: dict[str, Offer] = {}
    size = 0
    for name, entry in zip(full_names(label, list(known)), known.values(), strict=True):
        offer = _offer(server, name, entry)
        if isinstance(offer, str):
            dropped.append(f"{entry['name'][:60]!r} {offer}")
            continue
        size += len(orjson.dumps(offer.parameters)) + len(offer.description.encode())
        if len(made) >= min(room, SERVER_TOOLS) or size > MAX_DEFINITIONS or name in made:
            dropped.append(f"{entry['name'][:60]!r} is more than there is room for")
            continue
        made[name] = offer
    return list(made.values()), _words(len(made), len(listed), dropped)


def changes(before: Mapping[str, Offer], now: Mapping[str, Offer]) -> str:
    """Return in words what is other than it was, to go on a sentence; empty if nothing is."""
    kinds = {
        "gone": [offer.tool for name, offer in before.items() if name not in now],
        "new": [offer.tool for name, offer in now.items() if before and name not in before],
        "defined anew": [offer.tool for name, offer in now.items() if name in before and before[name] != offer],
    }
    said = [
        f"{kind}: {', '.join(_first([repr(tool[:60]) for tool in tools], 5))}" for kind, tools in kinds.items() if tools
    ]
    return f". Its tools are not what they were ({'; '.join(said)})" if said else ""


def _offer(server: str, name: str, entry: JsonObject) -> Offer | str:
    """Return the offer, or why there is none."""
    parameters = _parameters(entry.get("inputSchema"))
    if isinstance(parameters, str):
        return parameters
    described = entry.get("description")
    description = described.strip() if isinstance(described, str) else ""
    if len(description) > MAX_DESCRIPTION:
        description = description[: MAX_DESCRIPTION - 2] + " …"
    return Offer(
        name=name,
        tool=entry["name"],
        description=description or f"{entry['name'][:100]} of the MCP server {server[:100]}",
        parameters=parameters,
    )


def _parameters(schema: Any) -> JsonObject | str:
    """Return a schema of type object that providers take, or why there is none."""
    given = cast("JsonObject", schema) if isinstance(schema, dict) else {}
    if _is_deeper(given, MAX_DEPTH):
        return "has a deeper schema than a model can be given"
    parameters = {key: value for key, value in given.items() if key not in _REFUSED}
    parameters["type"] = "object"
    properties = parameters.get("properties")
    named = cast("JsonObject", properties) if isinstance(properties, dict) else {}
    parameters["properties"] = {key: {} if value is True else value for key, value in named.items()}
    if not all(_PROPERTY.fullmatch(key) and (value is True or isinstance(value, dict)) for key, value in named.items()):
        return "has parameters that models cannot be told of"
    if not isinstance(parameters.get("required", []), list):
        del parameters["required"]
    if len(orjson.dumps(parameters)) > MAX_SCHEMA:
        return "has a longer schema than a model can be given"
    return parameters


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = cast("JsonObject", value).values() if isinstance(value, dict) else cast("list[Any]", value)
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inner)


def _words(offered: int, listed: int, dropped: Sequence[str]) -> str:
    if not dropped:
        return ""
    return f"of its {listed} tools, {offered} can be used: {', '.join(_first(dropped, 3))}"


def _first(items: Sequence[str], count: int) -> Iterator[str]:
    yield from items[:count]
    if len(items) > count:
        yield f"and {len(items) - count} more"
