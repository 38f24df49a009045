"""What each editor wants to be told to start this agent, and where.

One function an editor; knows no file's content.
"""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from acp_bridge.config import KEY_VARIABLES

from .block import Block, Wanted, indent_json, json_block, quote
from .locations import acpx_settings, jetbrains_settings, vscode_settings, zed_settings
from .merge import Setting

IDENTIFIER: Final = "acp_bridge"


RUN_BY_TESTS: Final = frozenset({"acpx"})
"""Those whose printed settings the tests give to the editor itself; of any other it is said that nobody did."""


def zed(wanted: Wanted) -> Block:
    """Zed: model and mode are options that it sends to each new session."""
    members: dict[str, Any] = {
        "type": "custom",
        "command": wanted.command[0],
        "args": list(wanted.command[1:]),
        "env": {},
    }
    file = zed_settings()
    block = json_block(
        "Zed's settings.json (in Zed: `zed: open settings file`)",
        file,
        wanted.name,
        members,
        {},
        "Keys go into `env`, since Zed started from a desktop does not see your shell's: "
        '"env": {"ANTHROPIC_API_KEY": "…"}.',
        "In Zed's agent panel choose it from the + menu; `dev: open acp logs` shows what is said.",
    )
    extra: list[Setting] = []
    shown = json.loads(block.text)
    server = shown[file.agents][wanted.name]
    path = (file.agents, wanted.name)
    if wanted.mode:
        server["default_mode"] = wanted.mode
        extra.append(Setting((*path, "default_mode"), wanted.mode))
    if wanted.model:
        server["default_config_options"] = {"model": wanted.model}
        extra.append(Setting((*path, "default_config_options", "model"), wanted.model))
    return replace(block, text=indent_json(shown), settings=[*block.settings, *extra])


def jetbrains(wanted: Wanted) -> Block:
    """JetBrains IDEs."""
    return json_block(
        "the file that the IDE reads agents from",
        jetbrains_settings(),
        wanted.name,
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
    block = json_block(
        "VS Code's user settings.json (`Preferences: Open User Settings (JSON)`), for the extension vscode-acp",
        vscode_settings(),
        wanted.name,
        {"command": wanted.command[0], "args": list(wanted.command[1:]), "env": {}},
        wanted.env,
        "Keys go into `env`, or into the environment that VS Code is started with.",
    )
    beside: dict[str, Any] = {"acp.logTraffic": False, "acp.autoApprovePermissions": "ask"}
    return replace(
        block,
        text=indent_json(json.loads(block.text) | beside),
        settings=[*block.settings, *(Setting((name,), value, only_if_absent=True) for name, value in beside.items())],
    )


def acpx(wanted: Wanted) -> Block:
    """The command-line client acpx."""
    return json_block(
        "acpx's settings",
        acpx_settings(),
        IDENTIFIER,
        {"command": wanted.line},
        {},
        f"Then: acpx {IDENTIFIER} exec 'What is in this folder?'",
        f"Without settings: acpx --agent {shlex.quote(wanted.line)} exec '…'",
    )


def codecompanion(wanted: Wanted) -> Block:
    """Neovim with CodeCompanion."""
    options = ", ".join(
        f"{name} = {quote(value)}" for name, value in (("mode", wanted.mode), ("model", wanted.model)) if value
    )
    text = f"""\
require("codecompanion").setup({{
  adapters = {{
    acp = {{
      {IDENTIFIER} = function()
        return require("codecompanion.adapters").extend("kimi_cli", {{
          name = "{IDENTIFIER}",
          formatted_name = {quote(wanted.name)},
          commands = {{ default = {{ {", ".join(map(quote, wanted.command))} }} }},
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
    variables = {name: quote(value) for name, value in wanted.env.items()}
    variables |= {name: f'os.getenv("{name}")' for name in KEY_VARIABLES}  # one that is not set is left out by Lua
    env = "".join(f"        {name} = {value},\n" for name, value in variables.items())
    text = f"""\
{{
  provider = "{IDENTIFIER}",
  acp_providers = {{
    {IDENTIFIER} = {{
      command = {quote(wanted.command[0])},
      args = {{ {", ".join(map(quote, wanted.command[1:]))} }},
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
    env = "".join(f" {quote(name)} {quote(value)}" for name, value in wanted.env.items())
    arguments = " ".join(map(quote, wanted.command[1:]))
    text = f"""\
(add-to-list 'agent-shell-agent-configs
  (agent-shell-make-agent-config
    :identifier '{IDENTIFIER}
    :mode-line-name {quote(wanted.name)}
    :buffer-name {quote(wanted.name)}
    :shell-prompt {quote(wanted.name + "> ")}
    :shell-prompt-regexp {quote(wanted.name + "> ")}
    :client-maker (lambda (buffer)
      (agent-shell--make-acp-client
        :command {quote(wanted.command[0])}
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
