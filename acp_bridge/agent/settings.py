"""What a front may set of a session, and to what: the one check under every front, be it an editor or a program.

Owns which options there are, what each takes, and which folders a session may work in. Stores nothing, and asks the
models only whether a route can be used.
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

import anyio.to_thread

from acp_bridge.errors import ConfigError
from acp_bridge.session import Place
from acp_bridge.text import mended_text
from acp_bridge.tools import MODES

OPTIONS = ("mode", "model", "thought_level")
"""What can be set of a session, by name."""

DEFAULT_LEVEL = "default"
"""The level of thought that suits the model, which is not told."""


class UnknownOption(ConfigError):
    """There is no such option; the message names those that there are."""


class UnusableRoute(ConfigError):
    """The model behind a route cannot be used now; the message says what to set."""


class UnusableFolder(ConfigError):
    """A session cannot work there.

    Attributes:
        path: the folder, as it was given.
    """

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


async def _usable(route: str) -> str:
    del route
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a session's options may be set to.

    Attributes:
        routes: the models to choose from, beside the one in force.
        problem: says what to do about a route that cannot be used, or returns `""`; it may take seconds.
        thought_levels: how hard a route's model can be asked to think; none where it cannot be asked.
        thinking: how hard it thinks unless a session says otherwise, by route.
    """

    routes: tuple[str, ...] = ()
    problem: Callable[[str], Awaitable[str]] = _usable
    thought_levels: Callable[[str], tuple[str, ...]] = lambda _route: ()
    thinking: Mapping[str, str] = field(default_factory=dict[str, str])

    def thought_level(self, chosen: object, *, route: str) -> str:
        """Return the level in force: the session's, else what is configured, as far as the model takes it."""
        levels = self.thought_levels(route)
        return next((str(level) for level in (chosen, self.thinking.get(route)) if level in levels), DEFAULT_LEVEL)

    def require(self, option: str, value: object, *, route: str) -> None:
        """Refuse what no option can be set to. `route` is the model in force.

        Raises:
            UnknownOption: there is no such option.
            ConfigError: it does not take this value; the message names what it takes.
        """
        match option:
            case "mode" if isinstance(value, str) and value in MODES:
                pass
            case "mode":
                raise ConfigError(f"no such mode; there are {', '.join(MODES)}")
            case "model" if value == route or value in self.routes:
                pass
            case "model":
                known = ", ".join(dict.fromkeys((*self.routes, *([route] if route else [])))) or "none"
                raise ConfigError(f"no such model is configured; there are {known}")
            case "thought_level" if (levels := self.thought_levels(route)) and value in (DEFAULT_LEVEL, *levels):
                pass
            case "thought_level" if levels := self.thought_levels(route):
                raise ConfigError(f"no such level of thought; there are {', '.join((DEFAULT_LEVEL, *levels))}")
            case "thought_level":
                raise ConfigError(f"the model {route!r} cannot be asked how hard to think")
            case _:
                raise UnknownOption(f"no such option; there are {', '.join(OPTIONS)}")

    async def require_usable(self, route: str) -> None:
        """Refuse a route whose model cannot be opened.

        Raises:
            UnusableRoute: it cannot.
        """
        if problem := await self.problem(route):
            raise UnusableRoute(problem)


async def place_of(cwd: str, roots: Iterable[str] = ()) -> Place:
    """Return where a session works, normalised once: `cwd` first of its roots.

    Raises:
        UnusableFolder: one of them is no absolute path, or no folder that is there.
    """
    paths = [_normal(path) for path in (cwd, *roots)]
    missing = await anyio.to_thread.run_sync(_first_missing, paths, abandon_on_cancel=True)
    if missing is not None:
        raise UnusableFolder(f"no such folder: {missing}", missing)
    return Place(cwd=paths[0], roots=tuple(dict.fromkeys(paths)))


def _normal(path: str) -> str:
    if not isinstance(cast("object", path), str):  # of a program that no type checker has read
        raise UnusableFolder(f"an absolute path is a text, not a value of type {type(path).__name__}", repr(path))
    plain = path.removeprefix("\\\\?\\")  # Windows' verbatim prefix breaks comparisons
    if not os.path.isabs(plain):
        raise UnusableFolder(f"not an absolute path: {path}", path)
    if "\0" in plain or mended_text(plain) != plain:
        raise UnusableFolder(f"no path: {path!r} has characters that a session cannot keep", path)
    return os.path.normpath(plain)


def _first_missing(paths: list[str]) -> str | None:
    return next((path for path in paths if not os.path.isdir(path)), None)
