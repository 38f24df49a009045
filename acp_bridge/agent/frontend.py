"""The Frontend port: whoever stands in front of an agent, be it an editor or a script.

Owns what the agent tells and asks. Knows no protocol.
"""

from typing import Protocol

from acp_bridge.session import Observer
from acp_bridge.tools import Watcher


class Frontend(Observer, Watcher, Protocol):
    """Is told of every event, shown passing output, asked for permission, and may be slow."""

    @property
    def congested(self) -> bool:
        """Whether so much waits to be taken that the model had better wait."""
        ...

    async def ready(self) -> None:
        """Wait until what waits has been taken; bounded by the caller's cancellation alone."""
        ...
