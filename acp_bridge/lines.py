"""A stream of bytes as lines, with a bound on what is held of one.

Owns the cutting, and nothing else: the bound and what becomes of a line beyond it are the reader's own. Knows no
encoding; only a line feed ends a line.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line beyond the bound, which was dropped as it came.

    Attributes:
        head: as many of its first bytes as the reader wanted.
        tail: likewise its last ones.
    """

    head: bytes = b""
    tail: bytes = b""


class LineSplitter:
    """Cuts bytes into lines, in time linear in the bytes fed.

    A line's newline is neither part of it nor counted. What follows the last newline is the line under way; at the end
    of the input it is half a line, and whether that says anything is the reader's affair.
    """

    def __init__(self, max_line: int, *, head: int = 0, tail: int = 0) -> None:
        """Hold at most `max_line` bytes of a line, and of a longer one the first `head` and the last `tail`."""
        self._max_line = max_line
        self._head_size = head
        self._tail_size = tail
        self._held = bytearray()
        self._long = False
        self._head = b""  # of a line that is being dropped
        self._tail = b""

    @property
    def under_way(self) -> bytes | bytearray:
        """The line that has not ended yet, as far as it is held: empty once it is beyond the bound. Not to be kept."""
        return self._held

    @property
    def is_long(self) -> bool:
        """Whether the line under way is beyond the bound."""
        return self._long

    def feed(self, block: bytes) -> list[bytes | bytearray | LongLine]:
        """Return the lines that end in `block`."""
        *ended, rest = block.split(b"\n")
        lines = [self._end(part) for part in ended]
        self._hold(rest)
        return lines

    def cut(self, size: int) -> None:
        """Forget all but the first `size` bytes of the line under way; it goes on behind them."""
        del self._held[size:]

    def clear(self) -> None:
        """Forget the line under way: what is fed next begins one."""
        self._held, self._long = bytearray(), False
        self._head = self._tail = b""

    def _end(self, part: bytes) -> bytes | bytearray | LongLine:
        if not (self._held or self._long) and len(part) <= self._max_line:
            return part  # as most do: it came whole, and nothing is copied
        self._hold(part)
        line = LongLine(self._head, self._tail) if self._long else self._held
        self.clear()
        return line

    def _hold(self, part: bytes) -> None:
        if self._long:
            self._tail = self._last(self._tail, part)
        elif len(self._held) + len(part) <= self._max_line:
            self._held += part  # a bytearray grows in amortised constant time; joined bytes would be quadratic
        else:
            self._head = bytes(self._held[: self._head_size]) + part[: max(0, self._head_size - len(self._held))]
            self._tail = self._last(self._held, part)
            self._held, self._long = bytearray(), True

    def _last(self, before: bytes | bytearray, part: bytes) -> bytes:
        size = self._tail_size
        return (bytes(before[-size:]) + part[-size:])[-size:] if size else b""
