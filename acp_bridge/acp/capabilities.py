"""What client and agent tell each other first: versions, capabilities, ways to authenticate.

Checked by hand, so that `initialize` is answered before anything heavy is imported. Knows no session.
"""

from typing import Any, Final, NamedTuple

SUPPORTED_VERSIONS: Final = (1,)
LATEST_VERSION: Final = max(SUPPORTED_VERSIONS)
_WITHOUT_PLANS: Final = ("codecompanion",)
"""Clients that draw no plan, as they begin the name that they give themselves."""
_MAX_VERSION: Final = 65535  # uint16 in the schema


class ClientCapabilities(NamedTuple):
    """What the client can do; whatever it did not say, it cannot (protocol: an absent capability is unsupported).

    That it draws plans is taken for granted, unless it is known that it does not: every client is sent them.
    """

    read_text_file: bool = False
    write_text_file: bool = False
    terminal: bool = False
    terminal_auth: bool = False
    boolean_options: bool = False
    notices: bool = False
    elicitation_form: bool = False
    shows_plans: bool = True


class AuthMethod(NamedTuple):
    """A way to authenticate that the agent runs itself."""

    id: str
    name: str
    description: str


_CONFIGURED: Final = AuthMethod(
    id="configured",
    name="Use the configured model",
    description="Set ACP_BRIDGE_MODEL and the provider's key in the agent's environment, or start a local model server",
)


def auth_methods(*, configured: bool) -> tuple[AuthMethod, ...]:
    """Return the ways to authenticate that are left: none where a model is configured."""
    return () if configured else (_CONFIGURED,)


def negotiated_version(requested: Any) -> int:
    """Return the version to answer with: the requested one if it is supported, else the newest (never an echo).

    Raises:
        ValueError: it is no integer from 0 to 65535.
    """
    if type(requested) is not int or not 0 <= requested <= _MAX_VERSION:
        raise ValueError(f"protocolVersion must be an integer from 0 to {_MAX_VERSION}")
    return requested if requested in SUPPORTED_VERSIONS else LATEST_VERSION


def parse_client(capabilities: Any, info: Any = None) -> ClientCapabilities:
    """Return the client's capabilities; what has the wrong type counts as absent.

    `info` is what it calls itself: for what no capability says.
    """
    top = _members(capabilities)
    files, session = _members(top.get("fs")), _members(top.get("session"))
    return ClientCapabilities(
        read_text_file=files.get("readTextFile") is True,
        write_text_file=files.get("writeTextFile") is True,
        terminal=top.get("terminal") is True,
        terminal_auth=_members(top.get("auth")).get("terminal") is True,
        boolean_options=isinstance(_members(session.get("configOptions")).get("boolean"), dict),
        notices=isinstance(session.get("notices"), dict),
        elicitation_form=isinstance(_members(top.get("elicitation")).get("form"), dict),
        shows_plans=not str(_members(info).get("name")).lower().startswith(_WITHOUT_PLANS),
    )


def _members(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def initialized(
    params: Any, *, program_version: str, auth_methods: tuple[AuthMethod, ...]
) -> tuple[ClientCapabilities, dict[str, Any]]:
    """Return what the params of an `initialize` say of the client, and the result that answers it.

    Raises:
        ValueError: its version is none.
    """
    version = negotiated_version(params.get("protocolVersion"))
    client = parse_client(params.get("clientCapabilities"), params.get("clientInfo"))
    return client, initialize_result(version, program_version=program_version, auth_methods=auth_methods)


def initialize_result(version: int, *, program_version: str, auth_methods: tuple[AuthMethod, ...]) -> dict[str, Any]:
    """Return the answer to `initialize`: what this agent can do, no more and no less."""
    return {
        "protocolVersion": version,
        "agentInfo": {"name": "acp-bridge", "title": "ACP Bridge", "version": program_version},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": False, "sse": False},
            "sessionCapabilities": {
                "list": {},
                "delete": {},
                "resume": {},
                "close": {},
                "additionalDirectories": {},
            },
            "_meta": {"acp_bridge": {"continue": True}},
        },
        "authMethods": [method._asdict() for method in auth_methods],
    }
