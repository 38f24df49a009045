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
from acp_bridge.cli.setup.jsonc import NotJsonc, parse
from acp_bridge.cli.setup.locations import (
    SettingsFile,
    acpx_settings,
    config_folder,
    jetbrains_settings,
    vscode_folder,
    vscode_settings,
    zed_settings,
)

from .report import Check

_NAMES: Final = ("acp-bridge", "acp_bridge")
_MOST_FILES, _MOST_BYTES = 400, 1_000_000  # some keep whole plugins in the folder of their settings
_JETBRAINS = ("idea", "pycharm", "webstorm", "goland", "clion", "rider", "rustrover", "phpstorm", "rubymine")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Editor:
    """Where an editor shows.

    Attributes:
        word: as `setup` takes it.
        commands: on PATH.
        folders: of its own.
        settings: the file in which its agents are, if that is JSON.
        texts: else the files in which words of ours are looked for.
    """

    word: str
    name: str
    commands: Sequence[str]
    folders: Sequence[Path] = ()
    settings: SettingsFile | None = None
    texts: Sequence[tuple[Path, str]] = ()

    @property
    def is_here(self) -> bool:
        """Whether it seems to be installed."""
        return any(map(shutil.which, self.commands)) or any(path.is_dir() for path in self.folders)


def _installable() -> Iterator[_Editor]:
    home, config = Path.home(), config_folder()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    zed, acpx = ("zed", "zeditor", "zedit"), (home / ".acpx",)
    jetbrains = (home / ".jetbrains", config / "JetBrains", home / "Library/Application Support/JetBrains")
    nvim = ((config / "nvim", "**/*.lua"), (config / "nvim", "*.vim"))
    emacs = ((home, ".emacs"), (home / ".emacs.d", "*.el"), (config / "emacs", "*.el"), (config / "doom", "*.el"))
    for word, name, commands, folders, settings in (
        ("zed", "Zed", zed, (config / "zed",), zed_settings()),
        ("jetbrains", "JetBrains", _JETBRAINS, jetbrains, jetbrains_settings()),
        ("vscode", "VS Code", ("code",), (vscode_folder(),), vscode_settings()),
    ):
        yield _Editor(word=word, name=name, commands=commands, folders=folders, settings=settings)
    for word, name, commands, folders, texts in (
        ("codecompanion", "Neovim", ("nvim",), (config / "nvim", data / "nvim"), nvim),
        ("agent-shell", "Emacs", ("emacs",), (home / ".emacs.d",), emacs),
    ):
        yield _Editor(word=word, name=name, commands=commands, folders=folders, texts=texts)
    yield _Editor(word="acpx", name="acpx", commands=("acpx",), folders=acpx, settings=acpx_settings())
    yield _Editor(word="toad", name="Toad", commands=("toad",))  # told by its command line: it reads no file of ours


def editors() -> list[Check]:
    """Look for editors; one line for each that is found."""
    found = [_check(editor) for editor in _installable() if editor.is_here]
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


def _check(editor: _Editor) -> Check:
    if editor.settings is not None:
        return _check_settings(editor, editor.settings)
    if not editor.texts:
        return Check(
            name=editor.name,
            detail="found; it keeps no settings for agents",
            remedy=f"the command that starts it with this one: acp-bridge setup {editor.word}",
        )
    path = next(filter(_mentions_us, _texts(editor)), None)
    return _not_set_up(editor) if path is None else _set_up(editor, path)


def _check_settings(editor: _Editor, settings: SettingsFile) -> Check:
    try:
        commands = list(_commands(settings))
    except FileNotFoundError:
        return _not_set_up(editor)
    except (OSError, UnicodeDecodeError, NotJsonc) as exc:
        return Check(
            name=editor.name,
            level="warning",
            detail=f"{short_path(str(settings.path))} cannot be read: {exc}",
            remedy="correct it; the editor will stumble over it too",
        )
    if not commands:
        return _not_set_up(editor)
    wrong = (_check_command(editor, settings, command) for command in commands)
    return next(filter(None, wrong), None) or _set_up(editor, settings.path)


def _check_command(editor: _Editor, settings: SettingsFile, command: str) -> Check | None:
    """Return what keeps an editor from starting a program of ours; None if nothing does."""
    file = short_path(str(settings.path))
    if os.path.isabs(command) and not os.access(command, os.X_OK):
        return Check(
            name=editor.name,
            level="problem",
            detail=f"{file} starts {command}, which is not there",
            remedy=f"acp-bridge setup {editor.word} --write, with the --name that it has there",
        )
    if not os.path.isabs(command) and editor.word != "acpx" and not shutil.which(command):
        return Check(
            name=editor.name,
            level="warning",
            detail=f"{file} starts {command!r}, which is not on PATH",
            remedy=f"acp-bridge setup {editor.word} --write puts in the whole path",
        )
    return None


def _set_up(editor: _Editor, file: Path) -> Check:
    return Check(name=editor.name, detail=f"set up, {short_path(str(file))}")


def _not_set_up(editor: _Editor) -> Check:
    return Check(
        name=editor.name,
        detail="found, not set up for this agent",
        remedy=f"if you want it there: acp-bridge setup {editor.word}",
    )


def _commands(settings: SettingsFile) -> Iterator[str]:
    """Yield the program that each entry of ours starts.

    Raises:
        OSError, UnicodeDecodeError, NotJsonc: the settings cannot be read.
    """
    value = parse(settings.path.read_text(encoding="utf-8"))
    servers = value.member(settings.agents) if value is not None else None
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


def _mentions_us(path: Path) -> bool:
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return False
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(name in text for name in _NAMES)
