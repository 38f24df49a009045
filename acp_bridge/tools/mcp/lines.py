"""How fast a server may write its lines, and what each of them says.

Owns the pace. Knows no pipe and no method.
"""

import contextlib
import json

import anyio
import orjson

from acp_bridge.limits import SERVER_LINE
from acp_bridge.rpc import PARSE_ERROR, Invalid, LineDecoder, Message
from acp_bridge.text import mended

RATE = 4 * 1024 * 1024
"""Bytes a second that are taken from one server in the long run; before that, `SERVER_LINE` at any pace."""
LINE_COST = 512
"""What a line counts beside its bytes, so that a flood of empty ones is slow too."""


class Throttle:
    """Makes whoever reads wait when a writer is faster than `rate` for long: its pipe fills, and it waits itself."""

    def __init__(self, rate: float = RATE, burst: float = SERVER_LINE) -> None:
        self._rate = rate
        self._burst = burst
        self._owed = 0.0
        self._at = 0.0

    async def pay(self, size: int) -> None:
        """Account for `size` bytes."""
        now = anyio.current_time()
        self._owed = max(0.0, self._owed - (now - self._at) * self._rate) + size
        self._at = now
        if self._owed > self._burst:
            await anyio.sleep((self._owed - self._burst) / self._rate)


def message_in(line: bytes) -> Message | Invalid | None:
    """Return what a line says; None if it may not be answered or is blank.

    Many servers let through what no JSON can carry: half an emoji where a text was cut, NaN. It is mended, since an
    answer that is thrown away is a call that hangs.
    """
    found = LineDecoder(SERVER_LINE).feed(line + b"\n")
    if found and isinstance(found[0], Invalid) and found[0].code == PARSE_ERROR and line.lstrip().startswith(b"{"):
        with contextlib.suppress(ValueError, RecursionError):
            found = LineDecoder(SERVER_LINE).feed(orjson.dumps(mended(json.loads(line))) + b"\n")
    return found[0] if found else None
