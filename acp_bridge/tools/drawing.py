"""Text that a person reads in one line: nothing in it can move a cursor, ring, hide or turn the rest around.

Owns the escaping and the length of titles. Knows no tool.
"""

import re

TITLE = 240
"""Characters of a title."""

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\U000e0000-\U000e0fff]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}


def escaped(text: str) -> str:
    """Return `text` in one line: controls, line ends, bidi overrides and invisible characters as escapes."""
    return _UNSAFE.sub(_escape, text)


def title(words: str, subject: object = "", *, limit: int = TITLE) -> str:
    """Return `words` and `subject` as a title; a long one is cut in its middle and says so. Takes anything."""
    text = escaped(f"{words} {subject}".strip() if isinstance(subject, str) else words)
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head - 24  # room for what is left out, in words
    return f"{text[:head]} …{len(text) - head - tail} characters… {text[-tail:]}"


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    if char in _SHORT:
        return _SHORT[char]
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"
