"""The last of what a server wrote to stderr, for the sentence that says why it failed. Never passed on otherwise."""

from collections.abc import Mapping

import anyio
from anyio.abc import ByteReceiveStream

from acp_bridge.redaction import Secrets
from acp_bridge.tools.titles import title

from .lines import Throttle

KEPT = 4096
SHOWN = 300
"""Bytes kept, and characters shown of the last line."""
SECRET = 6
"""Characters from which on a variable's value is taken for a secret rather than for a word."""


class Tail:
    """Reads stderr to its end, so that the server is not stopped by a pipe that nobody reads."""

    def __init__(self, secrets: Secrets, variables: Mapping[str, str]) -> None:
        self._secrets = secrets.with_more({name: value for name, value in variables.items() if len(value) >= SECRET})
        self._clean = self._secrets.stream()
        self._kept = bytearray()
        self.ended = anyio.Event()

    async def read(self, errors: ByteReceiveStream) -> None:
        """Read until the end."""
        throttle = Throttle()
        try:
            async for block in errors:
                self._kept += self._clean.feed(block)
                del self._kept[:-KEPT]
                await throttle.pay(len(block))
        finally:
            self.ended.set()

    def last_line(self) -> str:
        """Return the last line that says something, without what the server was given in its environment."""
        text = self._secrets.hidden_bytes(bytes(self._kept) + self._clean.held).decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return title(lines[-1] if lines else "", limit=SHOWN)
