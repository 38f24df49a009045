"""Server-sent events as data: bytes in, payloads out, whatever the network cut them into.

Sans-IO. Owns lines, comments, joining, and how an error is told as an event; knows no provider. Bytes are decoded only
once an event is whole, so a code point that was cut in two is right again.
"""

from dataclasses import dataclass, field
from typing import NoReturn

import orjson

from acp_bridge.limits import ERROR_BODY, EVENT
from acp_bridge.lines import LineSplitter, LongLine
from acp_bridge.text import mended_text, read_json

_BOM = b"\xef\xbb\xbf"
_FIELDS = (b"data:", b"error:")
"""What begins a line that is heard; `error:` is how llama.cpp tells one."""
_WHOLE, _NEXT = (b"}\n", b"}\r\n", b"[DONE]\n"), (b"{", b"[DONE]")
_KEPT = 16
_SILENT = (b":", b"event:", b"id:", b"retry:")
_BARE = (b"data", b"event", b"id", b"retry")
"""Lines that are neither data nor junk: comments, other fields, and fields without a value."""


class EventTooLarge(Exception):
    """An event grew beyond `limits.EVENT`; it is not held any longer."""


class NoEvents(Exception):
    """More than `limits.ERROR_BODY` came, and no event among it."""


@dataclass(slots=True)
class SseDecoder:
    """Decodes one stream.

    Attributes:
        junk: the beginning of what was no event, e.g. an error page or a JSON body that came instead of a stream.
    """

    junk: bytearray = field(default_factory=bytearray)
    _lines: LineSplitter = field(default_factory=lambda: LineSplitter(EVENT))
    _data: bytearray = field(default_factory=bytearray)  # of the event under way, each line with its line feed
    _error: bool = False
    _begun: bool = False
    _found: bool = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take more bytes and return the payloads that they complete.

        Raises:
            EventTooLarge: the event under way is larger than any answer.
            NoEvents: it is no stream of events.
        """
        payloads: list[bytes] = []
        for line in self._lines.feed(chunk):
            if isinstance(line, LongLine):
                self._give_up()
            self._take(line, payloads)
        under_way = self._lines.under_way
        if len(under_way) > ERROR_BODY and not under_way.removeprefix(_BOM).startswith(_FIELDS):
            self._throw_away(under_way)
            self._lines.cut(_KEPT)  # enough to know again, at its end, that it is none
        self._check_size()
        return payloads

    def end(self) -> list[bytes]:
        """Return the payload that was whole but for its empty line."""
        payloads: list[bytes] = []
        if under_way := bytes(self._lines.under_way):
            self._take(under_way, payloads)
            self._lines.clear()
        self._take(b"", payloads)
        return payloads

    def _check_size(self) -> None:
        if self._lines.is_long or len(self._lines.under_way) + len(self._data) > EVENT:
            self._give_up()

    def _give_up(self) -> NoReturn:
        self._lines.clear()
        self._data.clear()
        raise EventTooLarge

    def _take(self, line: bytes | bytearray, payloads: list[bytes]) -> None:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if line.endswith(b"\r"):
            line = line[:-1]
        if line.startswith(_FIELDS):
            self._value(line, payloads)
        elif not line:
            self._event(payloads)
        elif line.startswith(b"event:") and line[6:].strip() == b"error":
            self._error = True
        elif not line.startswith(_SILENT) and line not in _BARE:
            self._throw_away(line + b"\n")

    def _value(self, line: bytes | bytearray, payloads: list[bytes]) -> None:
        value = line.partition(b":")[2].removeprefix(b" ")
        if self._data.endswith(_WHOLE) and value.startswith(_NEXT):  # no JSON goes on so: the empty line is missing
            self._event(payloads)
        self._found = True
        self._error = self._error or line.startswith(b"error:")
        self._data += value + b"\n"
        self._check_size()

    def _event(self, payloads: list[bytes]) -> None:
        if data := bytes(self._data).strip():
            payloads.append(_as_error(data) if self._error else data)
        self._data.clear()
        self._error = False

    def _throw_away(self, line: bytes | bytearray) -> None:
        self.junk += line[: max(0, ERROR_BODY - len(self.junk))]
        if len(self.junk) >= ERROR_BODY and not self._found:
            raise NoEvents


def _as_error(data: bytes) -> bytes:
    """Return the payload of an event that is an error by its name, as one that says so itself."""
    try:
        read_json(data)
    except ValueError:
        data = orjson.dumps(mended_text(data.decode(errors="replace")))
    return b'{"error":' + data + b"}"
