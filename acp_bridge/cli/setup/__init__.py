"""`acp-bridge setup`: the settings that make an editor start this agent, printed or merged in.

Owns the command's words. What each editor wants is in `editors`; how a settings file is changed, in `merge` and
`files`.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.text import Text

from acp_bridge.cli.formatting import short_path, unknown_name
from acp_bridge.cli.parser import CommandParser
from acp_bridge.cli.terminal import console, print_line, print_wrapped, say
from acp_bridge.errors import ConfigError
from acp_bridge.llm import parse_route
from acp_bridge.tools import MODES

from .block import Block, Wanted
from .editors import EDITORS, RUN_BY_TESTS
from .files import Written, write_settings
from .locations import serve_command

_TEMPORARY: Final = ("/uv/archive-v", "/uv/environments-v", "/pipx/.cache/")


def main(argv: list[str]) -> int:
    """Print an editor's settings block, or merge it in.

    Raises:
        ConfigError: the editor, the model or the mode is not known.
        SettingsUnchanged: the settings could not be merged.
    """
    args = _parser().parse_args(argv)
    if args.editor is None:
        return _list()
    if args.editor not in EDITORS:
        raise unknown_name("editor", args.editor, EDITORS, remedy=f"known are {', '.join(EDITORS)}")
    wanted = Wanted(command=serve_command())
    if args.name is not None:
        wanted = replace(wanted, name=_name(args.name))
    wanted = replace(wanted, model=_model(args.model), mode=_mode(args.mode))
    name, make = EDITORS[args.editor]
    block = make(wanted)
    if args.write:
        return _write(args.editor, name, block)
    _print(args.editor, name, block)
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(
        "setup",
        "Prints the settings that make an editor start this agent, with this installation's path.",
        epilog="editors:\n" + "\n".join(f"  {word:<15} {name}" for word, (name, _) in EDITORS.items()),
    )
    parser.add_argument("editor", metavar="EDITOR", nargs="?", help="one of those below")
    parser.add_argument(
        "--write", action="store_true", help="merge them in, where the settings are JSON; a copy is kept"
    )
    parser.add_argument("--name", help="what the editor calls the agent (default: ACP Bridge)")
    parser.add_argument("--model", metavar="M", help="e.g. anthropic:claude-sonnet-4-5 (default: the configured one)")
    parser.add_argument("--mode", metavar="M", help=f"one of {', '.join(MODES)} (default: the configured one)")
    return parser


def _name(name: str) -> str:
    if not name.strip():
        raise ConfigError("--name must not be empty")
    return name.strip()


def _model(route: str | None) -> str:
    return "" if route is None else str(parse_route(route))


def _mode(mode: str | None) -> str:
    if mode is not None and mode not in MODES:
        raise unknown_name("mode", mode, MODES, remedy=f"modes are {', '.join(MODES)}")
    return mode or ""


def _list() -> int:
    print_line("For which editor? acp-bridge setup EDITOR prints its settings.\n")
    for word, (name, make) in EDITORS.items():
        written = "  (also --write)" if make(Wanted(command=("acp-bridge", "serve"))).file is not None else ""
        print_line(f"  {word:<15} {name}{written}")
    return 0


def _print(word: str, name: str, block: Block) -> None:
    """Print the block to stdout, alone if that is no terminal, and the words about it to where a person is."""
    terminal, aside = console(), console(stderr=True)
    if terminal.is_terminal:
        aside = terminal
    aside.print(Text.assemble((name, "bold"), ": put this into "), end="")
    aside.print(Text(block.where + (f", {short_path(str(block.file))}" if block.file else "") + ":"))
    if terminal.is_terminal:
        terminal.print(Text(f"\n{block.text}\n", style="cyan"), soft_wrap=True)
    else:
        print_line(block.text)
    for note in _notes(word, block):
        print_wrapped(aside, "· ", note)


def _notes(word: str, block: Block) -> list[str]:
    notes = list(block.notes)
    if word not in RUN_BY_TESTS:
        notes.append("Written from the editor's documentation and source; the tests did not run it there.")
    if block.file is not None:
        notes.append(f"`acp-bridge setup {word} --write` merges it in and keeps a copy of the file as it was.")
    return notes + _warnings()


def _warnings() -> list[str]:
    """Return what is wrong with starting this installation from an editor."""
    place = Path(sys.executable).as_posix()
    if any(part in place for part in _TEMPORARY):
        text = (
            "This installation is a temporary one and may vanish: install it first (`uv tool install "
            "acp-stdio-bridge` or `pipx install acp-stdio-bridge`) and run this again."
        )
        return [text]
    return []


def _write(word: str, name: str, block: Block) -> int:
    if block.file is None:
        raise ConfigError(
            f"the settings of {name} are no JSON, so they cannot be merged; `acp-bridge setup {word}` prints them"
        )
    written = write_settings(block.file, block.settings)
    print_line(_result_text(name, written))
    for note in (*block.notes, *_warnings()):
        say(f"· {note}")
    return 0


def _result_text(name: str, written: Written) -> str:
    match written.done:
        case "unchanged":
            return f"{name}: set up already, nothing changed in {written.path}."
        case "made":
            return f"{name}: set up in {written.path}, which was made."
        case "changed":
            return f"{name}: set up in {written.path}; as it was before, the file is kept as {written.copy}."
