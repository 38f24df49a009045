"""What went wrong, as a client reads it: a code, one sentence, and details with the remedy.

Pure. Owns which exception becomes which error; internals stay in the log on stderr.
"""

from acp_bridge.acp import AUTH_REQUIRED, RESOURCE_NOT_FOUND, SESSION_IN_USE, UNSAVED
from acp_bridge.agent import Outcome
from acp_bridge.content import Failure
from acp_bridge.errors import (
    BarrierFailed,
    BridgeError,
    SessionInUse,
    SessionNotFound,
    StoreError,
    StorePoisoned,
)
from acp_bridge.rpc import INTERNAL_ERROR, INVALID_REQUEST, RpcError


def session_not_found(session_id: str) -> RpcError:
    """Return the error for an unknown, closed or malformed session id."""
    return RpcError(RESOURCE_NOT_FOUND, "no such session", {"sessionId": session_id[:64]})


def folders_in_use(session_id: str) -> RpcError:
    """Return the error for other folders in the middle of a turn."""
    details = "cancel the turn or wait for its end, then load the session again"
    return RpcError(
        INVALID_REQUEST,
        "the session's folders cannot change during a turn",
        {"sessionId": session_id, "details": details},
    )


def failed(exc: BridgeError, session_id: str) -> RpcError:
    """Return what a client is told of `exc`."""
    details = {"sessionId": session_id[:64], "details": str(exc)}
    match exc:
        case RpcError():
            return exc
        case SessionNotFound():
            return session_not_found(session_id)
        case SessionInUse():
            return RpcError(SESSION_IN_USE, "the session is in use by another process", details)
        case BarrierFailed() | StorePoisoned():
            return RpcError(UNSAVED, "the change is not confirmed on disk", details)
        case StoreError():
            return RpcError(INTERNAL_ERROR, "the session could not be read or stored", details)
        case _:
            return RpcError(INTERNAL_ERROR, str(exc), details)


def turn_failed(outcome: Outcome) -> RpcError:
    """Return the error that a prompt is answered with when its turn failed."""
    failure = outcome.failure or Failure(kind="internal", message="the turn failed")
    data = {"kind": failure.kind, "details": failure.message}
    match failure.kind:
        case "auth":
            return RpcError(AUTH_REQUIRED, "the model's provider refused the key", data)
        case "not_saved":
            return RpcError(UNSAVED, "the turn could not be saved", data)
        case "context_overflow":
            return RpcError(INTERNAL_ERROR, "the conversation no longer fits the model's context", data)
        case _:
            return RpcError(INTERNAL_ERROR, "the turn failed", data)
