"""What text may hold on its way to a log, a terminal or a person: mended and escaped; and phrases that all share.

Pure. Knows no value but text and opaque JSON. Apart from `content` because start-up needs it, and not those.
"""

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, cast

import orjson

MAX_SAFE_INTEGER = 2**53
"""Integers beyond ±2^53 lose digits in readers that keep numbers as doubles (RFC 8259 §6)."""

_SURROGATES = re.compile("([\ud800-\udbff])([\udc00-\udfff])|[\ud800-\udfff]")

_HALF = rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
_PAIR = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALVES = re.compile(rb"(?<!\\)((?:\\\\)*)((?:%b)+)" % _HALF)
"""Escapes of surrogates in JSON, side by side; behind an odd number of backslashes they would be text."""
_LONE_HALF = re.compile(rb"((?:%b)+)|%b" % (_PAIR, _HALF))

UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"  # controls, line and paragraph separators, half characters
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns text around (Unicode UAX #9)
    r"\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    r"\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # Default_Ignorable_Code_Point
    r"\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001345f"  # other Cf
    r"\u2800\U00016fe4\U0001d159"  # letters and signs to Unicode, nothing to an eye
    r"\ufdd0-\ufdef\ufffe\uffff]"  # no characters at all
)
"""What no eye sees, or what makes an eye see something else than there is."""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}

_BLANKS = re.compile(r" {10,}")
WIDE_BLANKS = re.compile(r"[^\S\n]{80,}|(?:[^\S\n\t]*\t){16,}[^\S\n]*")
"""Deeper than code is indented; a tab is as wide as several."""

_EMPTY_LINES = re.compile(r"\n(?:[ \t]*\n){10,}")
"""What would push the rest out of sight."""

_PILE_MARKS: Final = 8
"""Marks on one letter that are shown: more than any script needs, and less than what covers the lines around."""
_BEYOND_LATIN = re.compile(rf"[\u0300-\U0010ffff]{{{_PILE_MARKS + 1},}}")


def mended_text(text: str) -> str:
    """Return `text` as UTF-8 can carry it (RFC 3629 §3): pairs of surrogates joined, each lone one as U+FFFD."""
    return text if text.isascii() else _SURROGATES.sub(_whole, text)


def _whole(found: re.Match[str]) -> str:
    high, low = found.groups()
    return "\ufffd" if low is None else chr(0x10000 + ((ord(high) - 0xD800) << 10) + ord(low) - 0xDC00)


def read_json(data: bytes | str) -> Any:
    """Return the value of a JSON text that somebody else wrote, read as its author meant it.

    Half a pair of surrogates, NaN and infinity, control characters in strings and bytes that are no UTF-8 make nothing
    unreadable: they are in the value as Python's own reader has them, to be mended where it is used.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(data if isinstance(data, str) else _decoded(data), strict=False)
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc


def _decoded(data: bytes) -> str:
    try:
        return data.decode(errors="surrogatepass")  # halves as bytes, which Java and MySQL write
    except UnicodeDecodeError:
        return data.decode(errors="replace")


def mended_json(data: bytes | bytearray) -> bytes:
    """Return JSON with every lone surrogate's escape replaced by U+FFFD's; pairs stay, and so does all else.

    What JavaScript writes of a text that was cut in the middle of a character is an escape that no UTF-8 can carry
    (RFC 8259 §8.2), and a strict parser refuses the whole message for it.
    """
    return _HALVES.sub(lambda run: run[1] + _LONE_HALF.sub(lambda half: half[1] or rb"\ufffd", run[2]), data)


def escaped(text: str, *, lines: bool = False) -> str:
    """Return `text` as a person may be shown it: nothing in it moves a cursor, rings, hides, or turns the rest around.

    The one rule for everything that a person is asked or told by this program. What it escapes reads as in a string of
    Python's; what would push the rest out of sight is counted: `[1500 spaces]`.

    Args:
        text: whoever wrote it.
        lines: for text of several lines, which keeps line feeds, tabs and typographic blanks; else the result is one
            printable line.
    """
    if lines:
        text = UNSEEN.sub(lambda found: found.group() if found.group() in "\n\t" else _escape(found.group()), text)
        text = WIDE_BLANKS.sub(_counted, without_piles(text))
        return _EMPTY_LINES.sub(lambda found: f"\n[{found.group().count(chr(10)) - 1} empty lines]\n", text)
    if not (text.isascii() and text.isprintable()):
        text = UNSEEN.sub(lambda found: _escape(found.group()), text)
        text = without_piles("".join(char if char.isprintable() else _escape(char) for char in text))
    return _BLANKS.sub(_counted, text)


def without_piles(text: str) -> str:
    """Return `text` with marks that are heaped on one letter counted: they would be drawn over the lines around."""
    return text if text.isascii() else _BEYOND_LATIN.sub(lambda found: _flattened(found.group()), text)


def _flattened(text: str) -> str:
    parts: list[str] = []
    for is_mark, run in groupby(text, key=lambda char: unicodedata.category(char) in ("Mn", "Me")):
        marks = "".join(run)
        parts.append(marks if not is_mark or len(marks) <= _PILE_MARKS else f"[{len(marks)} marks]")
    return "".join(parts)


def unseen(text: str) -> Iterator[re.Match[str]]:
    """Yield what `escaped` would not show as it is in a text of several lines; tabs and line feeds aside."""
    return (found for found in UNSEEN.finditer(text) if found.group() not in "\n\t")


def shortened(text: str, most: int, mark: str = " …") -> str:
    """Return `text`, or as many of its whole words as fit: of a word that is cut in two nobody knows what it was."""
    if len(text) <= most:
        return text
    words = text[:most]
    if not text[most].isspace():
        words = words[: max(map(words.rfind, " \n\t")) + 1]
    return words.rstrip() + mark


_DESCRIBED = 500
"""Characters of somebody else's error that are passed on."""


def describe(exc: BaseException) -> str:
    """Return what `exc` is and says, in one printable line; an error that cannot even say that is named."""
    name = type(exc).__name__
    try:
        said = " ".join(str(exc).split())
    except Exception:  # noqa: BLE001  foreign code: its defect is what is being described
        return name
    return escaped(f"{name}: {shortened(said, _DESCRIBED)}" if said else name)


def quantity(count: int, noun: str, *, grouped: bool = True) -> str:
    """Return how many of a thing there are: `1 turn`, `1,200 turns`. Not `grouped`, thousands have no comma."""
    return f"{count:,} {noun}" if count == 1 else f"{count:{',' if grouped else ''}} {noun}s"


def nearest(name: str, known: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """Return which of `known` was most likely meant by `name`; None if none is as like it as `likeness` (0 to 1)."""
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1, cutoff=likeness)
    return near[0] if near else None


def suggestion(name: str, known: Sequence[str]) -> str:
    """Return the way on from a name that is none of `known`: what was meant, or all there are."""
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else f"known are {', '.join(known)}"


def _counted(found: re.Match[str]) -> str:
    return f"[{len(found.group())} spaces]"


def _escape(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def mended(value: Any, *, depth: int = 64) -> Any:
    """Return opaque JSON as the log can store it: no NaN or infinity, no integer beyond ±2^53, no lone surrogate.

    What cannot be kept as it is becomes a string or, below `depth` levels, its `repr` cut short.
    """
    match value:
        case None | bool():
            return value
        case str():
            return mended_text(value)
        case int():
            return value if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case dict() | list() | tuple() if depth == 0:
            return _cut_short(value)  # pyright: ignore[reportUnknownArgumentType]
        case dict():
            return {mended_text(str(k)): mended(v, depth=depth - 1) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case list() | tuple():
            return [mended(item, depth=depth - 1) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return mended_text(str(value))


def _cut_short(value: object) -> str:
    try:
        return mended_text(repr(value)[:200])
    except RecursionError:  # what is left is still deeper than Python itself goes
        return "…"


def is_deeper(document: Any, levels: int) -> bool:
    """Whether containers of a JSON value lie more than `levels` deep; level by level, without recursion."""
    level: list[Any] = [document]
    for _ in range(levels):
        level = [
            child for container in level for child in _children(container) if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True


def _children(container: Any) -> Iterable[Any]:
    return cast("dict[str, Any]", container).values() if type(container) is dict else container
