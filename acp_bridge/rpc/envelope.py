"""Whose message a line was that cannot be read: an answer or a call, and with which id.

Pure. Owns a look at the line's two ends, so that whoever waits for it is told. Never takes anything else from it: what
is broken in one place is believed in no other.
"""

import re
from typing import Final, Literal, NamedTuple

import orjson

from .messages import RequestId

HEAD: Final = 4096
"""Bytes of a line's beginning that are looked at; clients put the id and the method first."""
TAIL: Final = 256
"""Bytes of its end: where members are sorted by something else, the id may come last."""

_TOKEN = re.compile(rb'\s*("(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s"{}\[\]:,]+)', re.DOTALL)
_LAST_ID = re.compile(rb'[{,]\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)\s*\}\s*$')
"""One brace behind it: it closes the message, so the id is the message's own."""


class Envelope(NamedTuple):
    """What can be told. `id` is None where there is none, or none that a request may carry."""

    kind: Literal["call", "answer", "unknown"] = "unknown"
    id: RequestId = None


def envelope(head: bytes, tail: bytes = b"") -> Envelope:
    """Return what the beginning and the end of a line say of whose it is.

    Args:
        head: its first bytes; the whole line, if that is all there is.
        tail: its last bytes, newline excluded.
    """
    members = _members(head[:HEAD])
    found = members.get(b'"id"') or _last_id(tail[-TAIL:])
    if b'"method"' in members:
        kind = "call"
    elif b'"result"' in members or b'"error"' in members:
        kind = "answer"
    else:
        kind = "unknown"
    return Envelope(kind, _id(found))


def _members(head: bytes) -> dict[bytes, bytes]:
    """Return the message's own members as far as `head` goes, each with the first token of its value."""
    members: dict[bytes, bytes] = {}
    depth, key, expects_value = 0, b"", False
    at = 0
    while (found := _TOKEN.match(head, at)) is not None:
        token, at = found[1], found.end()
        if depth == 1 and expects_value:
            members[key], expects_value = token, False
        elif depth == 1 and token == b":":
            expects_value = True
        elif depth == 1:
            key = token
        depth += (token in (b"{", b"[")) - (token in (b"}", b"]"))
        if depth <= 0:
            break
    return members


def _last_id(tail: bytes) -> bytes:
    found = _LAST_ID.search(tail)
    return b"" if found is None else found[1]


def _id(token: bytes) -> RequestId:
    try:
        value = orjson.loads(token) if token else None
    except orjson.JSONDecodeError:
        return None
    return value if type(value) is str or (type(value) is int and -(2**63) <= value < 2**63) else None
