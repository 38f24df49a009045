"""What bytes are as a picture: of which kind, how large, and whole; or in words why they are none that a model takes.

Pure, and decodes nothing: a picture is measured by its head and its outline, so that a small file which claims a huge
picture costs nothing. The kind is what the bytes say, whatever a name or a server says of them.

Decision: no imaging library. What is needed is the outline of four formats, and a decoder in C would be handed files
of strangers in the process that holds the keys.
"""

import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from acp_bridge.limits import MIB, PICTURE, PICTURE_SIDE

HEAD: Final = 12
"""Bytes by which the kind is known."""

KINDS: Final = "PNG, JPEG, GIF or WebP"


@dataclass(frozen=True, slots=True)
class Facts:
    """A whole picture that models take."""

    mime_type: str
    width: int
    height: int


class _Broken(Exception):
    """It is not what its first bytes say."""


def kind_of(head: bytes) -> str:
    """Return the media type that the first `HEAD` bytes show, empty if it is none that models take."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return ""


def examined(data: bytes, *, whole: bool = True) -> Facts | str:
    """Return what a picture is, or in words why it is not taken: `it …`.

    Args:
        data: its bytes.
        whole: have every part of it looked at, where that takes time.
    """
    if not data:
        return "it is empty"
    kind = kind_of(data[:HEAD])
    if not kind:
        return f"it is no {KINDS}, whatever it is called"
    if len(data) > PICTURE:
        return oversized(len(data))
    try:
        width, height = _SIZES[kind](data) if whole or kind != "image/png" else _png_head(data)
    except (_Broken, struct.error, IndexError):
        return f"it is broken or cut off: it begins as {kind} and does not go on so"
    if width < 1 or height < 1:
        return f"it is broken: it has {width:,} x {height:,} pixels"
    if max(width, height) > PICTURE_SIDE:
        return f"it has {width:,} x {height:,} pixels, and at most {PICTURE_SIDE:,} on a side are taken"
    return Facts(kind, width, height)


def oversized(size: int) -> str:
    """Return the words about a picture of too many bytes."""
    return f"it has {size / MIB:,.1f} MiB, and at most {PICTURE / MIB:g} MiB are taken"


def _png_head(data: bytes) -> tuple[int, int]:
    if data[12:16] != b"IHDR":
        raise _Broken
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _png(data: bytes) -> tuple[int, int]:
    view, at, has_pixels = memoryview(data), 8, False
    while True:
        size, kind = struct.unpack_from(">I4s", data, at)
        end = at + 8 + size
        [checksum] = struct.unpack_from(">I", data, end)
        if kind[:1].isupper() and zlib.crc32(view[at + 4 : end]) != checksum:  # what a decoder cannot do without
            raise _Broken
        has_pixels = has_pixels or kind == b"IDAT"
        at = end + 4
        if kind == b"IEND":
            break
    if not has_pixels:
        raise _Broken
    return _png_head(data)


_NO_FRAMES = frozenset((0xC4, 0xC8, 0xCC))
"""JPEG's markers among those of frames that begin none."""


def _jpeg(data: bytes) -> tuple[int, int]:
    at, found = 2, (0, 0)
    while True:
        if data[at] != 0xFF:
            raise _Broken
        while data[at] == 0xFF:  # any number of them may fill the space before a marker
            at += 1
        marker = data[at]
        [size] = struct.unpack_from(">H", data, at + 1)
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 4)
            found = (width, height)
        if marker == 0xDA:  # what is drawn; no marker is looked for in it but the end
            break
        if marker in (0x00, 0x01, 0xD8, 0xD9) or 0xD0 <= marker <= 0xD7 or size < 2:
            raise _Broken
        at += 1 + size
    if found == (0, 0) or data.find(b"\xff\xd9", at) < 0:
        raise _Broken
    return found


def _gif(data: bytes) -> tuple[int, int]:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at, frames = 13 + _colors(flags), 0
    while (kind := data[at]) != 0x3B:
        if kind == 0x21:
            at += 2
        elif kind == 0x2C:
            left, top, wide, high, flags = struct.unpack_from("<HHHHB", data, at + 1)
            width, height, frames = max(width, left + wide), max(height, top + high), frames + 1
            at += 11 + _colors(flags)
        else:
            raise _Broken
        while size := data[at]:
            at += 1 + size
        at += 1
    if not frames:
        raise _Broken
    return width, height


def _colors(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _webp(data: bytes) -> tuple[int, int]:
    size, kind = struct.unpack_from("<I4x4s", data, 4)
    if size + 8 > len(data) or size < 22:
        raise _Broken
    match kind:
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L" if data[20] == 0x2F:
            [bits] = struct.unpack_from("<I", data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case _:
            raise _Broken


_SIZES: Final[Mapping[str, Callable[[bytes], tuple[int, int]]]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}
