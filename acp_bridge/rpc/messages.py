"""The four kinds of JSON-RPC 2.0 message, and the errors that an answer may carry. Knows no transport and no method."""

from typing import Any, NamedTuple, TypeAlias

from acp_bridge.errors import BridgeError

RequestId: TypeAlias = int | str | None
"""An integer of 64 bits, a string, or null: a request may carry any of them and gets the same one back."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800

CANCEL_REQUEST = "$/cancel_request"
"""The notification by which either side takes back a request; its params name the `requestId`."""


class Request(NamedTuple):
    """A call that must be answered exactly once."""

    id: RequestId
    method: str
    params: Any


class Notification(NamedTuple):
    """A call that is never answered, not even with an error."""

    method: str
    params: Any


class Success(NamedTuple):
    """The answer of a request that went well; `None` is a result like any other."""

    id: RequestId
    result: Any


class Failure(NamedTuple):
    """The answer of a request that failed; `data` is left out of the line when it is `None`."""

    id: RequestId
    code: int
    message: str
    data: Any = None


Message: TypeAlias = Request | Notification | Success | Failure


class Invalid(NamedTuple):
    """What stands in for a line that is no message: the error to answer it with.

    Attributes:
        id: of the request that it was; null where it cannot be told (JSON-RPC 2.0 §5.1).
        answers: of our request that it was to answer, if it was an answer: who waits for it is told.
    """

    id: RequestId
    code: int
    message: str
    answers: RequestId = None


class RpcError(BridgeError):
    """An error as JSON-RPC knows it: raised by a handler it is the answer, raised by a request it is what came back.

    Attributes:
        code: one of the codes above, or the protocol's own.
        message: one short sentence for the other side, with no internals.
        data: opaque JSON, or `None`.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class LineTooLong(RpcError):
    """A message that would make a longer line than clients are known to take; nothing of it was sent."""

    def __init__(self, size: int, most: int) -> None:
        super().__init__(INTERNAL_ERROR, f"the message has {size} bytes, and a line may have {most} at most")


class Disconnected(RpcError):
    """The other side has gone: a request that waits for its answer, or is made now, can get none."""

    def __init__(self) -> None:
        super().__init__(INTERNAL_ERROR, "the other side has closed the connection")
