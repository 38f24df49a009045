"""The exception tree. The class says what happened; the message names the thing and the remedy.

BridgeError
├── ConfigError              a setting is unknown, malformed or impossible
├── ProgramEnding            asked for too late: what it would give would be taken back at once
├── TurnUnderWay             a session cannot be opened otherwise while a turn runs in it
├── IllegalEvent             an event that the log's nesting forbids; a defect of the program
├── StoreError               a session cannot be stored or read; carries its id and, if known, a path
│   ├── SessionNotFound      no such session, or a malformed id (the two are not told apart)
│   ├── SessionInUse         another process, or this one, holds the session's lock
│   ├── StoreCorrupt         damage below what is known durable; carries file, line and offset
│   ├── StoreTooNew          the log's format is newer than this program
│   ├── StoreUnsupported     an event type that this program does not know and may not skip
│   ├── StorePoisoned        a write or sync failed; nothing on that file may be trusted or retried
│   ├── StoreReplaced        the log was replaced, unlinked or appended to by somebody else
│   └── StoreBusy            a write of this session is still in a thread; it cannot be closed or deleted now
├── BarrierFailed            the checkpoint policy could not pass a barrier; nothing behind it may happen
│   └── BarrierTimeout       … because the deadline passed; the write itself may still succeed
└── ToolError                a tool's refusal or failure, written for the model that called it
"""

from typing import Final

PART_FAILURES: Final = (Exception, SystemExit)
"""What somebody else's part may raise as a failure of its own.

`sys.exit` is among it: parsers of command lines refuse arguments by it, and it would end all sessions. An interrupt is
the user's, and whatever else is no `Exception` is nobody's to stop.
"""


class BridgeError(Exception):
    """The root of what this program raises by intention."""


class ConfigError(BridgeError):
    """A setting is unknown, malformed or impossible; the message names it and the remedy."""


class ProgramEnding(BridgeError):
    """The program is ending, and opens no session any more."""


class TurnUnderWay(BridgeError):
    """A session is open with other folders or servers, which cannot change in the middle of a turn."""


class IllegalEvent(BridgeError):
    """An event that the log's nesting forbids where it was offered, or that no JSON can carry; the log is unchanged."""


class StoreError(BridgeError):
    """A session cannot be stored or read.

    Attributes:
        session_id: the session concerned, `""` if the store as a whole is.
        path: the file concerned, if one is.
    """

    def __init__(self, message: str, *, session_id: str = "", path: str | None = None) -> None:
        super().__init__(message)
        self.session_id = session_id
        self.path = path


class SessionNotFound(StoreError):
    """No session has this id; a malformed id is answered alike."""


class SessionInUse(StoreError):
    """The session's lock is held; `holder` says by whom, in words for a person."""

    def __init__(self, message: str, *, session_id: str, holder: str = "") -> None:
        super().__init__(message, session_id=session_id)
        self.holder = holder


class StoreCorrupt(StoreError):
    """The log is damaged below what was known durable. Nothing was changed.

    Attributes:
        line: 1-based number of the damaged line.
        offset: its first byte.
    """

    def __init__(self, message: str, *, session_id: str, path: str, line: int, offset: int) -> None:
        super().__init__(message, session_id=session_id, path=path)
        self.line = line
        self.offset = offset


class StoreTooNew(StoreError):
    """The log was written in a format newer than this program knows: upgrade."""


class StoreUnsupported(StoreError):
    """The log holds an event type that this program does not know and that is not marked ignorable."""


class StorePoisoned(StoreError):
    """A write or sync failed. Every later write to that file is refused until it is salvaged."""


class StoreReplaced(StoreError):
    """The log was replaced, unlinked or appended to by somebody else; it must be loaded again."""


class StoreBusy(StoreError):
    """A write, sync or rewrite of the session is in a thread; it cannot be closed or deleted now."""


class BarrierFailed(BridgeError):
    """A barrier was not passed: the events before it may not be on disk, so nothing behind it may happen.

    Attributes:
        barrier: its kind, e.g. `"tool"`.
    """

    def __init__(self, message: str, *, barrier: str) -> None:
        super().__init__(message)
        self.barrier = barrier


class BarrierTimeout(BarrierFailed):
    """The deadline passed while the write was under way. The write goes on; the next barrier waits for it."""


class ToolError(BridgeError):
    """What a tool tells the model about its refusal or failure: what happened, to which thing, what to do next.

    Attributes:
        code: one of the result codes, e.g. `"FAILED"`.
    """

    def __init__(self, message: str, *, code: str = "FAILED") -> None:
        super().__init__(message)
        self.code = code
