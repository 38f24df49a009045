"""The Agent Client Protocol, wire version 1, as data: what comes in, what goes out, and which method is which.

Owns names, shapes and their checks. Knows no behaviour, no session and no transport. This face holds what `initialize`
needs and nothing heavier; `acp_bridge.acp.inbound` is imported when the first session is spoken of.

Decision: outbound messages are plain dicts from typed functions. Building models for them costs some twenty times as
much on the path that every streamed chunk takes.
"""

from .capabilities import (
    LATEST_VERSION,
    SUPPORTED_VERSIONS,
    AuthMethod,
    ClientCapabilities,
    auth_methods,
    initialize_result,
    initialized,
    negotiated_version,
    parse_client,
)
from .methods import AUTH_REQUIRED, CONTINUE, RESOURCE_NOT_FOUND, SESSION_IN_USE, UNSAVED, Method

__all__ = [
    "AUTH_REQUIRED",
    "CONTINUE",
    "LATEST_VERSION",
    "RESOURCE_NOT_FOUND",
    "SESSION_IN_USE",
    "SUPPORTED_VERSIONS",
    "UNSAVED",
    "AuthMethod",
    "ClientCapabilities",
    "Method",
    "auth_methods",
    "initialize_result",
    "initialized",
    "negotiated_version",
    "parse_client",
]
