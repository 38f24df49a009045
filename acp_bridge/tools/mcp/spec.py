"""Which server to start, and how long it may take. Values only."""

from dataclasses import dataclass

from acp_bridge.options import ServerSettings
from acp_bridge.redaction import secrets_in, secrets_in_arguments, together


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec(ServerSettings):
    """A server to be started."""

    name: str

    @property
    def secrets(self) -> dict[str, str]:
        """What is secret of its arguments and variables, by name."""
        return together(secrets_in_arguments(self.args), secrets_in(self.env))


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """How long servers may take.

    Attributes:
        start_s: to answer `initialize`, and again to list the tools; a package runner may download first.
        call_s: to answer one call.
    """

    start_s: float = 60.0
    call_s: float = 120.0
