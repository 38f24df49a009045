"""How long what a client is shown may be, so that its line is one that every client takes and none is dropped.

Pure. Owns the measures. Knows no update's shape.
"""

from collections.abc import Iterator
from typing import Final

import orjson

MOST_BYTES: Final = 4 * 1024 * 1024
"""Of the text in one update, as JSON; half of what a line may have."""

_PIECE_CHARS: Final = MOST_BYTES // 6  # no character takes more than six bytes (`\u0000`)
_SHORT_CHARS: Final = 64 * 1024


def size_in_json(text: str) -> int:
    """Return how many bytes `text` has in JSON; for a short one, at most."""
    return 6 * len(text) if len(text) <= _PIECE_CHARS else len(orjson.dumps(text))


def pieces(text: str) -> Iterator[str]:
    """Yield `text`, whole if it is not too long."""
    if size_in_json(text) <= MOST_BYTES:
        yield text
        return
    for start in range(0, len(text), _PIECE_CHARS):
        yield text[start : start + _PIECE_CHARS]


def bounded(text: str, most_bytes: int = MOST_BYTES) -> str:
    """Return `text`, or its beginning and how much of it is not shown."""
    return text if size_in_json(text) <= most_bytes else _cut(text, most_bytes // 6)


def short(text: str) -> str:
    """Return the text of a member beside the content: a name, an address."""
    return text if len(text) <= _SHORT_CHARS else _cut(text, _SHORT_CHARS)


def _cut(text: str, chars: int) -> str:
    return f"{text[:chars]}\n[… {len(text) - chars} more characters are not shown]"
