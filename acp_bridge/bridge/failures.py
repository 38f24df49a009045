"""What went wrong, as a client reads it: a code, one sentence, and details with the remedy.

Pure. Owns which exception becomes which error; internals stay in the log on stderr. The details stand alone: some
clients show nothing else.
"""

from acp_bridge.acp import AUTH_REQUIRED, RESOURCE_NOT_FOUND, SESSION_IN_USE, UNSAVED
from acp_bridge.agent import Outcome
from acp_bridge.content import Failure
from acp_bridge.errors import (
    BarrierFailed,
    BridgeError,
    ProgramEnding,
    SessionInUse,
    SessionNotFound,
    StoreError,
    StorePoisoned,
    TurnUnderWay,
)
from acp_bridge.rpc import INTERNAL_ERROR, INVALID_REQUEST, RpcError

_SIGN_IN = "authentication required"
"""What clients look for in a message."""


def session_not_found(session_id: str) -> RpcError:
    """Return the error for an id that no stored session has, or that none can have."""
    return _no_session(session_id, "no session is stored under this id; session/list names those there are")


def session_not_open(session_id: str) -> RpcError:
    """Return the error for a session that is not open in this process: unknown, closed, or an earlier process's."""
    remedy = (
        "the client must send session/load or session/resume with its id first, also after it started the agent anew"
    )
    return _no_session(session_id, f"no such session is open in this process: {remedy}")


def _no_session(session_id: str, details: str) -> RpcError:
    return RpcError(RESOURCE_NOT_FOUND, "no such session", {"sessionId": session_id[:64], "details": details})


def no_model(problem: str) -> RpcError:
    """Return the error for a route that cannot be used."""
    return RpcError(AUTH_REQUIRED, f"{_SIGN_IN}: no model can be used", {"details": problem})


def failed(exc: BridgeError, session_id: str) -> RpcError:
    """Return what a client is told of `exc`."""
    match exc:
        case RpcError():
            return exc
        case SessionNotFound():
            return session_not_found(session_id)
        case ProgramEnding():
            return RpcError(INVALID_REQUEST, str(exc))
        case TurnUnderWay():
            details = f"{exc}: cancel the turn or wait for its end, then load the session again"
            return RpcError(INVALID_REQUEST, str(exc), {"sessionId": session_id, "details": details})
        case SessionInUse():
            code, said = SESSION_IN_USE, "the session is in use by another process"
        case BarrierFailed() | StorePoisoned():
            code, said = UNSAVED, "the change is not confirmed on disk"
        case StoreError():
            code, said = INTERNAL_ERROR, "the session could not be read or stored"
        case _:
            return RpcError(INTERNAL_ERROR, str(exc), {"sessionId": session_id[:64], "details": str(exc)})
    return RpcError(code, said, {"sessionId": session_id[:64], "details": f"{said}: {exc}"})


def turn_failed(outcome: Outcome) -> RpcError:
    """Return the error that a prompt is answered with when its turn failed."""
    failure = outcome.failure or Failure(kind="internal", message="the turn failed")
    match failure.kind:
        case "auth":
            code, said = AUTH_REQUIRED, "the model's provider refused the key"
        case "not_saved":
            code, said = UNSAVED, "the turn could not be saved"
        case "context_overflow":
            code, said = INTERNAL_ERROR, "the conversation no longer fits the model's context"
        case _:
            code, said = INTERNAL_ERROR, "the turn failed"
    details = said if failure.message == said else f"{said}: {failure.message}"
    message = f"{_SIGN_IN}: {said}" if code == AUTH_REQUIRED else said
    return RpcError(code, message, {"kind": failure.kind, "details": details})
