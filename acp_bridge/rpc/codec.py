"""Bytes to messages and back, without I/O. Owns what a line may be; never looks into params.

What is no message becomes an `Invalid`, which says how to answer it; what may not be answered (a notification or a
response that makes no sense) is left out, with a word at debug level.
"""

import logging
from typing import Any, Final, cast

import orjson

from acp_bridge.limits import DEPTH, LINE
from acp_bridge.lines import LineSplitter, LongLine
from acp_bridge.text import is_deeper, mended_json

from .envelope import HEAD, TAIL, envelope
from .messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    Failure,
    Invalid,
    LineTooLong,
    Message,
    Notification,
    Request,
    RequestId,
    Success,
)

MAX_LINE_OUT: Final = 8 * 1024 * 1024

logger = logging.getLogger(__name__)


class LineDecoder:
    """Cuts a stream of bytes into lines and lines into messages, in time linear in the bytes fed.

    A line that exceeds `max_line` bytes is dropped as it comes, and only its two ends are held: they say who is to be
    told. What follows the last newline at the end of the input is half a line and belongs to nobody.
    """

    def __init__(self, max_line: int = LINE) -> None:
        self._max_line = max_line
        self._lines = LineSplitter(max_line, head=HEAD, tail=TAIL)

    def feed(self, block: bytes) -> list[Message | Invalid]:
        """Return what the lines say that end in `block`."""
        return [message for line in self._lines.feed(block) if (message := self._message(line)) is not None]

    def _message(self, line: bytes | bytearray | LongLine) -> Message | Invalid | None:
        if isinstance(line, LongLine):
            said = f"a line may have {self._max_line} bytes at most"
            return _unreadable(INVALID_REQUEST, said, line.head, line.tail)
        return decode(line)


def decode(line: bytes | bytearray) -> Message | Invalid | None:
    """What one line says; `None` if it is blank or may not be answered."""
    try:
        document = _parsed(line)
    except orjson.JSONDecodeError as exc:
        if not line.strip(b" \t\r"):
            return None
        head, tail = bytes(line[:HEAD]), bytes(line[-TAIL:])
        if "depth limit" in exc.msg or "ecursion limit" in exc.msg:  # beyond what the parser itself takes: 1024 levels
            return _unreadable(INVALID_REQUEST, _TOO_DEEP, head, tail)
        broken = _unreadable(PARSE_ERROR, f"not valid JSON: {exc}", head, tail)
        return broken._replace(id=None)  # nothing in it is sure, so its id is not either (JSON-RPC 2.0 §5.1)
    if not isinstance(document, dict):
        return Invalid(None, INVALID_REQUEST, "a message is one JSON object; batches are not supported")
    members = cast("dict[str, Any]", document)
    if line.count(b"[") + line.count(b"{") > DEPTH and is_deeper(document, DEPTH):
        return _refused(members, _TOO_DEEP)
    return _call(members) if "method" in members else _answer(members)


def _parsed(line: bytes | bytearray) -> Any:
    """Return the line's JSON; half a character, as JavaScript writes a text that was cut, is mended and not refused."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        if b"\\u" not in line or (whole := mended_json(line)) == line:
            raise
        return orjson.loads(whole)


def _refused(members: dict[str, Any], said: str) -> Invalid:
    """Return the refusal of a message that can be read: whoever waits for it has an id."""
    request_id = members.get("id")
    known = request_id if _is_id(request_id) else None
    if "method" in members:
        return Invalid(known, INVALID_REQUEST, said)
    return Invalid(None, INVALID_REQUEST, said, answers=known)


def _unreadable(code: int, said: str, head: bytes, tail: bytes) -> Invalid:
    """Return the refusal of a line of which only the ends are looked at."""
    kind, request_id = envelope(head, tail)
    match kind:
        case "call":
            return Invalid(request_id, code, said)
        case "answer":
            return Invalid(None, code, said, answers=request_id)
        case "unknown":  # with an id and nothing else: it may be one of ours, or of theirs
            return Invalid(None, code, said)


def encode(message: Message) -> bytes:
    r"""The one line, newline included, that says `message`.

    Raises:
        LineTooLong: it would have `MAX_LINE_OUT` bytes or more.
        TypeError: no JSON can say it (`orjson.JSONEncodeError`).
    """
    document: dict[str, Any] = {"jsonrpc": "2.0"}
    match message:
        case Notification(method, params):
            document["method"] = method
            document["params"] = params
        case Success(request_id, result):
            document["id"] = request_id
            document["result"] = result
        case Failure(request_id, code, text, data):
            document["id"] = request_id
            document["error"] = {"code": code, "message": text}
            if data is not None:
                document["error"]["data"] = data
        case Request(request_id, method, params):
            document["id"] = request_id
            document["method"] = method
            document["params"] = params
    line = orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
    if len(line) >= MAX_LINE_OUT:
        raise LineTooLong(len(line), MAX_LINE_OUT - 1)
    return line


_TOO_DEEP: Final = f"a message may be nested {DEPTH} levels deep at most"


def _call(members: dict[str, Any]) -> Request | Notification | Invalid | None:
    request_id, method, params = members.get("id"), members["method"], members.get("params")
    if not _is_id(request_id):
        return Invalid(None, INVALID_REQUEST, "an id is a string, an integer of 64 bits, or null")
    if members.get("jsonrpc") != "2.0":
        return Invalid(request_id, INVALID_REQUEST, 'a message says "jsonrpc": "2.0"')
    if not isinstance(method, str):
        return Invalid(request_id, INVALID_REQUEST, "a method is a string")
    if params is None:
        params = {}
    elif not isinstance(params, dict):
        if "id" in members:
            return Invalid(request_id, INVALID_PARAMS, "params are an object")
        logger.debug("ignored a notification %r whose params are no object", method[:100])
        return None
    return Request(request_id, method, params) if "id" in members else Notification(method, params)


def _answer(members: dict[str, Any]) -> Success | Failure | Invalid | None:
    if "result" not in members and "error" not in members:
        # the id, if any, may be one of ours: sent back it could hit a request of theirs
        return _refused(members, "a message has a method, a result or an error")
    request_id = _answered_id(members.get("id"))
    if request_id is None:
        logger.debug("ignored a response that answers nothing")
        return None
    if members.get("error") is None and "result" in members:  # libraries send the one that is not meant as null
        return Success(request_id, members["result"])
    if members.get("result") is not None:
        return Failure(request_id, INVALID_REQUEST, "the answer has both a result and an error")
    return _failure(request_id, members["error"])


def _answered_id(value: Any) -> RequestId:
    """Return the id that an answer names; some JSON writers make `1.0` of an integer."""
    if type(value) is float:
        return int(value) if value.is_integer() and abs(value) < 2**53 else None
    return value if _is_id(value) else None


def _failure(request_id: RequestId, error: Any) -> Failure:
    members = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    code, message = members.get("code"), members.get("message")
    return Failure(
        request_id,
        code if type(code) is int else INTERNAL_ERROR,
        message if isinstance(message, str) else "the other side failed and did not say how",
        members.get("data"),
    )


def _is_id(value: Any) -> bool:
    """Whether a request may carry `value`: no boolean, which Python takes for an integer, and no float."""
    return value is None or type(value) is str or (type(value) is int and -(2**63) <= value < 2**63)
