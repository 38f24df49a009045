"""Which editors are on this machine, and whether they are told to start this agent. Reads settings, changes none."""

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

from acp_bridge.cli.formatting import short_path
from acp_bridge.cli.setup.jsonc import NotJsonc, parsed
from acp_bridge.cli.setup.places import config_folder, vscode_folder

from .check import Check

_NAMES: Final = ("acp-bridge", "acp_bridge")
_MOST_FILES, _MOST_BYTES = 400, 1_000_000
_JETBRAINS = ("idea", "pycharm", "webstorm", "goland", "clion", "rider", "rustrover", "phpstorm", "rubymine")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Editor:
    """Where an editor shows.

    Attributes:
        word: as `setup` takes it.
        commands: on PATH.
        folders: of its own.
        settings: a JSON file and the name in it under which agents are.
        texts: files in which words of ours are looked for.
    """

    word: str
    name: str
    commands: Sequence[str]
    folders: Sequence[Path] = ()
    settings: tuple[Path, str] | None = None
    texts: Sequence[tuple[Path, str]] = ()


def _known() -> tuple[_Editor, ...]:
    home, config = Path.home(), config_folder()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    emacs = ((home, ".emacs"), (home / ".emacs.d", "*.el"), (config / "emacs", "*.el"), (config / "doom", "*.el"))
    return (
        _Editor(
            word="zed",
            name="Zed",
            commands=("zed", "zeditor", "zedit"),
            folders=(config / "zed",),
            settings=(config / "zed" / "settings.json", "agent_servers"),
        ),
        _Editor(
            word="jetbrains",
            name="JetBrains",
            commands=_JETBRAINS,
            folders=(home / ".jetbrains", config / "JetBrains", home / "Library/Application Support/JetBrains"),
            settings=(home / ".jetbrains" / "acp.json", "agent_servers"),
        ),
        _Editor(
            word="vscode",
            name="VS Code",
            commands=("code",),
            folders=(vscode_folder(),),
            settings=(vscode_folder() / "User" / "settings.json", "acp.agents"),
        ),
        _Editor(
            word="codecompanion",
            name="Neovim",
            commands=("nvim",),
            folders=(config / "nvim", data / "nvim"),
            texts=((config / "nvim", "**/*.lua"), (config / "nvim", "*.vim")),
        ),
        _Editor(word="agent-shell", name="Emacs", commands=("emacs",), folders=(home / ".emacs.d",), texts=emacs),
        _Editor(
            word="acpx",
            name="acpx",
            commands=("acpx",),
            folders=(home / ".acpx",),
            settings=(home / ".acpx" / "config.json", "agents"),
        ),
        _Editor(word="toad", name="Toad", commands=("toad",)),  # told by its command line: it reads no file of ours
    )


def editors() -> list[Check]:
    """Look for editors; one line for each that is found."""
    found = [_looked_at(editor) for editor in _known() if _is_here(editor)]
    if not found:
        return [
            Check(
                name="Editors",
                level="warning",
                detail="none was found",
                remedy="`acp-bridge setup` lists those it knows; `acp-bridge run` needs none",
            )
        ]
    return found


def _is_here(editor: _Editor) -> bool:
    return any(shutil.which(command) for command in editor.commands) or any(path.is_dir() for path in editor.folders)


def _looked_at(editor: _Editor) -> Check:
    missing = Check(
        name=editor.name,
        detail="found, not set up for this agent",
        remedy=f"if you want it there: acp-bridge setup {editor.word}",
    )
    if editor.settings is None and not editor.texts:
        return Check(
            name=editor.name,
            detail="found; it keeps no settings for agents",
            remedy=f"the command that starts it with this one: acp-bridge setup {editor.word}",
        )
    if editor.settings is None:
        for path in _texts(editor):
            if _speaks_of_us(path):
                return Check(name=editor.name, detail=f"set up, {short_path(str(path))}")
        return missing
    file, member = editor.settings
    try:
        commands = list(_commands(file, member))
    except FileNotFoundError:
        return missing
    except (OSError, UnicodeDecodeError, NotJsonc) as exc:
        return Check(
            name=editor.name,
            level="warning",
            detail=f"{short_path(str(file))} cannot be read: {exc}",
            remedy="correct it; the editor will stumble over it too",
        )
    if not commands:
        return missing
    for command in commands:
        if os.path.isabs(command) and not os.access(command, os.X_OK):
            return Check(
                name=editor.name,
                level="problem",
                detail=f"{short_path(str(file))} starts {command}, which is not there",
                remedy=f"acp-bridge setup {editor.word} --write, with the --name that it has there",
            )
        if not os.path.isabs(command) and editor.word != "acpx" and not shutil.which(command):
            return Check(
                name=editor.name,
                level="warning",
                detail=f"{short_path(str(file))} starts {command!r}, which is not on PATH",
                remedy=f"acp-bridge setup {editor.word} --write puts in the whole path",
            )
    return Check(name=editor.name, detail=f"set up, {short_path(str(file))}")


def _commands(file: Path, member: str) -> Iterator[str]:
    """Yield the program that each entry of ours starts.

    Raises:
        OSError, UnicodeDecodeError, NotJsonc: the settings cannot be read.
    """
    value = parsed(file.read_text(encoding="utf-8"))
    servers = value.member(member) if value is not None else None
    for entry in (one.value.plain for one in (servers.value.members or () if servers is not None else ())):
        command, arguments = _command_line(entry)
        if any(name in text for name in _NAMES for text in (command, *arguments)):
            yield command


def _command_line(entry: Any) -> tuple[str, list[str]]:
    """Return the program and its arguments; acpx has both in one line, perhaps behind `env`."""
    match entry:
        case {"command": str() as command, "args": [*arguments]}:
            return command, [str(argument) for argument in arguments]
        case {"command": str() as command}:
            words = _words(command)
        case _:
            return "", []
    if words[:1] == ["env"]:
        words = [word for word in words[1:] if "=" not in word]
    return (words[0], words[1:]) if words else ("", [])


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return [line]


def _texts(editor: _Editor) -> Iterator[Path]:
    return islice(chain.from_iterable(folder.glob(pattern) for folder, pattern in editor.texts), _MOST_FILES)


def _speaks_of_us(path: Path) -> bool:
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return False
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(name in text for name in _NAMES)
