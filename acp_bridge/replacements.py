"""What a composition of one's own puts in the place of this program's parts, by configuration or from Python.

Owns how each port's part is made, entered, held to its port and contained. Knows neither the order of the parts (see
`composition`) nor what they do.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import cast

from acp_bridge.checkpoint import WITHOUT_BARRIERS, CoarsePolicy, policy_named
from acp_bridge.config import Config
from acp_bridge.effects import Host
from acp_bridge.errors import BridgeError, ConfigError
from acp_bridge.llm import ContainedModel, Model, is_provider, open_model, options_from, parse_route
from acp_bridge.plugins import is_named, make_part
from acp_bridge.ports import require_port
from acp_bridge.session import (
    ContainedStore,
    ObserverSource,
    Policy,
    Store,
    VerifiedPolicy,
    require_all_barriers,
)
from acp_bridge.text import describe
from acp_bridge.tools import Tool, builtin_tools, composed_tools

Enter = Callable[[object, str], Awaitable[object]]
"""Enters a part's own set-up, if it has one, and returns the part that is to be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacements:
    """What a composition of one's own puts in the place of what the configuration names.

    A part that has `__aenter__` and `__aexit__` is entered before it is used, and left in its place in the order.

    Attributes:
        tools: beside the built-in ones; a tool of a built-in's name replaces it.
        observers: beside those that the configuration names.
        system: what the model is told it is, in place of the configured or built-in role.
    """

    store: Store | None = None
    policy: Policy | None = None
    open_model: Callable[[str], Model] | None = None
    tools: tuple[Tool, ...] = ()
    observers: tuple[ObserverSource, ...] = ()
    system: str = ""


def entering(host: Host) -> Enter:
    """Return what enters parts at `host`, with a user's words for a set-up that fails."""

    async def enter(part: object, name: str) -> object:
        try:
            return await host.enter(part, name)
        except BridgeError:
            raise
        except Exception as exc:
            raise ConfigError(f"{name} could not be set up: {describe(exc)}") from exc

    return enter


async def observers_of(config: Config, replacements: Replacements, enter: Enter) -> tuple[ObserverSource, ...]:
    """Return who is told of every session's events, in order.

    Raises:
        ConfigError: one cannot be made or set up, or is none.
    """
    found: list[ObserverSource] = []
    for name, part in _parts(config, config.observers, "observers", replacements.observers):
        source = await enter(part, f"the observer {name}")
        require_port(source, ObserverSource, name, "observer")
        found.append(cast("ObserverSource", source))
    return tuple(found)


async def foreign_store(config: Config, replacements: Replacements, enter: Enter) -> Store | None:
    """Return the third party's store, contained; None if the built-in ones are meant.

    Raises:
        ConfigError: it cannot be made or set up, or is none.
    """
    if replacements.store is not None:
        name, part = f"'{type(replacements.store).__name__}'", cast("object", replacements.store)
    elif config.storage not in ("jsonl", "memory"):
        name, part = repr(config.storage), make_part(config, config.storage, "storage", config)
    else:
        return None
    store = await enter(part, f"the storage {name}")
    require_port(store, Store, name, "storage")
    return ContainedStore(cast("Store", store), name)


async def checkpoint_policy(config: Config, replacements: Replacements, enter: Enter) -> Policy:
    """Return the checkpoint policy as the core calls it.

    Raises:
        ConfigError: it cannot be made or set up, is none, or leaves barriers out.
    """
    options = config.checkpoint
    if replacements.policy is not None:
        name, part = type(replacements.policy).__name__, cast("object", replacements.policy)
    elif is_named(options.policy):
        name, part = options.policy, make_part(config, options.policy, "checkpoint.policy", options)
    else:
        name, part = options.policy, policy_named(options)
    policy = cast("Policy", await enter(part, f"the checkpoint policy {name!r}"))
    require_port(policy, Policy, repr(name), "checkpoint policy")
    if type(policy) is not CoarsePolicy:  # which is how a program says those words in Python
        _require_barriers(policy, name)
    return VerifiedPolicy.of(policy, options.deadline_s)


def _require_barriers(policy: Policy, name: str) -> None:
    try:
        require_all_barriers(policy, name, WITHOUT_BARRIERS)
    except ConfigError:
        raise
    except Exception as exc:
        raise ConfigError(f"the checkpoint policy {name!r} cannot say its barriers: {describe(exc)}") from exc


async def all_tools(config: Config, replacements: Replacements, enter: Enter) -> tuple[Tool, ...]:
    """Return the built-in tools and the third parties', contained.

    Raises:
        ConfigError: one cannot be made or set up, is none, or is offered as no provider takes it.
    """
    further: list[tuple[str, Tool]] = []
    for name, part in _parts(config, config.tools, "tools", replacements.tools):
        further.append((name, cast("Tool", await enter(part, f"the tool {name}"))))
    return composed_tools(builtin_tools(), further)


def model_opener(config: Config, replacements: Replacements, enter: Enter) -> Callable[[str], Model]:
    """Return what opens the model behind a route: a registered provider's, else a third party's, contained.

    What it returns raises `ConfigError` for a route that cannot be opened.
    """
    options = options_from(config.environ, config.model_settings, config.requests)

    def open_route(route: str) -> Model:
        if replacements.open_model is not None:
            try:
                part: object = replacements.open_model(route)
            except BridgeError:
                raise
            except Exception as exc:
                raise ConfigError(f"the model {route!r} could not be opened: {describe(exc)}") from exc
        elif is_foreign(route):
            part = _make_named_model(config, route)
        else:
            return open_model(route, options)
        return _contain(part, route, enter)

    return open_route


def is_foreign(route: str) -> bool:
    """Whether a route names a third party's model: `module:name`, and the module is no provider of this program's."""
    return is_named(route) and not is_provider(route.partition(":")[0])


def _make_named_model(config: Config, route: str) -> object:
    try:
        return make_part(config, route, "model")
    except ConfigError as exc:
        try:
            parse_route(route)
        except ConfigError as no_route:
            raise ConfigError(f"{exc}. Nor is it a provider's: {no_route}") from exc
        raise


def _contain(part: object, route: str, enter: Enter) -> Model:
    async def enter_model() -> object:
        model = await enter(part, f"the model {route!r}")
        require_port(model, Model, repr(route), "model")
        return model

    if not hasattr(type(part), "__aenter__"):  # else what it is entered as is held to the port
        require_port(part, Model, repr(route), "model")
    return ContainedModel(cast("Model", part), repr(route), enter_model)


def _parts(
    config: Config, names: tuple[str, ...], setting: str, given: tuple[object, ...]
) -> Iterator[tuple[str, object]]:
    for name in names:
        yield repr(name), make_part(config, name, setting)
    for part in given:
        yield f"'{type(part).__name__}'", part
