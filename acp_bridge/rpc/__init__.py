"""JSON-RPC 2.0 over lines: messages, codec, the peer, and the wires it speaks through.

Owns framing, ids, the answering of every request exactly once, cancellation of requests, order and back-pressure of
what is sent, and the standard descriptors. Knows no ACP: methods are strings, params and results are opaque JSON.

Decision: messages are `NamedTuple`s. A frozen dataclass with slots costs half a millisecond to define, five times as
much, and `initialize` is answered with this package loaded; they are also what is made most often.

Decision: the input's end does not end requests. `serve` returns, the tasks live on in `async with peer:`, and the host
ends them in its order. A broken output ends the input, so there is one such event and not two.

Decision: threads and blocking calls, not the event loop's streams. They work on pipes, files, terminals and
`/dev/null` alike, on asyncio and trio, leave the descriptors' flags alone, which other processes share, and lose
nothing at exit.

Decision: an object that has no method, no result and no error is answered with id null, even if it has an id. It may be
a malformed answer, and then the id is one of ours: sent back it could hit a request of the other side. A malformed
call is answered with its id.

Decision: a transport is asked for bytes, not for messages, so that what goes through memory is decoded as strictly as
what comes through a pipe.
"""

from .codec import MAX_LINE_OUT, LineDecoder, encode
from .memory import MemoryWire
from .messages import (
    CANCEL_REQUEST,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    Disconnected,
    Failure,
    Invalid,
    LineTooLong,
    Message,
    Notification,
    Request,
    RequestId,
    RpcError,
    Success,
)
from .peer import Admitted, Connection, Handler, Peer, Transport
from .stdio import Wire, open_stdio

__all__ = [
    "CANCEL_REQUEST",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "MAX_LINE_OUT",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "REQUEST_CANCELLED",
    "Admitted",
    "Connection",
    "Disconnected",
    "Failure",
    "Handler",
    "Invalid",
    "LineDecoder",
    "LineTooLong",
    "MemoryWire",
    "Message",
    "Notification",
    "Peer",
    "Request",
    "RequestId",
    "RpcError",
    "Success",
    "Transport",
    "Wire",
    "encode",
    "open_stdio",
]
