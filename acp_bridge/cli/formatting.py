"""Words and figures for people: ages, sizes, counts, and text that cannot lead a terminal astray.

Pure. Knows no stream.
"""

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from acp_bridge.errors import ConfigError
from acp_bridge.text import UNSEEN, nearest, without_piles

_KEPT = "\n\t\u200c\u200d\ufe0e\ufe0f"
"""What text of several lines keeps: joiners and the forms of emoji are in much of what models and people write."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_KILO = 1000
_UNITS = ("B", "kB", "MB", "GB", "TB")


def clean(text: str) -> str:
    """Return `text` with what a terminal would obey, what no eye sees and what turns its order round made visible."""
    return without_piles(UNSEEN.sub(lambda found: _visible(found[0]), text.replace("\r\n", "\n")))


def _visible(char: str) -> str:
    code = ord(char)
    return char if char in _KEPT else f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def line_of(text: str) -> str:
    """Return `text` as one clean line."""
    return clean(" ".join(text.split()))


def size(count: int) -> str:
    """Return a number of bytes in three digits or so."""
    if count < _KILO:
        return f"{count} B"
    power = min(int(math.log10(count)) // 3, len(_UNITS) - 1)
    amount = count / _KILO**power
    return f"{amount:.1f} {_UNITS[power]}" if amount < 100 else f"{amount:.0f} {_UNITS[power]}"


def local(time_ms: int) -> datetime:
    """Return a record's time where the reader is."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).astimezone()
    except (OverflowError, ValueError, OSError):  # a clock that was wrong by centuries
        return datetime.fromtimestamp(0, UTC).astimezone()


def stamp(time_ms: int) -> str:
    """Return a record's time for a program: RFC 3339, UTC."""
    return local(time_ms).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def minute(time_ms: int) -> str:
    """Return a record's time for a reader."""
    return local(time_ms).strftime("%Y-%m-%d %H:%M")


def age(time_ms: int, now_ms: int) -> str:
    """Return how long ago a time is, as one would say it."""
    seconds = (now_ms - time_ms) // 1000
    if seconds < _MINUTE:
        return "just now" if seconds >= -_MINUTE else local(time_ms).strftime("%Y-%m-%d")
    if seconds < _HOUR:
        return f"{seconds // _MINUTE} min ago"
    if seconds < _DAY:
        return f"{seconds // _HOUR} h ago"
    if seconds < 7 * _DAY:
        days = seconds // _DAY
        return "yesterday" if days == 1 else f"{days} days ago"
    return local(time_ms).strftime("%Y-%m-%d")


def short_path(path: str) -> str:
    """Return a path with the reader's home as `~`."""
    home = str(Path.home())
    if path == home or path.startswith(home.rstrip("/") + "/"):
        path = "~" + path[len(home.rstrip("/")) :]
    return clean(path)


def unknown_name(what: str, given: str, known: Iterable[str], *, remedy: str) -> ConfigError:
    """Return the error for a name that is none of `known`: it names the nearest and the remedy."""
    near = nearest(given, known, likeness=0.5)
    hint = f"did you mean {near!r}? " if near else ""
    return ConfigError(f"there is no {what} {given!r}; {hint}{remedy}")
