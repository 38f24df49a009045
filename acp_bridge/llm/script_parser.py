"""Reads a script from JSON, with errors that name the place. The format itself is told in `scripted`."""

import difflib
import os
from collections.abc import Callable
from typing import Any, cast, get_args

import orjson

from acp_bridge.content import Failure, FailureKind, JsonObject, Usage
from acp_bridge.errors import ConfigError

from .model import RETRYABLE, Failed, StopCause, TextDelta, ThoughtDelta, ToolDelta
from .opaque import Kept
from .script import Answer, Fail, Hang, Pause, Piece, Say, Script, WaitFor


def read_script(path: str | os.PathLike[str]) -> Script:
    """Read a script.

    Raises:
        ConfigError: the file cannot be read or is malformed; the message names file, place and remedy.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            value = orjson.loads(file.read())
    except OSError as exc:
        raise ConfigError(f"cannot read the script {name!r}: {exc.strerror}; give the path of a JSON file") from exc
    except orjson.JSONDecodeError as exc:
        raise ConfigError(
            f"the script {name!r} is not JSON at line {exc.lineno}, column {exc.colno}: {exc.msg}"
        ) from exc
    return script_from(value, name)


def script_from(value: Any, name: str) -> Script:
    """Return the script that parsed JSON holds; `name` is told in errors.

    Raises:
        ConfigError: it is malformed.
    """
    try:
        listed = {"answers": cast("list[Any]", value)} if isinstance(value, list) else value
        top = _object(listed, "the script", ("answers", "context_window", "takes_images"))
        answers = _list(top.get("answers", []), "'answers'")
        return Script(
            name=name,
            answers=tuple(_parse_answer(item, f"answer {i}") for i, item in enumerate(answers, 1)),
            context_window=_field(top, "context_window", int, "the script", None),
            takes_images=_field(top, "takes_images", bool, "the script", True),
        )
    except _Malformed as exc:
        raise ConfigError(f"the script {name!r} is malformed: {exc}") from exc


class _Malformed(Exception):
    """What is wrong, and where in the script."""


_WHOLE = ("text", "thought", "tools")
_ANSWER = (*_WHOLE, "deltas", "stop", "usage", "kept", "expect", "when")
_COUNTS = ("input_tokens", "output_tokens", "cached_read_tokens", "cached_write_tokens", "thought_tokens")


def _parse_answer(value: Any, at: str) -> Answer:
    answer = _object(value, at, _ANSWER)
    if "deltas" in answer:
        if mixed := [key for key in _WHOLE if key in answer]:
            raise _Malformed(f"{at} has both 'deltas' and {mixed[0]!r}; give the one or the other")
        pieces = _parse_pieces(answer["deltas"], at)
    else:
        pieces = _parse_whole(answer, at)
    stop = answer.get("stop")
    if stop is not None and stop not in get_args(StopCause):
        raise _Malformed(f"'stop' of {at} is {stop!r}; it is one of {', '.join(get_args(StopCause))}")
    usage = None
    if "usage" in answer:
        counts = _object(answer["usage"], f"'usage' of {at}", _COUNTS)
        usage = Usage(**{key: _field(counts, key, int, f"'usage' of {at}", 0) for key in _COUNTS})
    return Answer(
        pieces=pieces,
        stop=cast("StopCause | None", stop),
        usage=usage,
        kept=_parse_kept(answer["kept"], f"'kept' of {at}") if "kept" in answer else None,
        expect=_strings(answer, "expect", at),
        when=_strings(answer, "when", at),
        at=at,
    )


def _parse_kept(value: Any, at: str) -> Kept:
    kept = _object(value, at, ("message", "calls"))
    calls = _object(kept.get("calls", {}), f"'calls' of {at}", None)
    if wrong := next((place for place in calls if not place.isdecimal()), None):
        raise _Malformed(f"'calls' of {at} has {wrong!r}; its keys are places of tools, from \"0\" on")
    members = {int(place): _object(call, f"call {place} of {at}", None) for place, call in calls.items()}
    return Kept(_object(kept.get("message", {}), f"'message' of {at}", None), members)


def _parse_whole(answer: JsonObject, at: str) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    if thought := _field(answer, "thought", str, at, ""):
        pieces.append(Say(ThoughtDelta(thought)))
    if text := _field(answer, "text", str, at, ""):
        pieces.append(Say(TextDelta(text)))
    for index, item in enumerate(_list(answer.get("tools", []), f"'tools' of {at}")):
        here = f"tool {index + 1} of {at}"
        tool = _object(item, here, ("name", "arguments"))
        pieces.append(
            Say(ToolDelta(index, _field(tool, "name", str, here), _parse_arguments(tool.get("arguments", {}), here)))
        )
    return tuple(pieces)


def _parse_arguments(value: Any, at: str) -> str:
    if isinstance(value, str):
        return value
    return orjson.dumps(_object(value, f"'arguments' of {at}", None)).decode()


def _parse_pieces(value: Any, at: str) -> tuple[Piece, ...]:
    items = _list(value, f"'deltas' of {at}")
    pieces = tuple(_parse_piece(item, f"delta {i} of {at}") for i, item in enumerate(items, 1))
    for piece in pieces[:-1]:
        if isinstance(piece, Fail | Hang):
            raise _Malformed(f"{at} goes on after 'fail' or 'hang', which end it; remove what follows")
    return pieces


def _parse_piece(value: Any, at: str) -> Piece:
    piece = _object(value, at, (*_PIECES, "signature", "form", "repeat"))
    kinds = [key for key in _PIECES if key in piece]
    if len(kinds) != 1:
        raise _Malformed(f"{at} must have exactly one of {', '.join(_PIECES)}")
    return _PIECES[kinds[0]](piece, at)


def _say(piece: JsonObject, at: str, delta: TextDelta | ThoughtDelta | ToolDelta) -> Say:
    return Say(delta, _field(piece, "repeat", int, at, 1))


def _parse_text(piece: JsonObject, at: str) -> Piece:
    return _say(piece, at, TextDelta(_field(piece, "text", str, at)))


def _parse_thought(piece: JsonObject, at: str) -> Piece:
    signature = _field(piece, "signature", str, at, "")
    form = _field(piece, "form", str, at, "")
    return _say(piece, at, ThoughtDelta(_field(piece, "thought", str, at), signature, form))


def _parse_tool(piece: JsonObject, at: str) -> Piece:
    tool = _object(piece["tool"], f"'tool' of {at}", ("index", "name", "arguments"))
    index = _field(tool, "index", int, at, 0)
    arguments = _parse_arguments(tool.get("arguments", ""), at)
    return _say(piece, at, ToolDelta(index, _field(tool, "name", str, at, ""), arguments))


def _parse_pause(piece: JsonObject, at: str) -> Piece:
    seconds = piece["pause_s"]
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0:
        raise _Malformed(f"'pause_s' of {at} must be a number of seconds")
    return Pause(float(seconds))


def _parse_wait(piece: JsonObject, at: str) -> Piece:
    return WaitFor(_field(piece, "wait_for", str, at))


def _parse_hang(piece: JsonObject, at: str) -> Piece:
    if piece["hang"] is not True:
        raise _Malformed(f"'hang' of {at} must be true; leave it out otherwise")
    return Hang()


def _parse_fail(piece: JsonObject, at: str) -> Piece:
    here = f"'fail' of {at}"
    fail = _object(piece["fail"], here, ("kind", "message", "status", "retryable", "retry_after_s"))
    kind: Any = fail.get("kind")
    if kind not in get_args(FailureKind):
        raise _Malformed(f"'kind' of {here} is {kind!r}; it is one of {', '.join(get_args(FailureKind))}")
    message = _field(fail, "message", str, here, f"the script fails with {kind}")
    after = fail.get("retry_after_s")
    if after is not None and (isinstance(after, bool) or not isinstance(after, int | float)):
        raise _Malformed(f"'retry_after_s' of {here} must be a number of seconds")
    retryable = _field(fail, "retryable", bool, here, kind in RETRYABLE)
    return Fail(
        Failed(Failure(kind=kind, message=message, status=_field(fail, "status", int, here, None)), retryable, after)
    )


_PIECES: dict[str, Callable[[JsonObject, str], Piece]] = {
    "text": _parse_text,
    "thought": _parse_thought,
    "tool": _parse_tool,
    "pause_s": _parse_pause,
    "wait_for": _parse_wait,
    "hang": _parse_hang,
    "fail": _parse_fail,
}

_WORDS: dict[type, str] = {str: "a string", int: "a whole number", bool: "true or false"}
_MISSING: Any = object()


def _field(value: JsonObject, key: str, kind: type, at: str, default: Any = _MISSING) -> Any:
    if key not in value and default is not _MISSING:
        return default
    item = value.get(key)
    if type(item) is not kind:  # bool is an int, and no count
        raise _Malformed(f"{key!r} of {at} must be {_WORDS[kind]}")
    return item


def _strings(value: JsonObject, key: str, at: str) -> tuple[str, ...]:
    item = value.get(key, [])
    items = [item] if isinstance(item, str) else _list(item, f"{key!r} of {at}")
    if not all(isinstance(part, str) for part in items):
        raise _Malformed(f"{key!r} of {at} must be a string or a list of strings")
    return tuple(items)


def _list(value: Any, at: str) -> list[Any]:
    if not isinstance(value, list):
        raise _Malformed(f"{at} must be a list")
    return cast("list[Any]", value)


def _object(value: Any, at: str, keys: tuple[str, ...] | None) -> JsonObject:
    if not isinstance(value, dict):
        raise _Malformed(f"{at} must be an object in braces")
    found = cast("JsonObject", value)
    if keys is not None and (unknown := next((key for key in found if key not in keys), None)) is not None:
        near = difflib.get_close_matches(unknown, keys, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(keys)}"
        raise _Malformed(f"{at} has an unknown key {unknown!r}; {hint}")
    return found
