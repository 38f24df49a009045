"""Which server to start, and how long it may take. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from acp_bridge.redaction import secrets_in, secrets_in_arguments, together


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """A server to be started. Arguments and variables may hold secrets, so neither is shown.

    Attributes:
        env: variables beside those that every command gets.
    """

    name: str
    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

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
