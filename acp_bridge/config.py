"""The configuration: one frozen value, put together from defaults, a file, the environment and the command line.

Owns which settings there are and where each comes from; later sources win. Knows no package: each makes its own
`Options` of its section, where the defaults are written. Nothing below `__main__` reads the environment.

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
from typing import Any, Final, TypeAlias

from acp_bridge.errors import ConfigError
from acp_bridge.redaction import Secrets, secrets_in

Section: TypeAlias = Mapping[str, Any]

PREFIX: Final = "ACP_BRIDGE_"
KEY_VARIABLES: Final = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "DEEPSEEK_API_KEY",
    "OPENROUTER_API_KEY",
    "MISTRAL_API_KEY",
)
"""The variables that hold providers' keys; one of them is enough to be configured."""

_LEVELS = ("debug", "info", "warning", "error")
_MODES = ("ask", "edit", "plan", "full")
_THINKING = ("off", "low", "medium", "high")

KEYS: Final[Mapping[str, type[Any]]] = {
    "model": str,
    "models": list,
    "mode": str,
    "log": str,
    "home": str,
    "storage": str,
    "tools": list,
    "observers": list,
    "agent.system": str,
    "agent.max_requests": int,
    "agent.max_attempts": int,
    "agent.retry_wait_s": float,
    "agent.max_retry_wait_s": float,
    "requests.connect_s": float,
    "requests.idle_s": float,
    "requests.stall_s": float,
    "checkpoint.policy": str,
    "checkpoint.deadline_s": float,
    "commands.env": list,
}
"""Every setting and its type; a list is one of strings, in the environment separated by commas."""

_PLUGINS: Final = "plugins."
"""How the tables of third parties' parts begin; what stands in one is for its part to judge."""

MODEL_KEYS: Final[Mapping[str, type[Any]]] = {"window": int, "images": bool, "thinking": str}
"""What can be said of a model: tokens that fit, whether it takes images, how hard it thinks unless a session says."""

SERVER_KEYS: Final[Mapping[str, type[Any]]] = {"command": str, "args": list, "env": dict}
"""What is said of a server of tools: the program, its arguments, and variables beside those that commands see."""

_SERVERS: Final = "mcp_servers."
"""How the tables of servers begin."""

_MODELS: Final = "models."
"""How the tables of models begin; each offers its model, unless `models` names those that are offered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings.

    Attributes:
        home: the folder for everything the program writes; empty for the platform's own.
        model_settings: what is said of single models, by route.
        mcp_servers: servers of tools, by name; an editor names its sessions' own instead.
        plugins: what the parts of a package are made with, by the package's name.
        environ: the environment as it was at start; keys and what commands may see are taken from it.
        source: the file that was read, if one was.
    """

    model: str = ""
    models: tuple[str, ...] = ()
    mode: str = "ask"
    log: str = "warning"
    home: str = ""
    storage: str = "jsonl"
    tools: tuple[str, ...] = ()
    observers: tuple[str, ...] = ()
    agent: Section = field(default_factory=dict[str, Any])
    model_settings: Mapping[str, Section] = field(default_factory=dict[str, Section])
    requests: Section = field(default_factory=dict[str, Any])
    checkpoint: Section = field(default_factory=dict[str, Any])
    commands: Section = field(default_factory=dict[str, Any])
    mcp_servers: Mapping[str, Section] = field(default_factory=dict[str, Section])
    plugins: Mapping[str, Section] = field(default_factory=dict[str, Section])
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
    settings = _from_file(path, required=f"{PREFIX}CONFIG" in environ)
    read = path if settings is not None else ""
    merged = {**(settings or {}), **_from_environ(environ), **(overrides or {})}
    return _built(merged, environ, read)


def default_file(environ: Mapping[str, str]) -> str:
    """Return where the file lies if nobody says: in the platform's folder for configurations."""
    if base := environ.get("XDG_CONFIG_HOME"):
        return os.path.join(base, "acp-bridge", "config.toml")
    if sys.platform == "linux":  # as platformdirs says it, whose import an editor would wait for
        return os.path.join(environ.get("HOME", "") or os.path.expanduser("~"), ".config", "acp-bridge", "config.toml")
    from platformdirs import user_config_dir

    return os.path.join(user_config_dir("acp-bridge", appauthor=False), "config.toml")


def _from_file(path: str, *, required: bool) -> dict[str, Any] | None:
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
            flat.update({f"{key}.{inner}": item for inner, item in value.items()})  # pyright: ignore[reportUnknownVariableType]
        else:
            flat[key] = value
    for key in flat:
        _require_known(key, f"in {path}", KEYS)
    return flat


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    variables = {PREFIX + key.upper().replace(".", "_"): key for key in KEYS}
    found: dict[str, Any] = {}
    for name, text in environ.items():
        if not name.startswith(PREFIX) or name == f"{PREFIX}CONFIG":
            continue
        _require_known(name, "in the environment", {**variables, f"{PREFIX}CONFIG": ""})
        if text:
            found[variables[name]] = _parsed(name, text, KEYS[variables[name]])
    return found


def _parsed(name: str, text: str, kind: type) -> Any:
    try:
        if kind is list:
            return [part.strip() for part in text.split(",") if part.strip()]
        return kind(text)
    except ValueError:
        raise ConfigError(f"{name} must be {_words(kind)}, not {text!r}") from None


def _require_known(name: str, where: str, known: Mapping[str, Any]) -> None:
    if name in known or (known is KEYS and name.startswith((_MODELS, _PLUGINS, _SERVERS))):
        return
    import difflib

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    raise ConfigError(f"the setting {name!r} {where} is not known; the nearest is {near[0]!r}")


def _built(settings: Mapping[str, Any], environ: Mapping[str, str], source: str) -> Config:
    top: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = {"agent": {}, "requests": {}, "checkpoint": {}, "commands": {}, "plugins": {}}
    told: dict[str, Section] = {}
    servers: dict[str, Section] = {}
    for key, value in settings.items():
        _require_known(key, "on the command line", KEYS)
        if key.startswith(_MODELS):
            told[key.removeprefix(_MODELS)] = _model(key.removeprefix(_MODELS), value)
            continue
        if key.startswith(_SERVERS):
            servers[key.removeprefix(_SERVERS)] = _server(key, value)
            continue
        if key.startswith(_PLUGINS):
            sections["plugins"][key.removeprefix(_PLUGINS)] = _table(key, value, "for the parts of that package")
            continue
        checked = _checked(key, value, KEYS[key])
        section, _, name = key.rpartition(".")
        if section:
            sections[section][name] = checked
        else:
            top[key] = checked
    for key, allowed in (("mode", _MODES), ("log", _LEVELS)):
        if key in top and top[key] not in allowed:
            raise ConfigError(f"{key} must be one of {', '.join(allowed)}, not {top[key]!r}")
    top.setdefault("models", tuple(told))
    frozen: dict[str, Any] = {name: MappingProxyType(values) for name, values in sections.items()}
    frozen["model_settings"] = MappingProxyType(told)
    frozen["mcp_servers"] = MappingProxyType(servers)
    return Config(**top, **frozen, environ=MappingProxyType(dict(environ)), source=source)


def _table(key: str, value: Any, of_what: str) -> Section:
    if not isinstance(value, dict):
        raise ConfigError(f"[{key}] must be a table of settings {of_what}, not {value!r}")
    return MappingProxyType(dict(value))  # pyright: ignore[reportUnknownArgumentType]


def _server(key: str, value: Any) -> Section:
    where = f"[{key}]"
    found = _table(key, value, "for a server of tools")
    for name in found:
        _require_known(name, f"in {where}", SERVER_KEYS)
    if not found.get("command"):
        raise ConfigError(f"{where} must have a command: the program that is the server")
    checked = {name: _checked(f"{name} in {where}", said, SERVER_KEYS[name]) for name, said in found.items()}
    return MappingProxyType(checked)


def _model(route: str, value: Any) -> Section:
    where = f'[models."{route}"]'
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a table of {', '.join(MODEL_KEYS)}, not {value!r}")
    found: dict[str, Any] = dict(value)  # pyright: ignore[reportUnknownArgumentType]
    for key in found:
        _require_known(key, f"in {where}", MODEL_KEYS)
    checked = {key: _checked(key, said, MODEL_KEYS[key]) for key, said in found.items()}
    if checked.get("thinking", "off") not in _THINKING:
        raise ConfigError(f"thinking in {where} must be one of {', '.join(_THINKING)}, not {checked['thinking']!r}")
    return MappingProxyType(checked)


def _checked(key: str, value: Any, kind: type[Any]) -> Any:
    if kind is list:
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):  # pyright: ignore[reportUnknownVariableType]
            raise ConfigError(f"{key} must be {_words(kind)}, not {value!r}")
        return tuple(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if kind is dict:
        return _texts(key, value)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise ConfigError(f"{key} must be {_words(kind)}, not {value!r}")
    if kind in (int, float) and value <= 0:
        raise ConfigError(f"{key} must be more than 0, not {value!r}")
    return value


def _texts(key: str, value: Any) -> Mapping[str, str]:
    found: dict[object, object] = dict(value) if isinstance(value, dict) else {None: None}  # pyright: ignore[reportUnknownArgumentType]
    texts = {name: text for name, text in found.items() if isinstance(name, str) and isinstance(text, str)}
    if len(texts) != len(found):
        raise ConfigError(f"{key} must be {_words(dict)}, not {value!r}")
    return MappingProxyType(texts)


def _words(kind: type) -> str:
    words = {
        str: "a text",
        int: "a whole number",
        float: "a number",
        list: "a list of texts",
        bool: "true or false",
        dict: "a table of texts",
    }
    return words[kind]
