"""What a client sends, as models: strict where the protocol is, blind to what it does not name.

Owns the checks of params. Knows no behaviour. Built when first used, since pydantic takes a tenth of a second.
Null in an optional list is an empty list; anything else malformed is refused, not dropped: a server or folder that
silently went missing is worse than an error.
"""

import base64
import binascii
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)
from pydantic.alias_generators import to_camel

SessionIdText: TypeAlias = Annotated[str, StringConstraints(max_length=16_384)]


def _absolute(path: str) -> str:
    windows = len(path) > 2 and path[1] == ":" and path[2] in "/\\"
    if not (path.startswith(("/", "\\\\")) or windows):
        raise ValueError("must be an absolute path")
    if "\0" in path:
        raise ValueError("must not contain NUL")
    return path


def _listed(value: Any) -> Any:
    return [] if value is None else value


def _is_base64(data: str) -> str:
    try:
        base64.b64decode(data, validate=True)
    except binascii.Error as exc:
        raise ValueError("must be base64") from exc
    return data


AbsolutePath: TypeAlias = Annotated[str, AfterValidator(_absolute)]
Base64Text: TypeAlias = Annotated[str, AfterValidator(_is_base64)]


class Inbound(BaseModel):
    """The root of every inbound model. `_meta` is never read into members."""

    model_config = ConfigDict(
        alias_generator=to_camel, frozen=True, strict=True, extra="ignore", defer_build=True, populate_by_name=False
    )


class Variable(Inbound):
    """An environment variable of an MCP server, or a header of one."""

    name: str
    value: str


class StdioServer(Inbound):
    """An MCP server to be started."""

    type: Literal["stdio"] = "stdio"
    name: str
    command: str
    args: Annotated[list[str], BeforeValidator(_listed)]
    env: Annotated[list[Variable], BeforeValidator(_listed)]


class RemoteServer(Inbound):
    """An MCP server to be called; not advertised, so it is named as unused."""

    type: Literal["http", "sse", "acp"]
    name: str


def _typed(value: Any) -> Any:
    """A server without a type is a stdio one."""
    return {"type": "stdio", **value} if isinstance(value, dict) and value.get("type") is None else value  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


McpServer: TypeAlias = Annotated[
    Annotated[StdioServer | RemoteServer, Field(discriminator="type")], BeforeValidator(_typed)
]
McpServers: TypeAlias = Annotated[list[McpServer], BeforeValidator(_listed)]
Directories: TypeAlias = Annotated[list[AbsolutePath], BeforeValidator(_listed)]


class NewSession(Inbound):
    """`session/new`."""

    cwd: AbsolutePath
    mcp_servers: McpServers
    additional_directories: Directories = []


class LoadSession(Inbound):
    """`session/load`."""

    session_id: SessionIdText
    cwd: AbsolutePath
    mcp_servers: McpServers
    additional_directories: Directories = []


class ResumeSession(Inbound):
    """`session/resume`; unlike load, it may leave the servers out."""

    session_id: SessionIdText
    cwd: AbsolutePath
    mcp_servers: McpServers = []
    additional_directories: Directories = []


class ListSessions(Inbound):
    """`session/list`."""

    cwd: AbsolutePath | None = None
    cursor: str | None = None


class OneSession(Inbound):
    """`session/close`, `session/delete`, `session/cancel` and our continuation."""

    session_id: SessionIdText


class SetMode(Inbound):
    """`session/set_mode`."""

    session_id: SessionIdText
    mode_id: str


class SetConfigOption(Inbound):
    """`session/set_config_option`; all our options are selects."""

    session_id: SessionIdText
    config_id: str
    value: str | bool


class Authenticate(Inbound):
    """`authenticate`."""

    method_id: str


class TextBlock(Inbound):
    """Text of a prompt."""

    type: Literal["text"]
    text: str


class ImageBlock(Inbound):
    """A picture."""

    type: Literal["image"]
    data: Base64Text
    mime_type: str
    uri: str | None = None


class AudioBlock(Inbound):
    """Sound; never advertised."""

    type: Literal["audio"]
    data: Base64Text
    mime_type: str


class LinkBlock(Inbound):
    """A pointer to something."""

    type: Literal["resource_link"]
    uri: str
    name: str
    title: str | None = None
    mime_type: str | None = None
    description: str | None = None
    size: Annotated[int, Field(ge=0, le=2**53)] | None = None


class ResourceContents(Inbound):
    """What an embedded resource holds: text, or a blob."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: Base64Text | None = None


class ResourceBlock(Inbound):
    """A thing with its content."""

    type: Literal["resource"]
    resource: ResourceContents


PromptBlockIn: TypeAlias = Annotated[
    TextBlock | ImageBlock | AudioBlock | LinkBlock | ResourceBlock, Field(discriminator="type")
]


class Prompt(Inbound):
    """`session/prompt`."""

    session_id: SessionIdText
    prompt: list[PromptBlockIn]


class PermissionOutcomeIn(Inbound):
    """The inner part of a permission answer."""

    outcome: Literal["selected", "cancelled"]
    option_id: str | None = None


class PermissionAnswer(Inbound):
    """The client's answer to `session/request_permission`."""

    outcome: PermissionOutcomeIn


class ElicitationAnswer(Inbound):
    """The client's answer to `elicitation/create`."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class FileText(Inbound):
    """The client's answer to `fs/read_text_file`."""

    content: str


InboundT = TypeVar("InboundT", bound=Inbound)


def parsed(model: type[InboundT], params: Any) -> InboundT:
    """Return `params` as `model`.

    Raises:
        ValueError: what is wrong with which member, in one line, without its value.
    """
    try:
        return model.model_validate(params)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
        said = first["msg"].removeprefix("Value error, ").replace("\n", " ")
        raise ValueError(f"{_place(first['loc'])}: {said}") from None


def _place(loc: tuple[int | str, ...]) -> str:
    """Return the member's path as it stands in the message: behind an index, pydantic names the kind that it took."""
    parts = [part for n, part in enumerate(loc) if not _is_kind(loc, n)]
    return ".".join(map(str, parts)) or "params"


def _is_kind(loc: tuple[int | str, ...], n: int) -> bool:
    return 0 < n < len(loc) - 1 and isinstance(loc[n - 1], int) and isinstance(loc[n], str)
