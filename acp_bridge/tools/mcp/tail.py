"""The last of what a server wrote to stderr, for the sentence that says why it failed. Never passed on otherwise."""

from collections.abc import Iterable

import anyio
from anyio.abc import ByteReceiveStream

from acp_bridge.tools.drawing import title

from .lines import Throttle

KEPT = 4096
SHOWN = 300
"""Bytes kept, and characters shown of the last line."""
SECRET = 6
"""Characters from which on a variable's value is taken for a secret rather than for a word."""


class Tail:
    """Reads stderr to its end, so that the server is not stopped by a pipe that nobody reads."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = [secret for secret in secrets if len(secret) >= SECRET]
        self._kept = bytearray()
        self.ended = anyio.Event()

    async def read(self, errors: ByteReceiveStream) -> None:
        """Read until the end."""
        throttle = Throttle()
        try:
            async for block in errors:
                self._kept += block
                del self._kept[:-KEPT]
                await throttle.pay(len(block))
        finally:
            self.ended.set()

    def last_line(self) -> str:
        """Return the last line that says something, without what the server was given in its environment."""
        text = self._kept.decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        line = lines[-1] if lines else ""
        for secret in self._secrets:
            line = line.replace(secret, "***")
        return title(line, limit=SHOWN)
