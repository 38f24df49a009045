"""The answer to `initialize` before there is an event loop, where the client has asked by then; or the refusal.

Owns the first look at the input and nothing after it. An editor writes `initialize` as soon as it has started a
process, so the line lies in the pipe while this program still imports its event loop; this module needs only orjson and
the protocol's first shapes, and answers it then. Knows no session.

Decision: it takes what is plain and leaves the rest. A line that is not there yet, is not whole, or is anything but
one well-formed `initialize` is not touched: every byte that was read goes on to the wire, in its place, and the peer
judges it as if nobody had looked. So there is one codec for all that is odd, and no second reader of the input: this
one has ended before the wire's thread begins.
"""

import os
import select
import time
from typing import Any, Final, NamedTuple, cast

import orjson

from acp_bridge.acp import AuthMethod, ClientCapabilities, Method, initialized
from acp_bridge.descriptors import Claimed

_FIRST_BYTES: Final = 64 * 1024
"""What one look takes; a pipe holds no more."""
_REFUSAL_S: Final = 2.0
"""How long a program that cannot start waits for whom to tell."""
_INTERNAL_ERROR: Final = -32603
_DEEPEST: Final = 100
"""Openings of a nested value, in or out of texts, from which on the codec is to judge the line."""


class Begun(NamedTuple):
    """What the first look came to.

    Attributes:
        client: the client's capabilities, if `initialize` is answered; None if it is still to come.
        read: what was read and is for the wire, before all that follows.
    """

    client: ClientCapabilities | None = None
    read: bytes = b""


def begin(claimed: Claimed, *, program_version: str, auth_methods: tuple[AuthMethod, ...]) -> Begun:
    """Answer `initialize` if it is there. Waits for nothing."""
    try:
        ready, writable, _ = select.select([claimed.source], [claimed.sink], [], 0)
        block = os.read(claimed.source, _FIRST_BYTES) if ready and writable else b""
    except (OSError, ValueError):  # whatever is wrong with a descriptor, its thread will find and say
        return Begun()
    if not block:
        return Begun()  # nothing yet, or the end of the input, which stays there to be read again
    line, newline, rest = block.partition(b"\n")
    answered = _answered(line, program_version, auth_methods) if newline else None
    if answered is None:
        return Begun(read=block)
    client, answer = answered
    return Begun(client, rest) if _written(claimed.sink, answer) else Begun(read=block)


def refuse(claimed: Claimed, why: str) -> None:
    """Answer the first request with an error that says why there is no agent: of stderr, an editor's user sees nothing.

    Waits a moment for the request, since the process ends then, and tells nobody if none comes.
    """
    if os.isatty(claimed.source):
        return
    deadline = time.monotonic() + _REFUSAL_S
    held = b""
    while b"\n" not in held and len(held) < _FIRST_BYTES:
        try:
            ready, _, _ = select.select([claimed.source], [], [], max(0.0, deadline - time.monotonic()))
            block = os.read(claimed.source, _FIRST_BYTES) if ready else b""
        except (OSError, ValueError):
            return
        if not block:
            return
        held += block
    line, _, _ = held.partition(b"\n")
    try:
        request = _plain(orjson.loads(line)) if line.count(b"[") + line.count(b"{") <= _DEEPEST else None
    except ValueError:
        return
    if request is not None:
        error = {"code": _INTERNAL_ERROR, "message": f"acp-bridge cannot start: {why}"}
        _written(claimed.sink, orjson.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}) + b"\n")


def _answered(
    line: bytes, program_version: str, auth_methods: tuple[AuthMethod, ...]
) -> tuple[ClientCapabilities, bytes] | None:
    """Return the client's capabilities and the answer's line, if the line is a plain `initialize`."""
    if line.count(b"[") + line.count(b"{") > _DEEPEST:
        return None
    try:
        request = _plain(orjson.loads(line))
        if request is None:
            return None
        client, result = initialized(request["params"], program_version=program_version, auth_methods=auth_methods)
    except ValueError:  # no JSON, or a version that is none
        return None
    return client, orjson.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}) + b"\n"


def _plain(document: Any) -> dict[str, Any] | None:
    """Return an `initialize` that no rule of JSON-RPC has anything to say about; None for all else."""
    if type(document) is not dict:
        return None
    request = cast("dict[str, Any]", document)
    known = request.keys() == {"jsonrpc", "id", "method", "params"}
    if not known or request["jsonrpc"] != "2.0" or request["method"] != Method.INITIALIZE:
        return None
    return request if type(request["id"]) in (int, str) and type(request["params"]) is dict else None


def _written(sink: int, line: bytes) -> bool:
    """Write a line that a pipe takes whole (pipe(7): up to PIPE_BUF at once); whether the other side has it."""
    try:
        while line:
            line = line[os.write(sink, line) :]
    except BlockingIOError:
        select.select([], [sink], [])
        return _written(sink, line)
    except OSError:  # the client has gone; the wire's own thread will say so
        return False
    return True
