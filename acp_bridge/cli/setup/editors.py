"""What each editor wants to be told to start this agent, and where.

One function an editor; knows no file's content.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from acp_bridge.config import KEY_VARIABLES

from .jsonc import Setting
from .places import config_folder, vscode_folder

IDENTIFIER: Final = "acp_bridge"


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


RUN_BY_TESTS: Final = frozenset({"acpx"})
"""Those whose printed settings the tests give to the editor itself; of any other it is said that nobody did."""


def _json_block(
    where: str, file: Path, path: tuple[str, ...], members: Mapping[str, Any], env: Mapping[str, str], *notes: str
) -> Block:
    """Return a block of JSON settings; only what makes the agent start replaces what the user has there."""
    settings = [
        Setting((*path, name), value, only_if_absent=name not in ("type", "command", "args"))
        for name, value in members.items()
        if name != "env"
    ]
    if "env" in members:
        settings.append(Setting((*path, "env"), {}, only_if_absent=True))
        settings += [Setting((*path, "env", name), value) for name, value in env.items()]
    shown: dict[str, Any] = dict(members)
    if "env" in shown:
        shown["env"] = dict(env)
    for name in reversed(path):
        shown = {name: shown}
    return Block(text=_indented(shown), where=where, file=file, settings=settings, notes=notes)


def _indented(value: Any, indent: str = "") -> str:
    """Return JSON with an object a block and a list a line."""
    if not isinstance(value, dict) or not value:
        return json.dumps(value, ensure_ascii=False)
    inner = indent + "  "
    lines = [
        f"{inner}{json.dumps(name)}: {_indented(item, inner)}"
        for name, item in value.items()  # pyright: ignore[reportUnknownVariableType]  JSON
    ]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def zed(wanted: Wanted) -> Block:
    """Zed: model and mode are options that it sends to each new session."""
    members: dict[str, Any] = {
        "type": "custom",
        "command": wanted.command[0],
        "args": list(wanted.command[1:]),
        "env": {},
    }
    path = ("agent_servers", wanted.name)
    block = _json_block(
        "Zed's settings.json (in Zed: `zed: open settings file`)",
        config_folder() / "zed" / "settings.json",
        path,
        members,
        {},
        "Keys go into `env`, since Zed started from a desktop does not see your shell's: "
        '"env": {"ANTHROPIC_API_KEY": "…"}.',
        "In Zed's agent panel choose it from the + menu; `dev: open acp logs` shows what is said.",
    )
    extra: list[Setting] = []
    shown = json.loads(block.text)
    server = shown["agent_servers"][wanted.name]
    if wanted.mode:
        server["default_mode"] = wanted.mode
        extra.append(Setting((*path, "default_mode"), wanted.mode))
    if wanted.model:
        server["default_config_options"] = {"model": wanted.model}
        extra.append(Setting((*path, "default_config_options", "model"), wanted.model))
    return replace(block, text=_indented(shown), settings=[*block.settings, *extra])


def jetbrains(wanted: Wanted) -> Block:
    """JetBrains IDEs."""
    return _json_block(
        "the file that the IDE reads agents from",
        Path.home() / ".jetbrains" / "acp.json",
        ("agent_servers", wanted.name),
        {
            "command": wanted.command[0],
            "args": list(wanted.command[1:]),
            "env": {},
            "use_idea_mcp": False,
            "use_custom_mcp": False,
        },
        wanted.env,
        "Keys go into `env` too.",
        "The IDE reads the file when its AI chat opens; choose the agent there.",
    )


def vscode(wanted: Wanted) -> Block:
    """VS Code with the extension vscode-acp, which unless told otherwise logs all that is said."""
    block = _json_block(
        "VS Code's user settings.json (`Preferences: Open User Settings (JSON)`), for the extension vscode-acp",
        vscode_folder() / "User" / "settings.json",
        ("acp.agents", wanted.name),
        {"command": wanted.command[0], "args": list(wanted.command[1:]), "env": {}},
        wanted.env,
        "Keys go into `env`, or into the environment that VS Code is started with.",
    )
    beside: dict[str, Any] = {"acp.logTraffic": False, "acp.autoApprovePermissions": "ask"}
    return replace(
        block,
        text=_indented(json.loads(block.text) | beside),
        settings=[*block.settings, *(Setting((name,), value, only_if_absent=True) for name, value in beside.items())],
    )


def acpx(wanted: Wanted) -> Block:
    """The command-line client acpx."""
    return _json_block(
        "acpx's settings",
        Path.home() / ".acpx" / "config.json",
        ("agents", IDENTIFIER),
        {"command": wanted.line},
        {},
        f"Then: acpx {IDENTIFIER} exec 'What is in this folder?'",
        f"Without settings: acpx --agent {shlex.quote(wanted.line)} exec '…'",
    )


def codecompanion(wanted: Wanted) -> Block:
    """Neovim with CodeCompanion."""
    options = ", ".join(
        f"{name} = {_quoted(value)}" for name, value in (("mode", wanted.mode), ("model", wanted.model)) if value
    )
    text = f"""\
require("codecompanion").setup({{
  adapters = {{
    acp = {{
      {IDENTIFIER} = function()
        return require("codecompanion.adapters").extend("kimi_cli", {{
          name = "{IDENTIFIER}",
          formatted_name = {_quoted(wanted.name)},
          commands = {{ default = {{ {", ".join(map(_quoted, wanted.command))} }} }},
          defaults = {{ timeout = 20000, mcpServers = {{}}, session_config_options = {{ {options} }} }},
          env = {{}},
          handlers = {{ auth = function() return true end }},
        }})
      end,
    }},
  }},
  interactions = {{ chat = {{ adapter = "{IDENTIFIER}" }} }},
}})"""
    return Block(
        text=text,
        where="your Neovim configuration, where codecompanion.nvim is set up",
        notes=("Older releases say `strategies` for `interactions`.", "Keys are taken from Neovim's environment."),
    )


def avante(wanted: Wanted) -> Block:
    """Neovim with avante."""
    variables = {name: _quoted(value) for name, value in wanted.env.items()}
    variables |= {name: f'os.getenv("{name}")' for name in KEY_VARIABLES}  # one that is not set is left out by Lua
    env = "".join(f"        {name} = {value},\n" for name, value in variables.items())
    text = f"""\
{{
  provider = "{IDENTIFIER}",
  acp_providers = {{
    {IDENTIFIER} = {{
      command = {_quoted(wanted.command[0])},
      args = {{ {", ".join(map(_quoted, wanted.command[1:]))} }},
      env = {{
{env}      }},
    }},
  }},
}}"""
    return Block(
        text=text,
        where="the options of avante.nvim in your Neovim configuration",
        notes=("Keys are taken from Neovim's environment.",),
    )


def agent_shell(wanted: Wanted) -> Block:
    """Emacs with agent-shell."""
    env = "".join(f" {_quoted(name)} {_quoted(value)}" for name, value in wanted.env.items())
    arguments = " ".join(map(_quoted, wanted.command[1:]))
    text = f"""\
(add-to-list 'agent-shell-agent-configs
  (agent-shell-make-agent-config
    :identifier '{IDENTIFIER}
    :mode-line-name {_quoted(wanted.name)}
    :buffer-name {_quoted(wanted.name)}
    :shell-prompt {_quoted(wanted.name + "> ")}
    :shell-prompt-regexp {_quoted(wanted.name + "> ")}
    :client-maker (lambda (buffer)
      (agent-shell--make-acp-client
        :command {_quoted(wanted.command[0])}
        :command-params '({arguments})
        :environment-variables (agent-shell-make-environment-variables{env} :inherit-env t)
        :context-buffer buffer))))"""
    return Block(
        text=text,
        where="your Emacs init file, after agent-shell is loaded",
        notes=("Keys are taken from Emacs's own environment.",),
    )


def toad(wanted: Wanted) -> Block:
    """Toad: a command line. It reads files about agents from within its own package alone."""
    return Block(
        text=f"toad acp {shlex.quote(wanted.line)} . --title {shlex.quote(wanted.name)}",
        where="a terminal, in the project's folder",
        notes=(
            (
                "Toad 0.6 has no folder for agents of one's own: a file put among those of its package is lost with "
                "the next upgrade, and one that lacks a key keeps Toad from starting at all."
            ),
            "Keys are taken from the terminal's environment.",
        ),
    )


def obsidian(wanted: Wanted) -> Block:
    """Obsidian: a form."""
    lines = [f"id            {IDENTIFIER}", f"display name  {wanted.name}", f"path          {wanted.command[0]}"]
    lines += [f"{'arguments' if not at else '':<13} {argument}" for at, argument in enumerate(wanted.command[1:])]
    lines += [f"{'env' if not at else '':<13} {name}={value}" for at, (name, value) in enumerate(wanted.env.items())]
    return Block(
        text="\n".join(lines),
        where="the settings of Obsidian's agent client, under custom agents: one argument and one variable a line",
    )


def marimo(wanted: Wanted) -> Block:
    """Marimo: a bridge to a WebSocket. Its panel has no field for an agent: it knows five, each by a fixed port."""
    return Block(
        text=f"npx stdio-to-ws {shlex.quote(wanted.line)} --port 3017",
        where="a terminal beside marimo, once the steps below are begun",
        notes=(
            (
                "1. In marimo's settings, among the experimental features, switch on External Agents, and load the "
                "page again."
            ),
            (
                "2. Start the line above in the project's folder. 3017 is the port that marimo has for Claude: no "
                "other agent may be running there."
            ),
            (
                "3. Open the AI panel in the side bar, choose its tab Agents, then New session, then Claude. What "
                f"answers under that name is {wanted.name}."
            ),
            "It holds one session an agent: start the line anew for another.",
        ),
    )


EDITORS: Final[Mapping[str, tuple[str, Callable[[Wanted], Block]]]] = {
    "zed": ("Zed", zed),
    "jetbrains": ("JetBrains IDEs", jetbrains),
    "codecompanion": ("Neovim with codecompanion.nvim", codecompanion),
    "avante": ("Neovim with avante.nvim", avante),
    "agent-shell": ("Emacs with agent-shell", agent_shell),
    "vscode": ("VS Code with vscode-acp", vscode),
    "acpx": ("acpx on the command line", acpx),
    "toad": ("Toad in the terminal", toad),
    "obsidian": ("Obsidian", obsidian),
    "marimo": ("marimo", marimo),
}
"""Each editor's name in full and what makes its block, by the word that the command takes."""


def _quoted(text: str) -> str:
    """Return a string as Lua, Emacs Lisp and TOML all read it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
