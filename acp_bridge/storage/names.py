"""Which session ids may touch a path. Knows no files."""

import re

from acp_bridge.errors import SessionNotFound

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RESERVED = ("tmp-", "trash-")


def is_session_id(name: str) -> bool:
    """Whether `name` can be a session's: it cannot leave the folder, nor mean a folder that is built or removed."""
    return _ID.fullmatch(name) is not None and not name.startswith(_RESERVED)


def checked(session_id: str) -> str:
    """Return `session_id`.

    Raises:
        SessionNotFound: it is malformed; answered like an unknown one, so that a probe learns nothing.
    """
    if not is_session_id(session_id):
        raise not_found(session_id)
    return session_id


def not_found(session_id: str) -> SessionNotFound:
    """Return the error for an id that no session has."""
    return SessionNotFound(f"no session {session_id[:64]!r}", session_id=session_id[:64])
