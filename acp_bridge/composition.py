"""The parts of the program, made from a configuration; imported when the answer to `initialize` is out.

Owns which storage, policy, models and tools there are, and the order in which they are entered. Serves no protocol:
`app` puts a bridge, or whoever drives it from Python, in front.

The order is rule D41 of ARCHITECTURE.md: storage, policy, runtime, front; each gets what the earlier ones gave, and
they are left strictly last first, so storage cannot go while a front still closes a turn.
"""

import logging
import os
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from acp_bridge import __version__
from acp_bridge.agent import Assembly, Models, Settings
from acp_bridge.config import Config, default_file
from acp_bridge.effects import Deadline, Key, Part, Services, close_together, open_host
from acp_bridge.errors import StoreError
from acp_bridge.llm import (
    PRESETS,
    detect_local,
    is_judged,
    no_model_configured,
    options_from,
    takes_images,
    thought_levels,
)
from acp_bridge.llm import Options as LlmOptions
from acp_bridge.plugins import part_settings, preload, require_used_tables
from acp_bridge.redaction import Secrets
from acp_bridge.replacements import (
    Replacements,
    all_tools,
    checkpoint_policy,
    entering,
    foreign_store,
    is_foreign,
    model_opener,
    observers_of,
)
from acp_bridge.session import Policy, Sessions, Store
from acp_bridge.storage import JsonlStore, MemoryStore
from acp_bridge.tools import (
    Commands,
    GuardedCommands,
    LocalFiles,
    McpServers,
    ServerSpec,
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

ENTER_S = 30.0
"""How long one part of a third party's may take to set itself up, in seconds."""

_PART_SHARE = 0.5
"""Of the time that is left, what one part of a third party's may take to be left."""

_SAVING_SHARE = 0.7
"""Of the time that is left, what saving may take where the storage is to be left after it."""

_RUNTIME_SHARE = 0.6
"""Of the time that is left, what closing the models and commands may take; the rest is for saving."""


def home_of(config: Config) -> Path:
    """Return the folder for everything the program writes."""
    if config.home:
        return Path(config.home).expanduser().absolute()
    from platformdirs import user_data_path

    return user_data_path("acp-bridge", appauthor=False)


def parts(config: Config, replacements: Replacements, deadline: Callable[[], Deadline]) -> tuple[Part, ...]:
    """Return storage, policy and runtime, in this order; a front comes behind them."""

    def storage(_services: Services) -> AbstractAsyncContextManager[Sessions]:
        return _storage(config, replacements, deadline)

    def policy(_services: Services) -> AbstractAsyncContextManager[Policy]:
        return _policy(config, replacements, deadline)

    def runtime(services: Services) -> AbstractAsyncContextManager[Assembly]:
        return _runtime(config, replacements, services, deadline)

    return Part(SESSIONS, storage), Part(POLICY, policy), Part(ASSEMBLY, runtime)


@asynccontextmanager
async def _storage(
    config: Config, replacements: Replacements, deadline: Callable[[], Deadline]
) -> AsyncGenerator[Sessions]:
    names = part_settings(config)
    if replacements == Replacements():
        require_used_tables(config)
    if names:
        await anyio.to_thread.run_sync(preload, names)
    async with open_host(enter_s=ENTER_S, leave_s=lambda: deadline().remaining_s() * _PART_SHARE) as host:
        observers = await observers_of(config, replacements, entering(host))
        store = await foreign_store(config, replacements, entering(host)) or _store(config)
        sessions = Sessions(store, version=__version__, observers=observers)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_sweep, store)
            try:
                yield sessions
            finally:
                tasks.cancel_scope.cancel()
                with deadline().within(1.0 if isinstance(store, JsonlStore) else _SAVING_SHARE, "storage"):
                    await sessions.aclose()


async def _sweep(store: Store) -> None:
    try:
        await store.sweep()
    except StoreError as exc:
        logger.warning("leftovers were not swept: %s", exc)


def _store(config: Config) -> Store:
    return MemoryStore() if config.storage == "memory" else JsonlStore(home_of(config) / "sessions")


@asynccontextmanager
async def _policy(
    config: Config, replacements: Replacements, deadline: Callable[[], Deadline]
) -> AsyncGenerator[Policy]:
    async with open_host(enter_s=ENTER_S, leave_s=lambda: deadline().remaining_s() * _PART_SHARE) as host:
        yield await checkpoint_policy(config, replacements, entering(host))


@asynccontextmanager
async def _runtime(
    config: Config, replacements: Replacements, services: Services, deadline: Callable[[], Deadline]
) -> AsyncGenerator[Assembly]:
    route = config.model or keyed_route(config) or await _local_route(config)
    home = home_of(config)
    on_disk = config.storage == "jsonl" and replacements.store is None

    made: weakref.WeakSet[Commands] = weakref.WeakSet()  # a closed session's go by themselves

    def commands(session_id: str, secrets: Secrets) -> Commands:
        runner = GuardedCommands(
            config.environ,
            config.commands.env,
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

    model_options = options_from(config.environ, config.model_settings)

    async def earlier_ended(session_id: str) -> bool:
        return await earlier_commands_ended(home / "sessions" / f"{session_id}.running")

    async with open_host(enter_s=ENTER_S, leave_s=lambda: deadline().remaining_s() * _PART_SHARE) as host:
        tools = await all_tools(config, replacements, entering(host))
        models = Models(
            model_opener(config, replacements, entering(host)),
            takes_images=partial(takes_images, options=model_options),
            is_judged=partial(_is_judged, replacements, model_options),
        )
        try:
            yield Assembly(
                policy=services[POLICY],
                models=models,
                options=config.agent,
                system=replacements.system or config.agent.system,
                tools=tools,
                files=LocalFiles(),
                commands=commands,
                route=route,
                settings=Settings(
                    routes=tuple(dict.fromkeys(wanted for wanted in (route, *config.models) if wanted)),
                    problem=partial(_problem, models, config.secrets),
                    thought_levels=partial(thought_levels, options=model_options),
                    thinking={
                        route: said.thinking
                        for route, said in model_options.models.items()
                        if said.thinking is not None
                    },
                ),
                mode=config.mode,
                spill=lambda session_id: home / "sessions" / session_id / "spill" if on_disk else None,
                protected=_protected(config, home),
                homes=_homes(config),
                earlier_ended=earlier_ended if on_disk else None,
                secrets=config.secrets,
                servers=servers,
            )
        finally:
            with deadline().within(_RUNTIME_SHARE, "the models and commands"):
                await close_together((models.aclose, *(runner.aclose for runner in list(made))))


def _is_judged(replacements: Replacements, options: LlmOptions, route: str) -> bool:
    """Whether a route is one of this program's own that could be judged without opening it; raises what is wrong."""
    return replacements.open_model is None and not is_foreign(route) and is_judged(route, options)


async def _problem(models: Models, secrets: Secrets, wanted: str) -> str:
    """Return what to do about a route that cannot be used; empty if it can."""
    return secrets.hidden(await models.problem(wanted)) if wanted else str(no_model_configured())


def _protected(config: Config, home: Path) -> tuple[Path, ...]:
    """Return what asks always: also where no file is yet, since what one names is imported at the next start."""
    files = (config.source, default_file(config.environ))
    return (home.resolve(), *(Path(file).resolve().parent for file in files if file))


def _homes(config: Config) -> tuple[Path, ...]:
    """Return the user's home folder, as the configuration's environment and as the system has it."""
    named = (config.environ.get("HOME", ""), os.path.expanduser("~"))
    return tuple({Path(home).resolve() for home in named if os.path.isabs(home)})


def configured_servers(config: Config) -> tuple[ServerSpec, ...]:
    """Return the servers of tools that the configuration names for sessions without an editor."""
    return tuple(
        ServerSpec(name=name, command=said.command, args=said.args, env=said.env)
        for name, said in config.mcp_servers.items()
    )


def keyed_route(config: Config) -> str:
    """Return the route that a provider's key in the environment stands for; empty if there is none."""
    for provider, model in DEFAULT_MODELS.items():
        if config.environ.get(PRESETS[provider].key_variable, "").strip():
            return f"{provider}:{model}"
    return ""


async def _local_route(config: Config) -> str:
    server = await detect_local(options_from(config.environ).base_urls)
    return server.route if server is not None else ""
