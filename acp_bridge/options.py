"""What can be set, section by section: each setting's name, type, default and bounds, written once.

Owns these declarations and the check of a value against its own. `config` reads names and types from here, and the
package that a section is for takes the section's value as it is. Knows neither where a setting comes from nor what it
does.

Decision: they stand together and not in their packages. The configuration is read before `initialize` is answered, and
to import a package for its options would import all of it first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType, UnionType
from typing import Any, Final, Literal, TypeAlias, Union, cast, get_args, get_origin

from acp_bridge.content import Mode, ThoughtLevel
from acp_bridge.errors import ConfigError

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOptions:
    """What stands outside all sections.

    Attributes:
        model: the route of a new session's model; empty to find one by the keys that are there.
        models: those that are offered beside it.
        log: the level of what goes to stderr.
        home: the folder for everything the program writes; empty for the platform's own.
        storage: `jsonl`, `memory`, or `module:name` of a store.
        tools: further ones, each `module:name`.
        observers: who is told of every session's events, each `module:name`.
    """

    model: str = ""
    models: tuple[str, ...] = ()
    mode: Mode = "ask"
    log: LogLevel = "warning"
    home: str = ""
    storage: str = "jsonl"
    tools: tuple[str, ...] = ()
    observers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The role, and the limits of a turn.

    Attributes:
        system: what the model is told it is, in place of the built-in role; workspace, mode and notes follow it.
        max_requests: model requests in one turn.
        max_attempts: tries of one request, the first included.
        retry_wait_s: seconds before the second try; doubled each time, unless the provider says how long.
        max_retry_wait_s: the longest wait; a provider that asks for more gets no retry.
    """

    system: str = ""
    max_requests: int = 200
    max_attempts: int = 5
    retry_wait_s: float = 1.0
    max_retry_wait_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """How long a model's provider may take.

    Attributes:
        connect_s: to take the connection.
        idle_s: how long it may be silent; None for 120, or 600 for a local one.
        stall_s: how long it may send nothing of an answer, whatever else it sends; None for five times that.
    """

    connect_s: float = 10.0
    idle_s: float | None = None
    stall_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOptions:
    """How barriers wait.

    Attributes:
        policy: `default`, the words that leave it out, or `module:name` of a callable that takes these options.
        deadline_s: how long one barrier waits before it fails, in seconds.
    """

    policy: str = "default"
    deadline_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """What commands are run with.

    Attributes:
        env: names of variables that they may see beside those of the short list.
    """

    env: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """What the user says of one model; None where nothing is said.

    Attributes:
        window: tokens that fit into its context.
        images: whether it sees them.
        thinking: how hard it is to think, unless a session says otherwise.
    """

    window: int | None = None
    images: bool | None = None
    thinking: ThoughtLevel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How a server of tools is started. Arguments and variables may hold secrets, so neither is shown.

    Attributes:
        env: variables beside those that every command gets.
    """

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


SECTIONS: Final[Mapping[str, type[Any]]] = {
    "agent": AgentOptions,
    "requests": RequestOptions,
    "checkpoint": CheckpointOptions,
    "commands": CommandOptions,
}
"""The sections with a fixed set of settings, by their names in the file."""

_KINDS: Final[Mapping[type, str]] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    tuple: "a list of texts",
    bool: "true or false",
    Mapping: "a table of texts",
}
"""The types that a setting may have, in words for a person."""


def types_of(options: type[Any]) -> dict[str, Any]:
    """Return the settings of a section's class, in order, each with its declared type."""
    return {declared.name: declared.type for declared in fields(options)}


def all_settings() -> dict[str, Any]:
    """Return the types of all settings with a fixed name, by `key` or `section.key`."""
    sections = {f"{section}.{key}": kind for section, cls in SECTIONS.items() for key, kind in types_of(cls).items()}
    return types_of(ProgramOptions) | sections


def parse(name: str, text: str, declared: Any) -> Any:
    """Return what a variable's text means as a value of the declared type.

    Raises:
        ConfigError: it is no such value.
    """
    kind = _kind(declared)
    if kind is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(f"{name} must be {_KINDS[kind]}, not {text!r}") from None


def check(name: str, value: Any, declared: Any) -> Any:
    """Return the value as the declared type has it, frozen.

    Raises:
        ConfigError: it is of another type, none of the choices, or a number that is not more than 0.
    """
    kind, given = _kind(declared), cast("object", value)
    if kind is float and type(value) is int:  # TOML tells 30 from 30.0, and people do not
        value = float(value)
    if kind is tuple and isinstance(value, list | tuple):
        items = tuple(cast("list[object]", value))
        _require_texts(name, items, given, kind)
        return items
    if kind is Mapping and isinstance(value, Mapping):
        found = dict(cast("Mapping[object, object]", value))
        _require_texts(name, (*found, *found.values()), given, kind)
        return MappingProxyType(found)
    if type(value) is not kind:  # not `isinstance`: true is no number
        raise ConfigError(f"{name} must be {_KINDS[kind]}, not {value!r}")
    if kind in (int, float) and value <= 0:
        raise ConfigError(f"{name} must be more than 0, not {value!r}")
    if (choices := _choices(declared)) and value not in choices:
        raise ConfigError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    return value


def _require_texts(name: str, items: tuple[object, ...], value: object, kind: type) -> None:
    if not all(isinstance(item, str) for item in items):
        raise ConfigError(f"{name} must be {_KINDS[kind]}, not {value!r}")


def _without_none(declared: Any) -> Any:
    """Return the one type that a setting takes; None beside it stands for what nobody set."""
    if get_origin(declared) not in (Union, UnionType):
        return declared
    [member] = (member for member in get_args(declared) if member is not type(None))
    return member


def _kind(declared: Any) -> type:
    """Return which of `_KINDS` a declared type is; choices are texts."""
    member = _without_none(declared)
    match get_origin(member):
        case None:
            return member
        case found if found is Literal:
            return str
        case found:
            return tuple if found is tuple else Mapping


def _choices(declared: Any) -> tuple[str, ...]:
    member = _without_none(declared)
    return get_args(member) if get_origin(member) is Literal else ()
