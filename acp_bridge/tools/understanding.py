"""What a model meant by its argument text, where only one reading is possible. Pure.

Owns the table of readings, by the type that a tool's schema names: `"2"` and `2.0` for an integer, `"true"` for a
boolean, a number for a text that names something, JSON encoded twice, one item for a list of such items, one text in a
list for a text, a parameter's or a choice's name in other letters or with other marks between its words. What a tool
has no parameter for is left out and named. Everything else is left as it is, for the tool's own strict check to refuse.

Title, question, log, judgement of access and body all see what was understood here: one function, so none can see
anything else.
"""

import math
import re
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from acp_bridge.content import JsonObject
from acp_bridge.redaction import Secrets
from acp_bridge.text import mended, read_json

DEPTH = 64
"""Levels of arguments: as many as the log's writer takes."""
_ENCODED = 3
"""How often arguments may be JSON in JSON."""
_TOO_DEEP = '"[left out: JSON in JSON, nested too deeply]"'
"""In the place of arguments that cannot be searched for secrets; no tool takes it."""
_NOT_FINITE = "it holds NaN, or a number that is too large"
_NO_OBJECT = "The arguments must be a JSON object."
_WRAPPERS = frozenset({"arguments", "parameters", "args", "input"})
_FOLDER_TO_RUN_IN = frozenset({"workdir", "workingdir", "workingdirectory", "currentworkingdirectory"})
"""Other names of `cwd`: a command that runs elsewhere than was meant does harm, so these are not left out."""
_DIGITS = re.compile(r"[+-]?\d{1,15}(?:\.0+)?")
_NUMBER = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,15})?(?:[eE][+-]?\d{1,2})?")


@dataclass(frozen=True, slots=True)
class ArgumentText:
    """A model's argument text, read once.

    Attributes:
        text: as it may be logged: without secrets, however its JSON writes them.
        arguments: the object that it stands for.
        problem: why it stands for none, for the model; empty if it does.
    """

    text: str
    arguments: JsonObject = field(default_factory=dict[str, Any])
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Understood:
    """What a call's arguments mean to its tool.

    Attributes:
        arguments: to be checked by the tool.
        ignored: names of what was left out because the tool has no such parameter.
        problem: why there are no arguments, for the model; empty if there are.
    """

    arguments: JsonObject
    ignored: tuple[str, ...] = ()
    problem: str = ""

    @property
    def note(self) -> str:
        """What the model is told of what was left out; empty if nothing was."""
        if not self.ignored:
            return ""
        names = ", ".join(repr(name[:80]) for name in self.ignored[:5])
        return f"[ignored, since there is no such parameter: {names}]"


def read_arguments(text: str, secrets: Secrets) -> ArgumentText:
    """Read a model's argument text; an empty one is an empty object.

    It has to be a JSON object, or one that was encoded again, without a number that JSON has not.
    """
    text = secrets.hidden(text)
    if not text.strip():
        return ArgumentText(text)
    try:
        found = read_json(text)
        is_finite = _is_finite(found)
        value = mended(found, depth=DEPTH)
        # Only an escape can write a secret in another way than the search above has seen.
        if "\\" in text and (clean := _hidden(value, secrets)) != value:
            text, value = orjson.dumps(clean).decode(), clean
    except ValueError as exc:
        return ArgumentText(text, problem=f"The arguments are not valid JSON: {exc}.")
    except RecursionError:
        return ArgumentText(_TOO_DEEP, problem=_NO_OBJECT)
    if not is_finite:
        return ArgumentText(text, problem=f"The arguments are not valid JSON: {_NOT_FINITE}.")
    value = _decode(value)
    if isinstance(value, list) and len(cast("list[Any]", value)) == 1:
        value = cast("list[Any]", value)[0]
    if not isinstance(value, dict):
        return ArgumentText(text, problem=_NO_OBJECT)
    return ArgumentText(text, cast("JsonObject", value))


def understand(given: JsonObject, schema: JsonObject) -> Understood:
    """Return what arguments mean to a tool whose parameters are `schema`."""
    properties = _properties(schema)
    if len(given) == 1 and (name := next(iter(given))) in _WRAPPERS and name not in properties:
        inner = _decode(given[name])
        given = cast("JsonObject", inner) if isinstance(inner, dict) else given
    return _object(given, schema)


def _hidden(value: Any, secrets: Secrets) -> Any:
    """Return a value without secrets; a text that is JSON is looked into: it may be read as what it stands for."""
    match value:
        case dict():
            members = cast("JsonObject", value).items()
            return {secrets.hidden(name): _hidden(member, secrets) for name, member in members}
        case list():
            return [_hidden(item, secrets) for item in cast("list[Any]", value)]
        case str():
            text = secrets.hidden(value)
            inner: Any = _decode(text) if "\\" in text else text
            if inner is text or (clean := _hidden(inner, secrets)) == inner:
                return text
            return orjson.dumps(clean).decode()
        case _:
            return value


def _decode(value: Any) -> Any:
    """Return what a text of JSON stands for, if it stands for an object or a list."""
    for _ in range(_ENCODED):
        if not isinstance(value, str) or value.lstrip()[:1] not in ('"', "{", "["):
            return value
        try:
            value = _finite(read_json(value))
        except (ValueError, RecursionError):
            return value
    return value


def _finite(value: Any) -> Any:
    """Return a value as the log can hold it.

    Raises:
        ValueError: a number in it is none.
    """
    if not _is_finite(value):
        raise ValueError(_NOT_FINITE)
    return mended(value, depth=DEPTH)


def _is_finite(value: Any, depth: int = DEPTH) -> bool:
    """Whether every number is one: what NaN or infinity would become could be taken for a text that was meant."""
    match value:
        case float():
            return math.isfinite(value)
        case dict() | list() if depth == 0:
            return True  # what is deeper becomes a text
        case dict():
            return all(_is_finite(member, depth - 1) for member in cast("JsonObject", value).values())
        case list():
            return all(_is_finite(item, depth - 1) for item in cast("list[Any]", value))
        case _:
            return True


def _object(given: JsonObject, schema: JsonObject) -> Understood:
    properties = _properties(schema)
    names = {name: _meant(name, given, properties) for name in given}
    closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    ignored = tuple(name for name, meant in names.items() if meant not in properties) if closed else ()
    kept = {meant: given[name] for name, meant in names.items() if name not in ignored}
    return Understood({name: _read(value, properties.get(name)) for name, value in kept.items()}, ignored)


def _meant(name: str, given: JsonObject, properties: JsonObject) -> str:
    """Return the parameter that a name means; itself if none is, or two names would mean the same."""
    if name in properties:
        return name
    alike = [known for known in properties if _plain(known) == _plain(name)]
    rivals = [other for other in given if _plain(other) == _plain(name)]
    return alike[0] if len(alike) == len(rivals) == 1 else name


def _plain(name: str) -> str:
    name = re.sub(r"[\W_]+", "", name).casefold()
    return "cwd" if name in _FOLDER_TO_RUN_IN else name


def _properties(schema: Any) -> JsonObject:
    found = cast("JsonObject", schema).get("properties") if isinstance(schema, dict) else None
    return cast("JsonObject", found) if isinstance(found, dict) else {}


def _read(value: Any, schema: Any) -> Any:
    """Return a value as the type that the schema names, as it is where that is not simply said or not surely meant."""
    match schema:
        case {"enum": list()} if isinstance(value, str):
            return _choice(value, cast("list[Any]", schema["enum"]))
        case {"type": "integer"}:
            return _integer(value)
        case {"type": "number"}:
            return _number(value)
        case {"type": "boolean"} if isinstance(value, str) and value.strip().casefold() in ("true", "false"):
            return value.strip().casefold() == "true"
        case {"type": "string"}:
            return _text(value)
        case {"type": "array", **rest}:
            return _list(value, rest.get("items"))
        case {"type": "object"}:
            inner = _decode(value)
            if not isinstance(inner, dict):
                return value
            return _object(cast("JsonObject", inner), cast("JsonObject", schema)).arguments
        case _:
            return value


def _choice(value: str, choices: list[Any]) -> str:
    alike = [choice for choice in choices if isinstance(choice, str) and _plain(choice) == _plain(value)]
    return alike[0] if value not in choices and len(alike) == 1 else value


def _integer(value: Any) -> Any:
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        return int(value.strip().partition(".")[0])
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(value: Any) -> Any:
    if not isinstance(value, str) or not _NUMBER.fullmatch(value.strip()):
        return value
    number = float(value)
    return number if math.isfinite(number) else value


def _text(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return items[0] if len(items) == 1 and isinstance(items[0], str) else cast("Any", value)


def _list(value: Any, items: Any) -> Any:
    kind = cast("JsonObject", items).get("type") if isinstance(items, dict) else None
    decoded: Any = _decode(value)
    if isinstance(decoded, str) and kind == "string":
        decoded = [decoded]
    if isinstance(decoded, dict) and kind == "object":
        decoded = [cast("JsonObject", decoded)]
    if not isinstance(decoded, list):
        return value
    return [_read(item, items) for item in cast("list[Any]", decoded)]
