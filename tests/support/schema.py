"""What an agent may emit, by the protocol's machine-readable schema.

Owns the judgement of one message. A member that the schema does not name is a fault too, though JSON Schema would let
it pass: the protocol keeps the roots of its objects for itself.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

_FILE = Path(__file__).parents[2] / "fixtures" / "acp" / "v1.json"
_SAYS_MEMBERS = ("$ref", "allOf", "anyOf", "oneOf", "properties")


def faults(message: dict[str, Any], method_of_request: str | None = None) -> list[str]:
    """Return what is wrong with a message of the agent's; `method_of_request` is what a response answers."""
    found: list[str] = []
    if message.get("jsonrpc") != "2.0":
        found.append("jsonrpc is not '2.0'")
    match message:
        case {"method": str() as method, "params": params, "id": _}:
            found += _surplus(message, "jsonrpc", "id", "method", "params")
            found += _judged(_request_schema(method), params)
        case {"method": str() as method, "params": params}:
            found += _surplus(message, "jsonrpc", "method", "params")
            found += _notification(method, params)
        case {"id": _, "result": result}:
            found += _surplus(message, "jsonrpc", "id", "result")
            if method_of_request is not None:
                found += _judged(_response_schema(method_of_request), result)
        case {"id": _, "error": error}:
            found += _surplus(message, "jsonrpc", "id", "error")
            found += _judged("Error", error)
            if isinstance(error, dict):
                found += _surplus(error, "code", "message", "data")
        case _:
            found.append("neither a request nor a notification nor a response")
    return found


def update_kinds() -> frozenset[str]:
    """Return the kinds of `session/update` that the schema has."""
    return frozenset(_branches())


def _surplus(value: dict[str, Any], *known: str) -> list[str]:
    return [f"member {key!r} is not the protocol's" for key in value if key not in known]


def _notification(method: str, params: Any) -> list[str]:
    match method:
        case "session/update":
            return _update(params)
        case "$/cancel_request":
            return _judged("CancelRequestNotification", params)
        case _:
            return [] if method.startswith("_") else [f"notification {method!r} is not the protocol's"]


def _update(params: Any) -> list[str]:
    update = params.get("update") if isinstance(params, dict) else None
    kind = update.get("sessionUpdate") if isinstance(update, dict) else None
    if kind not in _branches():
        return [f"session/update of kind {kind!r} is not the protocol's"]
    assert isinstance(update, dict)
    shape = _shape_of_text_chunk(params, update)
    if shape is not None and shape in _known_good:  # thousands of chunks differ in their text alone
        return []
    found = _errors(_update_validator(kind), params)
    if shape is not None and not found:
        _known_good.add(shape)
    return found


_known_good: set[tuple[object, ...]] = set()


def _shape_of_text_chunk(params: dict[str, Any], update: dict[str, Any]) -> tuple[object, ...] | None:
    match update:
        case {"sessionUpdate": kind, "content": {"type": "text", "text": str()} as content, "messageId": str()}:
            return (kind, tuple(params), tuple(update), tuple(content), type(params.get("sessionId")))
        case _:
            return None


def _judged(definition: str | None, value: Any) -> list[str]:
    return [] if definition is None else _errors(_validator(definition), value)


def _errors(validator: Draft202012Validator, value: Any) -> list[str]:
    return [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(value)]


@cache
def _definitions() -> dict[str, Any]:
    definitions: dict[str, Any] = json.loads(_FILE.read_text())["$defs"]
    return {name: _open(definition) for name, definition in definitions.items()}


def _closed(schema: Any) -> Any:
    """Return the schema of a place where a value stands: members that nothing in it names are refused."""
    opened = _open(schema)
    if isinstance(opened, dict) and any(key in opened for key in _SAYS_MEMBERS):
        return {**opened, "unevaluatedProperties": False}
    return opened


def _open(schema: Any) -> Any:
    """Return a part of a schema, beside which others may name further members."""
    if not isinstance(schema, dict):
        return schema
    made = dict(schema)
    if "properties" in made:
        made["properties"] = {name: _closed(inner) for name, inner in made["properties"].items()}
    if "items" in made:
        made["items"] = _closed(made["items"])
    for key in ("allOf", "anyOf", "oneOf"):
        if key in made:
            made[key] = [_open(inner) for inner in made[key]]
    return made


def _made(schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator({**schema, "$defs": _definitions()})


@cache
def _validator(definition: str) -> Draft202012Validator:
    return _made(_closed({"$ref": f"#/$defs/{definition}"}))


@cache
def _branches() -> dict[str, Any]:
    branches = _definitions()["SessionUpdate"]["oneOf"]
    return {branch["properties"]["sessionUpdate"]["const"]: branch for branch in branches}


@cache
def _update_validator(kind: str) -> Draft202012Validator:
    params = dict(_definitions()["SessionNotification"])
    params["properties"] = {**params["properties"], "update": _closed(_branches()[kind])}
    return _made(_closed(params))


@cache
def _by_method(ending: str) -> dict[str, str]:
    return {
        definition["x-method"]: name
        for name, definition in _definitions().items()
        if isinstance(definition, dict) and name.endswith(ending) and "x-method" in definition
    }


def _request_schema(method: str) -> str | None:
    return None if method.startswith("_") else _by_method("Request")[method]


def _response_schema(method: str) -> str | None:
    return _by_method("Response").get(method)
