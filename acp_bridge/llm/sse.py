"""Server-sent events as data: bytes in, payloads out, whatever the network cut them into.

Sans-IO. Owns lines, comments and joining; knows no provider. Bytes are decoded only once an event is whole, so a code
point that was cut in two is right again.
"""

from dataclasses import dataclass, field

from acp_bridge.limits import ERROR_BODY, EVENT


class LineTooLong(Exception):
    """A line grew beyond `limits.EVENT`; it is not held any longer."""


@dataclass(slots=True)
class SseDecoder:
    """Decodes one stream.

    Attributes:
        junk: the beginning of what was no event, e.g. an error page or a JSON body that came instead of a stream.
    """

    junk: bytearray = field(default_factory=bytearray)
    _line: bytearray = field(default_factory=bytearray)
    _data: list[bytes] = field(default_factory=list[bytes])

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take more bytes and return the payloads that they complete.

        Raises:
            LineTooLong: the line under way is longer than any answer.
        """
        if b"\n" not in chunk:  # a gigantic line is gathered in place, not copied for each chunk
            self._gather(chunk)
            return []
        payloads: list[bytes] = []
        lines = chunk.split(b"\n")
        if self._line:
            self._gather(lines[0])
            lines[0] = bytes(self._line)
            self._line.clear()
        for line in lines[:-1]:
            self._take(line, payloads)
        self._gather(lines[-1])
        return payloads

    def end(self) -> list[bytes]:
        """Return the payload that was whole but for its empty line."""
        payloads: list[bytes] = []
        if self._line:
            self._take(bytes(self._line), payloads)
            self._line.clear()
        self._take(b"", payloads)
        return payloads

    def _gather(self, piece: bytes) -> None:
        self._line += piece
        if len(self._line) > EVENT:
            self._line.clear()
            raise LineTooLong

    def _take(self, line: bytes, payloads: list[bytes]) -> None:
        if line.endswith(b"\r"):
            line = line[:-1]
        if line.startswith((b"data:", b"error:")):  # `error:` is how older llama.cpp servers tell one
            value = line.partition(b":")[2]
            self._data.append(value.removeprefix(b" "))
        elif not line:
            if self._data:
                payloads.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data.clear()
        elif not line.startswith((b":", b"event:", b"id:", b"retry:")) and len(self.junk) < ERROR_BODY:
            self.junk += line[:ERROR_BODY] + b"\n"
