"""Titles and quotes: what a person reads of a call. Owns how long a title is and how text is fenced. Knows no tool."""

from acp_bridge.text import escaped

TITLE = 240
"""Characters of a title."""

_EXAMINED = 100_000
"""Characters that are looked at: a model may send megabytes, and titles are drawn on the event loop."""


def title(words: str, subject: object = "", *, limit: int = TITLE) -> str:
    """Return `words` and `subject` as a title; a long one is cut in its middle and says so. Takes anything."""
    whole = f"{words} {subject}".strip() if isinstance(subject, str) else words
    text = escaped(whole) if len(whole) <= _EXAMINED else None
    if text is not None and len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head - 28  # room for what is left out, in words
    first = text or escaped(whole[: _EXAMINED // 2])
    last = text or escaped(whole[-_EXAMINED // 2 :])
    return first[:head] + f" …{max(len(text or whole) - head - tail, 1)} characters… " + last[-tail:]


def quoted(text: str, language: str = "") -> str:
    """Return text of several lines, escaped, in a fence that it cannot close: editors render Markdown."""
    text = escaped(text, lines=True)
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"
