"""The methods an agent receives and sends, and the error codes beyond JSON-RPC's own.

Knows no params. Protocol: methods and error codes of schema v1.
"""

from typing import Final

AUTH_REQUIRED: Final = -32000
RESOURCE_NOT_FOUND: Final = -32002
SESSION_IN_USE: Final = -31001
"""Our own, outside the ranges that the protocol keeps: another process holds the session."""
UNSAVED: Final = -31002
"""Our own: a change or a turn could not be confirmed on disk."""


class Method:
    """Method names, as they stand on the wire."""

    INITIALIZE: Final = "initialize"
    AUTHENTICATE: Final = "authenticate"
    SESSION_NEW: Final = "session/new"
    SESSION_LOAD: Final = "session/load"
    SESSION_RESUME: Final = "session/resume"
    SESSION_LIST: Final = "session/list"
    SESSION_DELETE: Final = "session/delete"
    SESSION_CLOSE: Final = "session/close"
    SESSION_PROMPT: Final = "session/prompt"
    SESSION_CANCEL: Final = "session/cancel"
    SESSION_SET_MODE: Final = "session/set_mode"
    SESSION_SET_CONFIG_OPTION: Final = "session/set_config_option"
    SESSION_UPDATE: Final = "session/update"
    REQUEST_PERMISSION: Final = "session/request_permission"
    ELICITATION_CREATE: Final = "elicitation/create"
    FS_READ_TEXT_FILE: Final = "fs/read_text_file"
    FS_WRITE_TEXT_FILE: Final = "fs/write_text_file"


CONTINUE: Final = "_acp_bridge/session/continue"
"""Extension method: go on with an interrupted turn, once, without a new message of the user. `{sessionId}`."""
