"""How much is taken of what comes in: one table for every bound on foreign data, and what becomes of the rest.

Owns the figures and the words of the README's table of limits. Enforces none: whoever takes the data does, at its own
border, with a message that names the bound. Knows no package.

A bound is a plain integer here, so that hot paths pay nothing for it. `TABLE` says each one to a reader; a test holds
the README to it, and every bound is tested at its edge where it is enforced.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

KIB: Final = 1024
MIB: Final = 1024 * KIB

# --- the client ---
LINE: Final = 32 * MIB
"""Bytes of one line from the client."""
DEPTH: Final = 128
"""Levels of nesting of one message."""

# --- the model's endpoint ---
EVENT: Final = 32 * MIB
"""Bytes of one event of a streamed answer."""
VALUES: Final = 1_000_000
"""Values in one event: each takes far more memory than its bytes."""
EVENT_DEPTH: Final = 250
"""Levels of nesting of one event, which is as deep as the log's own writer takes."""
ERROR_BODY: Final = 64 * KIB
"""Bytes that are read of an answer that is an error."""
ANSWER: Final = 16 * MIB
"""Bytes of text, thoughts and arguments in one answer."""
CALLS: Final = 128
"""Tool calls in one answer."""
KEPT: Final = 4 * MIB
"""Bytes of an answer that mean nothing to us and go back to whoever gave them, e.g. signatures."""
BLOCKS: Final = 10_000
"""Changes between text and thoughts in one answer: each begins a block, which costs more than its text."""

# --- the project ---
NOTES: Final = 32_000
"""Characters of one file of notes for agents."""
TEXT_FILE: Final = 10 * MIB
"""Bytes of a text file that is read or written."""

PATH: Final = 4096
"""Characters of a path that a model names, as most systems have it; each part of it is looked at on the disk."""
DRAWN: Final = 500_000
"""Characters of one change of a file, before and after, that are logged and shown."""

# --- pictures ---
PICTURE: Final = 3840 * KIB
"""Bytes of one picture: 5 MiB in base64, which is what the narrowest provider takes."""
PICTURE_SIDE: Final = 8000
"""Pixels of its longer side; likewise."""
RESULT_PICTURES: Final = 8
"""Pictures of one result."""
RESULT_PICTURE_BYTES: Final = 8 * MIB
"""Bytes of all of them."""
SENT_PICTURES: Final = 20
"""Pictures of one request: of more, the narrowest provider takes only small ones."""
SENT_PICTURE_BYTES: Final = 16 * MIB
"""Bytes of all of them, which is 22 MB in base64 where a request may have 32."""

# --- commands and results ---
COMMAND: Final = 64_000
"""Characters of a command as it is shown: who is asked sees all of it."""
OUTPUT_HEAD: Final = 32 * KIB
"""Bytes kept of the beginning of a command's output."""
OUTPUT_TAIL: Final = 32 * KIB
"""Bytes kept of its end."""
SPILL: Final = 64 * MIB
"""Bytes of a command's output that are kept in a file."""
RESULT: Final = 100_000
"""Characters of one block of a result that the model is given."""

NESTED_CALLS: Final = 8
"""Levels of tools that call tools."""

# --- MCP servers ---
SERVER_LINE: Final = 16 * MIB
"""Bytes of one message of a server."""
SERVER_TOOLS: Final = 64
"""Tools of one server."""
SESSION_TOOLS: Final = 128
"""Tools of all servers of a session."""

Unit: TypeAlias = Literal["bytes", "characters", "levels", "calls", "changes", "values", "tools", "pictures", "pixels"]


@dataclass(frozen=True, slots=True)
class Limit:
    """One row for a reader: what is bounded, how far, and what becomes of more."""

    what: str
    value: int
    unit: Unit
    beyond: str

    def __str__(self) -> str:
        """Return the row as the README has it."""
        return f"| {self.what} | {_in_words(self.value, self.unit)} | {self.beyond} |"


def _in_words(value: int, unit: Unit) -> str:
    if unit != "bytes":
        return f"{value:,} {unit}"
    return f"{value // MIB} MiB" if value % MIB == 0 else f"{value // KIB} KiB"


TABLE: Final = (
    Limit("a line from the client", LINE, "bytes", "refused, never held; the connection goes on"),
    Limit("nesting of a message", DEPTH, "levels", "refused"),
    Limit("an event of a model's answer", EVENT, "bytes", "the answer counts as broken off"),
    Limit("values in an event of a model's answer", VALUES, "values", "the answer counts as broken off"),
    Limit("nesting of an event of a model's answer", EVENT_DEPTH, "levels", "the answer counts as broken off"),
    Limit("text, thoughts and arguments of an answer", ANSWER, "bytes", "the answer counts as broken off"),
    Limit("tool calls in an answer", CALLS, "calls", "the answer counts as broken off"),
    Limit("what a provider wants back with an answer", KEPT, "bytes", "the answer counts as broken off"),
    Limit("changes between text and thoughts in an answer", BLOCKS, "changes", "the answer counts as broken off"),
    Limit("the body of an endpoint's error", ERROR_BODY, "bytes", "the rest is not read"),
    Limit("a file of notes (`AGENTS.md`)", NOTES, "characters", "cut, and the model is told"),
    Limit("a text file", TEXT_FILE, "bytes", "refused, with other ways named"),
    Limit("a path that a model names", PATH, "characters", "refused"),
    Limit("a command", COMMAND, "characters", "refused, with another way named"),
    Limit("what differs in a change of a file", DRAWN, "characters", "neither logged nor shown; its place is said"),
    Limit("a command's output, its beginning", OUTPUT_HEAD, "bytes", "the middle is left out and counted"),
    Limit("a command's output, its end", OUTPUT_TAIL, "bytes", "the middle is left out and counted"),
    Limit("a command's whole output in a file", SPILL, "bytes", "the file ends there, and the result says so"),
    Limit("a block of a result", RESULT, "characters", "cut in its middle, and says so"),
    Limit("a picture of a result", PICTURE, "bytes", "left out, and the model is told why"),
    Limit("a side of a picture of a result", PICTURE_SIDE, "pixels", "left out, and the model is told why"),
    Limit("pictures of a result", RESULT_PICTURES, "pictures", "the rest is named as left out"),
    Limit("all pictures of a result", RESULT_PICTURE_BYTES, "bytes", "the rest is named as left out"),
    Limit("pictures that a request holds", SENT_PICTURES, "pictures", "earlier ones are told of in words"),
    Limit("all pictures that a request holds", SENT_PICTURE_BYTES, "bytes", "earlier ones are told of in words"),
    Limit("tools that call tools", NESTED_CALLS, "levels", "the inner call is refused"),
    Limit("a message of an MCP server", SERVER_LINE, "bytes", "dropped; its call fails"),
    Limit("tools of an MCP server", SERVER_TOOLS, "tools", "the rest is named as left out"),
    Limit("MCP tools of a session", SESSION_TOOLS, "tools", "the rest is named as left out"),
)
