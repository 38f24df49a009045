"""Small true pictures of the four kinds that models take, of any claimed size, made from nothing."""

import struct
import zlib
from functools import cache


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@cache
def png(width: int = 3, height: int = 2, *, padding: int = 0) -> bytes:
    """Return a PNG; its pixels are those of the claimed size up to 64 KiB, `padding` bytes lie in a text chunk."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = (b"\0" + b"\x7f" * min(width, 65535)) * min(height, max(1, 65536 // (width + 1)))
    more = _chunk(b"tEXt", b"c\0" + b"x" * padding) if padding else b""
    body = _chunk(b"IHDR", head) + more + _chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + body + _chunk(b"IEND", b"")


def png_of_size(size: int) -> bytes:
    """Return a PNG of exactly so many bytes."""
    return png(padding=size - len(png(padding=1)) + 1)


def jpeg(width: int = 3, height: int = 2, *, progressive: bool = False, exif: bool = True) -> bytes:
    """Return the outline of a JPEG: what a decoder would draw of it is grey."""
    frame = struct.pack(">BHHB", 8, height, width, 1) + b"\1\x11\0"
    parts = [b"\xff\xd8"]
    if exif:  # its thumbnail is a JPEG of another size
        inner = b"Exif\0\0" + b"\xff\xd8\xff\xc0\0\x0b\x08\0\x01\0\x01\1\1\x11\0\xff\xd9"
        parts.append(b"\xff\xe1" + struct.pack(">H", len(inner) + 2) + inner)
    parts.append((b"\xff\xff\xc2" if progressive else b"\xff\xc0") + struct.pack(">H", len(frame) + 2) + frame)
    parts.append(b"\xff\xda\0\x08\1\1\0\0\x3f\0" + b"\x2a\xff\0\x2a" + b"\xff\xd9")
    return b"".join(parts)


def gif(width: int = 3, height: int = 2, *, frames: int = 1) -> bytes:
    """Return a GIF, with a table of colours and an extension before each frame."""
    frame = b"\x21\xf9\x04\0\0\0\0\0" + b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\2\2\x44\1\0"
    return (
        b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff" + frame * frames + b"\x3b"
    )


def webp(width: int = 3, height: int = 2, *, kind: str = "VP8 ") -> bytes:
    """Return the outline of a WebP: lossy (`VP8 `), lossless (`VP8L`) or extended (`VP8X`)."""
    match kind:
        case "VP8 ":
            body = b"\x10\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height) + b"\0" * 10
        case "VP8L":
            body = b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + b"\0" * 11
        case _:
            body = b"\x10\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little") + b"\0" * 6
    chunk = kind.encode() + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", len(chunk) + 4) + b"WEBP" + chunk
