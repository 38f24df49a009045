"""Events, records and headers as JSON and back, by a table from type to class.

Owns the member names (camelCase) and the shape check. Knows no files and no order.
A member equal to its default is left out; an unknown member is ignored, so that a later minor version may add one.
"""

import types
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import orjson

from acp_bridge.content import (
    Diff,
    Image,
    JsonObject,
    Resource,
    ResourceLink,
    Text,
    Thought,
    ToolRequest,
)
from acp_bridge.errors import BridgeError

from .events import Event, Header, Record


class UnknownEvent(BridgeError):
    """An event type outside the table, and not marked ignorable."""


class MalformedRecord(BridgeError):
    """A record whose members do not have the shape of its type."""


@dataclass(frozen=True, slots=True)
class _Member:
    name: str
    key: str
    default: Any  # MISSING if required
    encode: Callable[[Any], Any] | None
    decode: Callable[[Any], Any] | None


class _Shape:
    """How one class is written and read; compiled once from its annotations."""

    def __init__(self, cls: type[Any]) -> None:
        self.cls = cls
        hints = get_type_hints(cls)
        self.members = [_member(f.name, hints[f.name], f.default) for f in fields(cls)]
        self.decode: Callable[[JsonObject], Any] = _compile(cls, self.members)

    def encode(self, value: Any) -> JsonObject:
        data: JsonObject = {}
        for member in self.members:
            item = getattr(value, member.name)
            if member.default is not MISSING and item == member.default:
                continue
            data[member.key] = member.encode(item) if member.encode is not None and item is not None else item
        return data


def _compile(cls: type[Any], members: Sequence[_Member]) -> Callable[[JsonObject], Any]:
    """Return a function that makes a `cls` of its JSON form: one call with the members written out.

    A log of a hundred thousand records is decoded through it; a loop over the members takes three times as long.
    """
    names: dict[str, Any] = {"cls": cls}
    arguments: list[str] = []
    for place, member in enumerate(members):
        key = repr(member.key)
        names[f"default{place}"], names[f"decode{place}"] = member.default, member.decode
        match member.default is MISSING, member.decode is None:
            case True, True:
                value = f"data[{key}]"
            case True, False:
                value = f"decode{place}(data[{key}])"
            case False, True:
                value = f"data.get({key}, default{place})"
            case _:
                value = f"default{place} if (item := data.get({key})) is None else decode{place}(item)"
        arguments.append(f"{member.name}=({value})")
    source = f"lambda data: cls({', '.join(arguments)})"
    return eval(source, names)  # noqa: S307  made of our own annotations alone, as dataclasses makes its `__init__`


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _member(name: str, hint: Any, default: Any) -> _Member:
    encode, decode = _converters(hint)
    return _Member(name, _camel(name), default, encode, decode)


def _converters(hint: Any) -> tuple[Callable[[Any], Any] | None, Callable[[Any], Any] | None]:
    """Return how to write and read a member of type `hint`; None where its JSON form is the value itself."""
    if get_origin(hint) in (Union, types.UnionType):
        variants = [variant for variant in get_args(hint) if variant is not type(None)]
        if len(variants) == 1:
            return _converters(variants[0])
        if all(is_dataclass(variant) for variant in variants):
            return encode_block, decode_block
        return None, None
    if get_origin(hint) is tuple:
        encode, decode = _converters(get_args(hint)[0])
        if decode is None or encode is None:
            return list, tuple
        return (lambda items: [encode(item) for item in items]), (lambda items: tuple([decode(i) for i in items]))
    if is_dataclass(hint):
        shape = _Shape(cast("type[Any]", hint))
        return shape.encode, shape.decode
    return None, None


_BLOCKS: dict[str, _Shape] = {}


def encode_block(block: Any) -> JsonObject:
    """Return a content block as a JSON object whose `type` names its class."""
    return {"type": block.type, **_BLOCKS[block.type].encode(block)}


def decode_block(data: JsonObject) -> Any:
    """Return the content block that `encode_block` made `data` of.

    Raises:
        KeyError: an unknown type, or a member is missing.
    """
    return _BLOCKS[data["type"]].decode(data)


for _cls in (Text, Thought, Image, ResourceLink, Resource, ToolRequest, Diff):
    _BLOCKS[_cls.type] = _Shape(_cls)

EVENT_TYPES: dict[str, type[Event]] = {cls.type: cls for cls in get_args(Event)}
_SHAPES = {name: _Shape(cls) for name, cls in EVENT_TYPES.items()}
_HEADER = _Shape(Header)


def encode_event(event: Event) -> bytes:
    """Return the `data` member of the event's record as JSON.

    Raises:
        ValueError: it holds what JSON cannot carry, or what its type does not allow.
    """
    try:
        return orjson.dumps(_SHAPES[event.type].encode(event))
    except (TypeError, ValueError, AttributeError, KeyError) as exc:
        raise ValueError(f"{event.type} holds what JSON cannot carry: {exc}") from exc


def encode_record(record: Record) -> JsonObject:
    """Return the record's envelope: `type`, `seq`, `time`, `data` and, where true, `synthetic`."""
    envelope: JsonObject = {
        "type": record.event.type,
        "seq": record.seq,
        "time": record.time,
        "data": _SHAPES[record.event.type].encode(record.event),
    }
    if record.synthetic:
        envelope["synthetic"] = True
    return envelope


def dump_record(record: Record) -> bytes:
    """Return what `encode_record` returns as JSON; an event that was encoded on its way here is not encoded again.

    Raises:
        ValueError: it holds what JSON cannot carry.
    """
    envelope: JsonObject = {
        "type": record.event.type,
        "seq": record.seq,
        "time": record.time,
        "data": orjson.Fragment(record.encoded or encode_event(record.event)),
    }
    if record.synthetic:
        envelope["synthetic"] = True
    return orjson.dumps(envelope)


def decode_record(envelope: JsonObject) -> Record | None:
    """Return the record, or None if its type is unknown and marked ignorable.

    Raises:
        UnknownEvent: its type is unknown and may not be skipped.
        MalformedRecord: a member is missing or of the wrong kind.
    """
    try:
        shape = _SHAPES.get(envelope["type"])
        if shape is None:
            if envelope.get("ignorable") is True:
                return None
            raise UnknownEvent(f"event type {envelope['type']!r} is not known to this version")
        return Record(
            envelope["seq"], envelope["time"], shape.decode(envelope["data"]), envelope.get("synthetic", False)
        )
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise MalformedRecord(f"record {envelope.get('seq')!r} lacks the shape of its type: {exc}") from exc


def encode_header(header: Header) -> JsonObject:
    """Return the header's members; the storage adds its own beside them."""
    return _HEADER.encode(header)


def decode_header(data: JsonObject) -> Header:
    """Return the header.

    Raises:
        MalformedRecord: a member is missing or of the wrong kind.
    """
    try:
        return cast("Header", _HEADER.decode(data))
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise MalformedRecord(f"the header lacks its shape: {exc}") from exc
