"""A block of settings: what an editor is told, as text and as what is merged into its file.

Owns the wish (`Wanted`), its answer (`Block`) and how JSON is laid out. Knows no editor.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .locations import SettingsFile
from .merge import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be set up.

    Attributes:
        command: the absolute command line of `acp-bridge serve`.
        name: as the editor shows it.
        model, mode: empty if the agent's own configuration decides.
    """

    command: tuple[str, ...]
    name: str = "ACP Bridge"
    model: str = ""
    mode: str = ""

    @property
    def env(self) -> dict[str, str]:
        """Return the variables that carry model and mode."""
        chosen = {"ACP_BRIDGE_MODEL": self.model, "ACP_BRIDGE_MODE": self.mode}
        return {name: value for name, value in chosen.items() if value}

    @property
    def line(self) -> str:
        """Return the command as one line for a shell, model and mode in it."""
        env = [f"{name}={value}" for name, value in self.env.items()]
        return shlex.join([*(["env", *env] if env else []), *self.command])


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What to put where.

    Attributes:
        text: the settings as they are printed.
        where: the place in words.
        file: where they are written, if they are JSON.
        settings: what is merged into `file`.
        notes: what else to know, a sentence each.
    """

    text: str
    where: str
    file: Path | None = None
    settings: Sequence[Setting] = ()
    notes: Sequence[str] = field(default=())


def json_block(
    where: str, file: SettingsFile, name: str, members: Mapping[str, Any], env: Mapping[str, str], *notes: str
) -> Block:
    """Return a block of JSON settings; only what makes the agent start replaces what the user has there."""
    path = (file.agents, name)
    settings = [
        Setting((*path, key), value, only_if_absent=key not in ("type", "command", "args"))
        for key, value in members.items()
        if key != "env"
    ]
    if "env" in members:
        settings.append(Setting((*path, "env"), {}, only_if_absent=True))
        settings += [Setting((*path, "env", variable), value) for variable, value in env.items()]
    shown: dict[str, Any] = dict(members)
    if "env" in shown:
        shown["env"] = dict(env)
    return Block(
        text=indent_json({file.agents: {name: shown}}), where=where, file=file.path, settings=settings, notes=notes
    )


def indent_json(value: Any, indent: str = "") -> str:
    """Return JSON with an object a block and a list a line."""
    if not isinstance(value, dict) or not value:
        return json.dumps(value, ensure_ascii=False)
    inner = indent + "  "
    lines = [
        f"{inner}{json.dumps(name)}: {indent_json(item, inner)}"
        for name, item in value.items()  # pyright: ignore[reportUnknownVariableType]  JSON
    ]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def quote(text: str) -> str:
    """Return a string as Lua, Emacs Lisp and TOML all read it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
