"""The first line of a log: the format's name and version, the file's `gen`, and the session's own members.

The version is looked at before anything else, since a newer one may look otherwise. Knows no files.
"""

import secrets
from dataclasses import dataclass

import orjson

from acp_bridge.content import JsonObject
from acp_bridge.errors import StoreTooNew
from acp_bridge.session.codec import MalformedRecord, decode_header
from acp_bridge.session.events import Header

from .record import Seal, encoded

FORMAT = "acp-bridge/log"
VERSION = 1


class BadLine(Exception):
    """A line is not what it should be; the message says why."""


@dataclass(frozen=True, slots=True)
class FirstLine:
    """What the first line said; `members` keeps what this version does not know."""

    gen: str
    header: Header
    members: JsonObject
    size: int


def new_gen() -> str:
    """Return a `gen` that no other file has."""
    return secrets.token_hex(8)


def first_line(session_id: str, gen: str, members: JsonObject) -> bytes:
    """Return the first line of a new file."""
    body = encoded({"format": FORMAT, "version": VERSION, "gen": gen, "session": members})
    return Seal(session_id, gen).close(body, 0, 0)


def parsed(line: bytes, session_id: str, path: str) -> FirstLine:
    """Return what `line`, without its newline, says.

    Raises:
        StoreTooNew: a newer program wrote it.
        BadLine: it is damaged, or another session's.
    """
    try:
        found: JsonObject = dict(orjson.loads(line))
    except (TypeError, ValueError) as exc:
        raise BadLine("the first line is no JSON object") from exc
    if found.get("format") != FORMAT or not isinstance(found.get("version"), int):
        raise BadLine("the first line names no format of ours")
    if found["version"] > VERSION:
        raise StoreTooNew(
            f"session {session_id!r} was written in format {found['version']}, this program knows up to {VERSION}:"
            " upgrade acp-stdio-bridge",
            session_id=session_id,
            path=path,
        )
    return _checked(line, found, session_id)


def _checked(line: bytes, found: JsonObject, session_id: str) -> FirstLine:
    gen = found.get("gen")
    try:
        members: JsonObject = dict(found["session"])
    except (KeyError, TypeError, ValueError) as exc:
        raise BadLine("the first line lacks the session's members") from exc
    if not isinstance(gen, str):
        raise BadLine("the first line lacks its gen")
    if members.get("sessionId") != session_id:
        raise BadLine(f"the log is that of session {members.get('sessionId')!r}")
    if not Seal(session_id, gen).holds(line, 0):
        raise BadLine("the first line was changed")
    try:
        return FirstLine(gen, decode_header(members), members, len(line) + 1)
    except MalformedRecord as exc:
        raise BadLine(str(exc)) from exc
