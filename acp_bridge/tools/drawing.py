"""Text that a person reads in one line: nothing in it can move a cursor, ring, hide or turn the rest around.

Owns the escaping and the length of titles. Knows no tool.
"""

TITLE = 240
"""Characters of a title."""

_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
)  # letters and marks to Unicode, nothing to an eye
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}


def escaped(text: str) -> str:
    """Return `text` in one line: controls, line ends, bidi overrides and invisible characters as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char.isprintable() and char not in _BLANK else _escape(char) for char in text)


def title(words: str, subject: object = "", *, limit: int = TITLE) -> str:
    """Return `words` and `subject` as a title; a long one is cut in its middle and says so. Takes anything."""
    text = f"{words} {subject}".strip() if isinstance(subject, str) else words
    if len(text) <= limit and len(text := escaped(text)) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head - 28  # room for what is left out, in words
    cut = f" …{max(len(text) - head - tail, 1)} characters… "
    return escaped(text[: head * 2])[:head] + cut + escaped(text[-tail * 2 :])[-tail:]


def _escape(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
