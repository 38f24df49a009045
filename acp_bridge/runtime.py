"""The parts of the program, made from a configuration; imported when the answer to `initialize` is out.

Owns which storage, policy, models and tools there are, and the order in which they are entered. Serves no protocol:
`app` puts a bridge, or whoever drives it from Python, in front.

The order is durable-sessions §6: storage, policy, runtime, front; each gets what the earlier ones gave, and they are
left strictly last first, so storage cannot go while a front still closes a turn.
"""

import importlib
import logging
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio

from acp_bridge import __version__
from acp_bridge.agent import Assembly, Models
from acp_bridge.agent import Options as AgentOptions
from acp_bridge.checkpoint import WITHOUT_BARRIERS, CoarsePolicy, policy_named
from acp_bridge.checkpoint import Options as CheckpointOptions
from acp_bridge.config import Config, default_file
from acp_bridge.effects import Deadline, Given, Key, Part, close_together
from acp_bridge.errors import ConfigError, StoreError
from acp_bridge.llm import (
    PRESETS,
    Model,
    detect_local,
    no_model_configured,
    open_model,
    options_from,
    parse_route,
    preload,
)
from acp_bridge.redaction import Secrets
from acp_bridge.session import Policy, Sessions, Store, VerifiedPolicy, require_all_barriers
from acp_bridge.storage import JsonlStore, MemoryStore
from acp_bridge.tools import (
    Commands,
    GuardedCommands,
    LocalFiles,
    McpServers,
    Mode,
    ServerSpec,
    Tool,
    builtin_tools,
    earlier_commands_ended,
)

logger = logging.getLogger(__name__)

SESSIONS: Key[Sessions] = Key("storage")
POLICY: Key[Policy] = Key("checkpoint policy")
ASSEMBLY: Key[Assembly] = Key("runtime")

DEFAULT_MODELS: Mapping[str, str] = {
    "openai": "gpt-5",
    "anthropic": "claude-sonnet-4-5",
    "deepseek": "deepseek-chat",
    "openrouter": "anthropic/claude-sonnet-4.5",
    "mistral": "devstral-medium-latest",
}
"""What a provider's key alone stands for."""

_RUNTIME_SHARE = 0.6
"""Of the time that is left, what closing the models and commands may take; the rest is for saving."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacements:
    """What a composition of one's own puts in the place of what the configuration names.

    Attributes:
        tools: beside the built-in ones; a tool of a built-in's name replaces it.
    """

    store: Store | None = None
    policy: Policy | None = None
    open_model: Callable[[str], Model] | None = None
    tools: tuple[Tool, ...] = ()


def home_of(config: Config) -> Path:
    """Return the folder for everything the program writes."""
    if config.home:
        return Path(config.home).expanduser().absolute()
    from platformdirs import user_data_path

    return user_data_path("acp-bridge", appauthor=False)


def parts(config: Config, replacements: Replacements, deadline: Callable[[], Deadline]) -> tuple[Part, ...]:
    """Return storage, policy and runtime, in this order; a front comes behind them."""

    def storage(_given: Given) -> AbstractAsyncContextManager[Sessions]:
        return _storage(config, replacements, deadline)

    def policy(_given: Given) -> AbstractAsyncContextManager[Policy]:
        return _policy(config, replacements)

    def runtime(given: Given) -> AbstractAsyncContextManager[Assembly]:
        return _runtime(config, replacements, given, deadline)

    return Part(SESSIONS, storage), Part(POLICY, policy), Part(ASSEMBLY, runtime)


@asynccontextmanager
async def _storage(
    config: Config, replacements: Replacements, deadline: Callable[[], Deadline]
) -> AsyncGenerator[Sessions]:
    sessions = Sessions(replacements.store or _store(config), version=__version__)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_sweep, sessions.store)
        try:
            yield sessions
        finally:
            tasks.cancel_scope.cancel()
            with deadline().within(1.0, "storage"):
                await sessions.aclose()


async def _sweep(store: Store) -> None:
    try:
        await store.sweep()
    except StoreError as exc:
        logger.warning("leftovers were not swept: %s", exc)


def _store(config: Config) -> Store:
    match config.storage:
        case "jsonl":
            return JsonlStore(home_of(config) / "sessions")
        case "memory":
            return MemoryStore()
        case name:
            return cast("Store", _named(name, "storage")(config))


@asynccontextmanager
async def _policy(config: Config, replacements: Replacements) -> AsyncGenerator[Policy]:
    options = CheckpointOptions(**config.checkpoint)
    if replacements.policy is not None:
        policy, name = replacements.policy, type(replacements.policy).__name__
    elif ":" in options.policy:
        policy, name = cast("Policy", _named(options.policy, "checkpoint.policy")(options)), options.policy
    else:
        policy, name = policy_named(options), options.policy
    if type(policy) is not CoarsePolicy:  # which is how a program says those words in Python
        require_all_barriers(policy, name, WITHOUT_BARRIERS)
    yield VerifiedPolicy.of(policy, options.deadline_s)


@asynccontextmanager
async def _runtime(
    config: Config, replacements: Replacements, given: Given, deadline: Callable[[], Deadline]
) -> AsyncGenerator[Assembly]:
    model_options = options_from(config.environ)
    models = Models(replacements.open_model or (lambda route: open_model(route, model_options)))
    route = config.model or keyed_route(config) or await _local_route(config)
    home = home_of(config)
    on_disk = config.storage == "jsonl" and replacements.store is None

    made: weakref.WeakSet[Commands] = weakref.WeakSet()  # a closed session's go by themselves

    def commands(session_id: str, secrets: Secrets) -> Commands:
        runner = GuardedCommands(
            config.environ,
            config.commands.get("env", ()),
            spill=home / "sessions" / session_id / "spill" if on_disk else None,
            running=home / "sessions" / f"{session_id}.running" if on_disk else None,
            secrets=secrets,
        )
        made.add(runner)
        return runner

    def servers(session_id: str, cwd: Path, specs: tuple[ServerSpec, ...]) -> McpServers:
        return McpServers(
            specs,
            env=config.environ,
            cwd=cwd,
            running=home / "sessions" / f"{session_id}.running" if on_disk else None,
            secrets=config.secrets,
        )

    async def earlier_ended(session_id: str) -> bool:
        return await earlier_commands_ended(home / "sessions" / f"{session_id}.running")

    def problem(wanted: str) -> str:
        if not wanted:
            return str(no_model_configured())
        if replacements.open_model is not None:
            return ""
        try:
            models.check(wanted)
        except ConfigError as exc:
            return str(exc)
        return ""

    try:
        yield Assembly(
            policy=given[POLICY],
            models=models,
            options=AgentOptions(**config.agent),
            tools=_tools(config, replacements),
            files=LocalFiles(),
            commands=commands,
            route=route,
            routes=tuple(dict.fromkeys(wanted for wanted in (route, *config.models) if wanted)),
            route_problem=problem,
            mode=cast("Mode", config.mode),
            spill=lambda session_id: home / "sessions" / session_id / "spill" if on_disk else None,
            protected=_protected(config, home),
            earlier_ended=earlier_ended if on_disk else None,
            secrets=config.secrets,
            servers=servers,
        )
    finally:
        with deadline().within(_RUNTIME_SHARE, "the models and commands"):
            await close_together((models.aclose, *(runner.aclose for runner in list(made))))


def _protected(config: Config, home: Path) -> tuple[Path, ...]:
    """Return what asks always: also where no file is yet, since what one names is imported at the next start."""
    files = (config.source, default_file(config.environ))
    return (home.resolve(), *(Path(file).resolve().parent for file in files if file))


def _tools(config: Config, replacements: Replacements) -> tuple[Tool, ...]:
    by_name = {tool.spec.name: tool for tool in builtin_tools()}
    for name in config.tools:
        tool = cast("Tool", _named(name, "tools")())
        by_name[tool.spec.name] = tool
    by_name.update({tool.spec.name: tool for tool in replacements.tools})
    return tuple(by_name.values())


def keyed_route(config: Config) -> str:
    """Return the route that a provider's key in the environment stands for; empty if there is none."""
    for provider, model in DEFAULT_MODELS.items():
        if config.environ.get(PRESETS[provider].key_variable, "").strip():
            return f"{provider}:{model}"
    return ""


async def _local_route(config: Config) -> str:
    server = await detect_local(options_from(config.environ).base_urls)
    return server.route if server is not None else ""


def preload_route(config: Config) -> None:
    """Import what the configured route needs and nothing else; for the warm-up thread."""
    route = config.model or keyed_route(config)
    if not route:
        return
    try:
        preload(parse_route(route))
    except ConfigError:
        return  # said when a session asks for it


def _named(name: str, setting: str) -> Callable[..., Any]:
    """Return what `module:name` stands for.

    Raises:
        ConfigError: there is no such thing, or it cannot be called.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as exc:
        raise ConfigError(f"{setting} names {name!r}, which cannot be imported as 'module:name': {exc}") from exc
    if not callable(found):
        raise ConfigError(f"{setting} names {name!r}, which cannot be called")
    return cast("Callable[..., Any]", found)
