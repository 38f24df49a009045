"""The log on stderr, which never blocks: an editor that does not read it must not stop the agent.

Owns the queue and the thread that empties it. What does not fit is counted and said once there is room again.
"""

import logging
import os
import threading
from collections import deque
from typing import Final

from acp_bridge.redaction import Secrets
from acp_bridge.text import escaped

_KEPT: Final = 1000
"""How many lines may wait; those that follow are counted instead."""
_LAST_S: Final = 0.2
"""How long the end of the process waits for lines that are not written yet."""


class StderrHandler(logging.Handler):
    """Writes records to a descriptor from a thread of its own, without secrets and without control characters."""

    def __init__(self, fd: int = 2, secrets: Secrets | None = None) -> None:
        super().__init__()
        self._secrets = secrets or Secrets()
        self._fd = fd
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._wake = threading.Event()
        self._empty = threading.Event()
        self._empty.set()
        # a daemon, since a pipe that nobody reads must not keep the process from ending
        threading.Thread(target=self._run, name="stderr", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record, or count it as dropped."""
        if len(self._lines) >= _KEPT:
            self._dropped += 1
            return
        self._lines.append(escaped(self._secrets.hidden(self.format(record)), lines=True) + "\n")
        self._empty.clear()
        self._wake.set()

    def flush(self) -> None:
        """Wait a moment for what is queued."""
        self._empty.wait(_LAST_S)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            while self._lines:
                line = self._lines.popleft()
                if self._dropped and len(self._lines) < _KEPT // 2:  # not at every line that makes room for one
                    line += f"acp-bridge: {self._dropped} lines were dropped: nobody read them\n"
                    self._dropped = 0
                try:
                    os.write(self._fd, line.encode(errors="replace"))
                except OSError:
                    self._lines.clear()  # nobody is there to read
            self._empty.set()


def log_to_stderr(level: str, secrets: Secrets) -> StderrHandler:
    """Send the program's log to stderr from now on."""
    handler = StderrHandler(secrets=secrets)
    handler.setFormatter(logging.Formatter("acp-bridge: %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=level.upper())
    return handler
