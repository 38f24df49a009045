"""Third parties' parts: found by `module:name`, and made with what is theirs of the configuration.

Owns how a part is found, what its factory is given, and the words for one that cannot be made. Knows no part's meaning.

A factory is a class or any other callable. Beside what its port hands it, it is given by keyword, if it has a parameter
of that name: `settings`, the table `[plugins.NAME]` where NAME is its top-level package, and `environ`, the variables
of the environment, which is where secrets belong.
"""

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, Final

from acp_bridge.config import Config
from acp_bridge.errors import PART_FAILURES, ConfigError
from acp_bridge.text import describe, nearest

_NAMED: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def is_named(text: str) -> bool:
    """Whether `text` has the form `module:name`."""
    return _NAMED.fullmatch(text) is not None


def package_of(name: str) -> str:
    """Return the top-level package of `module:name`: what its table in the configuration is called by."""
    return name.partition(":")[0].partition(".")[0]


def part_settings(config: Config) -> dict[str, str]:
    """Return every `module:name` of the configuration, by itself, with the setting that names it."""
    named = [("storage", config.storage), ("checkpoint.policy", config.checkpoint.policy), ("model", config.model)]
    named += [("models", name) for name in config.models]
    named += [("tools", name) for name in config.tools] + [("observers", name) for name in config.observers]
    return {name: setting for setting, name in named if is_named(name)}


def require_used_tables(config: Config) -> None:
    """Refuse a table `[plugins.NAME]` that no part is made with: most likely its name is misspelt.

    Raises:
        ConfigError: it names the table, and the nearest package of which there is a part.
    """
    packages = {package_of(name) for name in part_settings(config)}
    for name in config.plugins:
        if name not in packages:
            near = nearest(name, packages, likeness=0)
            hint = f"the nearest package that a setting names is {near!r}" if near else "no setting names a part"
            raise ConfigError(f"[plugins.{name}] is for no part: {hint}")


def preload(names: Iterable[str]) -> None:
    """Import the modules of parts, in a thread that may wait; what fails is said when the part is made."""
    for name in names:
        try:
            _import(name.partition(":")[0])
        except ConfigError:
            continue


def make_part(config: Config, name: str, setting: str, *given: object) -> object:
    """Return the part that `module:name` makes.

    Args:
        config: whose table and environment the factory is given.
        name: the factory.
        setting: what names it, for messages.
        given: what the port hands to its factories.

    Raises:
        ConfigError: it cannot be found, or not be made; the message names it and says why.
    """
    factory = _find(name, setting)
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):  # a built-in that tells nothing of itself
        return _call(factory, given, {}, name, setting)
    settings = config.plugins.get(package_of(name), {})
    offered: dict[str, object] = {"settings": dict(settings), "environ": config.environ}
    keywords = {key: value for key, value in offered.items() if key in signature.parameters}
    try:
        signature.bind(*given, **keywords)
    except TypeError as exc:
        hands = f"{len(given)} argument" if given else "no argument"
        raise ConfigError(
            f"{setting} names {name!r}, whose factory does not fit: {exc}. It is called with {hands}, and by keyword "
            "with settings and environ where it has such parameters"
        ) from exc
    return _call(factory, given, keywords, name, setting)


def _call(
    factory: Callable[..., object], given: tuple[object, ...], keywords: Mapping[str, object], name: str, setting: str
) -> object:
    try:
        return factory(*given, **keywords)
    except ConfigError:
        raise
    except PART_FAILURES as exc:
        raise ConfigError(f"{setting} names {name!r}, which could not be made: {describe(exc)}") from exc


def _find(name: str, setting: str) -> Callable[..., object]:
    if not is_named(name):
        raise ConfigError(f"{setting} names {name!r}, which is not of the form 'module:name'")
    module_name, _, path = name.partition(":")
    try:
        found: Any = _import(module_name)
    except ConfigError as exc:
        raise ConfigError(f"{setting} names {name!r}: {exc}") from exc
    for attribute in path.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError:
            near = nearest(attribute, dir(found))
            hint = f"; did you mean {near!r}?" if near else ""
            raise ConfigError(f"{setting} names {name!r}, and there is no {attribute!r} in it{hint}") from None
    if not callable(found):
        raise ConfigError(f"{setting} names {name!r}, which cannot be called")
    return found


def _import(module: str) -> ModuleType:
    """Import a module.

    Raises:
        ConfigError: there is none of this name, or it fails while it is imported.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as exc:
        if exc.name is not None and (module == exc.name or module.startswith(f"{exc.name}.")):
            raise ConfigError(f"there is no module {exc.name!r} that this Python can import") from exc
        raise ConfigError(f"the module {module!r} cannot be imported: {describe(exc)}") from exc
    except PART_FAILURES as exc:  # a script without a guard ends itself, and must not end the agent
        raise ConfigError(f"the module {module!r} cannot be imported: {describe(exc)}") from exc
