"""Arguments held against a server's schema, shallowly: what is surely wrong is said before anybody is asked. Pure.

Knows names that are required, names that are unknown where the schema is closed, and simple types at the top. The rest
is the server's to say. A parameter that may be left out may be null: some models send it so.
"""

from collections.abc import Iterator
from typing import Any, cast

from acp_bridge.content import JsonObject
from acp_bridge.errors import ToolError


def check_arguments(schema: JsonObject, arguments: JsonObject) -> JsonObject:
    """Return the arguments without what is null and may be left out.

    Raises:
        ToolError: `INVALID_ARGUMENTS`, naming each parameter that is wrong and what it should be.
    """
    required = _listed(schema.get("required"))
    properties = cast("JsonObject", schema["properties"])
    kept = {
        name: value
        for name, value in arguments.items()
        if value is not None or name in required or _may_be(None, properties.get(name))
    }
    wrong = list(_wrong(schema, properties, required, kept))
    if wrong:
        raise ToolError("; ".join(wrong[:5]), code="INVALID_ARGUMENTS")
    return kept


def _wrong(schema: JsonObject, properties: JsonObject, required: list[Any], arguments: JsonObject) -> Iterator[str]:
    for name in required:
        if isinstance(name, str) and name not in arguments:
            yield f"parameter {name[:80]!r} is missing"
    for name, value in arguments.items():
        if name not in properties:
            if schema.get("additionalProperties") is False and "patternProperties" not in schema:
                known = ", ".join(list(properties)[:20]) or "none"
                yield f"unknown parameter {name[:80]!r}; there are {known}"
        elif not _may_be(value, properties[name]):
            yield f"parameter {name[:80]!r} must be of the type {properties[name]['type']}"


def _may_be(value: Any, schema: Any) -> bool:
    """Whether `value` may have the type that a property names; true where that is not simply said."""
    match schema:
        case {"type": str(kind)}:
            return _is(value, kind)
        case _:
            return True


def _is(value: Any, kind: str) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return not isinstance(value, bool) and (
                isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            )
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "null":
            return value is None
        case _:
            return True


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
