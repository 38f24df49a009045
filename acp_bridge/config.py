"""The configuration: one frozen value, put together from defaults, a file, the environment and the command line.

Owns where each setting comes from; later sources win. Which there are, of which type and with which default, is
written in `options`. Knows no package: each takes its section's value. Nothing below `__main__` reads the environment.

    model = "anthropic:claude-sonnet-4-5"    ACP_BRIDGE_MODEL
    models = ["…", "…"]                      offered beside it; or, with what is not known of them:
    [models."provider:model"]                window, images, thinking
    mode = "ask"                             ACP_BRIDGE_MODE
    log = "warning"                          ACP_BRIDGE_LOG, the level of what goes to stderr
    home = "/…"                              ACP_BRIDGE_HOME, everything the program writes
    storage = "jsonl"                        or "memory", or "module:name"
    tools = ["module:name"]                  further tools
    observers = ["module:name"]              who is told of every session's events
    [agent]                                  max_requests, max_attempts, retry_wait_s, max_retry_wait_s, system
    [requests]                               connect_s, idle_s, stall_s: how long a model's provider may take
    [checkpoint]                             policy, deadline_s
    [commands]                               env: names of further variables that commands may see
    [mcp_servers.NAME]                       command, args, env: a server of tools for sessions without an editor
    [plugins.NAME]                           whatever the parts of the package NAME are made with
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

from acp_bridge.errors import ConfigError
from acp_bridge.options import (
    SECTIONS,
    AgentOptions,
    CheckpointOptions,
    CommandOptions,
    ModelSettings,
    ProgramOptions,
    RequestOptions,
    ServerSettings,
    all_settings,
    check,
    parse,
    types_of,
)
from acp_bridge.redaction import Secrets, secrets_in
from acp_bridge.text import nearest

Table: TypeAlias = Mapping[str, Any]

PREFIX: Final = "ACP_BRIDGE_"
KEY_VARIABLES: Final = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "DEEPSEEK_API_KEY",
    "OPENROUTER_API_KEY",
    "MISTRAL_API_KEY",
)
"""The variables that hold providers' keys; one of them is enough to be configured."""

KEYS: Final[Mapping[str, Any]] = all_settings()
"""Every setting with a fixed name, and its type; a list is one of texts, in the environment separated by commas."""

_PLUGINS: Final = "plugins."
"""How the tables of third parties' parts begin; what stands in one is for its part to judge."""

_SERVERS: Final = "mcp_servers."
"""How the tables of servers begin."""

_MODELS: Final = "models."
"""How the tables of models begin; each offers its model, unless `models` names those that are offered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(ProgramOptions):
    """All settings.

    Attributes:
        model_settings: what is said of single models, by route.
        mcp_servers: servers of tools, by name; an editor names its sessions' own instead.
        plugins: what the parts of a package are made with, by the package's name.
        environ: the environment as it was at start; keys and what commands may see are taken from it.
        source: the file that was read, if one was.
    """

    agent: AgentOptions = field(default_factory=AgentOptions)
    requests: RequestOptions = field(default_factory=RequestOptions)
    checkpoint: CheckpointOptions = field(default_factory=CheckpointOptions)
    commands: CommandOptions = field(default_factory=CommandOptions)
    model_settings: Mapping[str, ModelSettings] = field(default_factory=dict[str, ModelSettings])
    mcp_servers: Mapping[str, ServerSettings] = field(default_factory=dict[str, ServerSettings])
    plugins: Mapping[str, Table] = field(default_factory=dict[str, Table])
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    source: str = ""

    @property
    def model_configured(self) -> bool:
        """Whether a model is named, or a provider's key is there to name one by."""
        return bool(self.model) or any(self.environ.get(name, "").strip() for name in KEY_VARIABLES)

    @property
    def secrets(self) -> Secrets:
        """The values that nothing may show: providers' keys, and whatever else of the environment is secret."""
        return Secrets(secrets_in(self.environ))


def load(environ: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> Config:
    """Return the configuration of the file, `environ` and the command line's `overrides`.

    Raises:
        ConfigError: a setting is unknown, of the wrong type or out of range; the message names it and the remedy.
    """
    path = environ.get(f"{PREFIX}CONFIG", "") or default_file(environ)
    settings = _read_file(path, required=f"{PREFIX}CONFIG" in environ)
    source = path if settings is not None else ""
    return _build({**(settings or {}), **_read_environ(environ), **(overrides or {})}, environ, source)


def default_file(environ: Mapping[str, str]) -> str:
    """Return where the file lies if nobody says: in the platform's folder for configurations."""
    if base := environ.get("XDG_CONFIG_HOME"):
        return os.path.join(base, "acp-bridge", "config.toml")
    if sys.platform == "linux":  # as platformdirs says it, whose import an editor would wait for
        return os.path.join(environ.get("HOME", "") or os.path.expanduser("~"), ".config", "acp-bridge", "config.toml")
    from platformdirs import user_config_dir

    return os.path.join(user_config_dir("acp-bridge", appauthor=False), "config.toml")


def _read_file(path: str, *, required: bool) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as file:
            text = file.read()
    except FileNotFoundError:
        if required:
            raise ConfigError(f"{PREFIX}CONFIG names {path!r}, which does not exist") from None
        return None
    except OSError as exc:
        raise ConfigError(f"the configuration {path!r} cannot be read: {exc.strerror}") from exc
    import tomllib

    try:
        parsed = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise ConfigError(f"the configuration {path!r} is not valid TOML: {exc}") from exc
    flat: dict[str, Any] = {}
    for key, value in parsed.items():
        if isinstance(value, dict):
            section = cast("dict[str, Any]", value)
            flat.update({f"{key}.{inner}": item for inner, item in section.items()})
        else:
            flat[key] = value
    for key in flat:
        _require_known_setting(key, f"in {path}")
    return flat


def _read_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    variables = {PREFIX + key.upper().replace(".", "_"): key for key in KEYS}
    found: dict[str, Any] = {}
    for name, text in environ.items():
        if not name.startswith(PREFIX) or name == f"{PREFIX}CONFIG":
            continue
        _require_known(name, "in the environment", {**variables, f"{PREFIX}CONFIG": ""})
        if text:
            found[variables[name]] = parse(name, text, KEYS[variables[name]])
    return found


def _require_known_setting(key: str, where: str) -> None:
    if not key.startswith((_MODELS, _PLUGINS, _SERVERS)):  # who is named there, only its reader can know
        _require_known(key, where, KEYS)


def _require_known(name: str, where: str, known: Mapping[str, Any]) -> None:
    if name in known:
        return
    near = nearest(name, known, likeness=0)
    raise ConfigError(f"the setting {name!r} {where} is not known; the nearest is {near!r}")


def _build(settings: Table, environ: Mapping[str, str], source: str) -> Config:
    top: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    for key, value in settings.items():
        _require_known_setting(key, "on the command line")
        if key in KEYS:
            section, _, name = key.rpartition(".")
            (sections[section] if section else top)[name] = check(key, value, KEYS[key])
    models = {route: _read_model(route, table) for route, table in _named(settings, _MODELS)}
    top.setdefault("models", tuple(models))
    return Config(
        **top,
        **{name: SECTIONS[name](**values) for name, values in sections.items()},
        model_settings=MappingProxyType(models),
        mcp_servers=MappingProxyType({name: _read_server(name, table) for name, table in _named(settings, _SERVERS)}),
        plugins=MappingProxyType({name: _read_plugin(name, table) for name, table in _named(settings, _PLUGINS)}),
        environ=MappingProxyType(dict(environ)),
        source=source,
    )


def _named(settings: Table, prefix: str) -> list[tuple[str, Any]]:
    """Return the tables of one kind, by the name that follows its prefix."""
    return [(key.removeprefix(prefix), value) for key, value in settings.items() if key.startswith(prefix)]


def _read_plugin(name: str, value: Any) -> Table:
    return MappingProxyType(_require_table(f"[{_PLUGINS}{name}]", value, "settings for the parts of that package"))


def _read_server(name: str, value: Any) -> ServerSettings:
    where = f"[{_SERVERS}{name}]"
    table = _require_table(where, value, "settings for a server of tools")
    _require_members(where, table, ServerSettings)
    if not table.get("command"):
        raise ConfigError(f"{where} must have a command: the program that is the server")
    types = types_of(ServerSettings)
    return ServerSettings(**{key: check(f"{key} in {where}", said, types[key]) for key, said in table.items()})


def _read_model(route: str, value: Any) -> ModelSettings:
    where = f'[models."{route}"]'
    types = types_of(ModelSettings)
    table = _require_table(where, value, ", ".join(types))
    _require_members(where, table, ModelSettings)
    return ModelSettings(**{key: check(f"{key} in {where}", said, types[key]) for key, said in table.items()})


def _require_members(where: str, table: Table, options: type[Any]) -> None:
    for key in table:
        _require_known(key, f"in {where}", types_of(options))


def _require_table(where: str, value: Any, of_what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a table of {of_what}, not {value!r}")
    return dict(cast("dict[str, Any]", value))
