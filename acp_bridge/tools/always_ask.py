"""What asks always, wherever it lies and whether it is there or not: one table, which the README repeats.

Owns the names of what is run, or obeyed, without its user starting it: by a version control system, an editor, a shell,
another agent, a build service or an interpreter. Who could write there unasked could run anything. Only paths are
judged, after their links; no file is read.
"""

import os
import sys
import sysconfig
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeAlias

from acp_bridge.text import unseen

Asks: TypeAlias = Literal["", "change", "touch"]
"""Whether nothing asks, changes do, or reading does too."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: names of files, and of folders with all that lies below. `a/b` is a `b` in an `a`, `*.x` an end.

    Attributes:
        what: for a reader.
        names: as they are written; case does not count.
        reading: whether reading asks too.
        last: the name counts at a path's end alone: some folders are called so.
    """

    what: str
    names: tuple[str, ...]
    reading: bool = False
    last: bool = False

    def __str__(self) -> str:
        """Return the row as the README has it."""
        names = ", ".join(f"`{name}`" for name in self.names)
        return f"| {self.what} | {names} | {'yes' if self.reading else 'no'} |"


def _rule(what: str, names: str, *, reading: bool = False, last: bool = False) -> Rule:
    return Rule(what, tuple(names.split()), reading, last)


TABLE: Final = (
    _rule("version control", ".git .hg .svn .jj", reading=True),
    _rule("what makes a folder a repository", "HEAD .gitmodules .gitconfig .lfsconfig", last=True),
    _rule("keys", ".ssh .gnupg .netrc .pypirc .aws .kube", reading=True),
    _rule(
        "editors and their containers",
        ".vscode .zed .idea .fleet .vs .nvim .devcontainer .devcontainer.json *.code-workspace *.sublime-project "
        ".nvim.lua .nvimrc .vimrc .exrc .dir-locals.el .emacs .emacs.d",
    ),
    _rule(
        "agents, this one's notes among them",
        "AGENTS.md AGENTS.override.md CLAUDE.md CLAUDE.local.md GEMINI.md QWEN.md WARP.md CRUSH.md .mcp.json mcp.json "
        ".agents .claude .claude.json .codex .gemini .qwen .cursor .cursorrules .windsurf .windsurfrules .clinerules "
        ".trae .augment .factory .crush.json crush.json "
        ".roo .roomodes .kilocode .continue .kiro .junie .amp .opencode opencode.json opencode.jsonc .goosehints "
        ".aider.conf.yml .github/copilot-instructions.md .github/instructions .github/prompts .github/chatmodes "
        ".github/agents",
    ),
    _rule(
        "shells and what they start",
        ".envrc .direnv .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv "
        ".zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc .login config.fish .inputrc .tmux.conf .screenrc "
        ".gdbinit .lldbinit .pythonrc .pdbrc .npmrc .yarnrc .yarnrc.yml .tool-versions mise.toml .mise.toml .config "
        "LaunchAgents .cargo/config .cargo/config.toml",
    ),
    _rule(
        "hooks and build services",
        ".husky .githooks lefthook.yml .lefthook.yml .pre-commit-config.yaml .overcommit.yml .github/workflows "
        ".github/actions .forgejo/workflows .gitea/workflows .gitlab-ci.yml .circleci .buildkite .woodpecker "
        ".woodpecker.yml .drone.yml .travis.yml azure-pipelines.yml bitbucket-pipelines.yml Jenkinsfile",
    ),
    _rule(
        "installed code, which no review shows",
        "site-packages dist-packages node_modules .venv pyvenv.cfg *.pth sitecustomize.py usercustomize.py",
    ),
)

_NAMES: Final = {
    tuple(name.casefold().split("/")): "touch" if rule.reading else "change"
    for rule in TABLE
    for name in rule.names
    if not rule.last
}
_LAST: Final = tuple(name.casefold() for rule in TABLE if rule.last for name in rule.names)
_ENDS: Final = tuple(name[0].removeprefix("*") for name in _NAMES if name[0].startswith("*"))

UNREAD: Final = tuple(name for rule in TABLE if rule.reading for name in rule.names)
"""Names of folders and files that also ask before they are read: no search looks into them."""


def asked_by_name(path: Path) -> Asks:
    """Return what a resolved path asks for by the names in it; case, width and what no eye sees aside."""
    parts = [_plain(part) for part in path.parts]
    found = {"change" if parts[-1].endswith(_ENDS) or parts[-1] in _LAST else ""}
    for at, part in enumerate(parts):
        found |= {_NAMES.get((part,), ""), _NAMES.get((part, *parts[at + 1 : at + 2]), "")}
    return "touch" if "touch" in found else "change" if "change" in found else ""


def lies_below(path: Path, folders: Iterable[Path]) -> bool:
    """Whether `path` is one of `folders` or below it, also in a file system that knows no case."""
    parts = _folded(path)
    return any(parts[: len(folder.parts)] == _folded(folder) for folder in folders)


def is_repository(folder: Path) -> bool:
    """Whether git would take hooks and settings from `folder`: a bare one, or one that a `.git` file points to."""
    members = ("objects", "refs", "commondir", "config", "hooks")
    return os.path.lexists(folder / "HEAD") and any(os.path.lexists(folder / name) for name in members)


@cache
def own_code() -> tuple[Path, ...]:
    """Return where this program and what it imports lie: it would run what is written there."""
    found = {Path(__file__).parent.parent, *(Path(sysconfig.get_path(name)) for name in ("purelib", "platlib"))}
    if sys.prefix != sys.base_prefix:
        found.add(Path(sys.prefix))
    return tuple(path for folder in found for path in {folder, folder.resolve()})


def _plain(name: str) -> str:
    """Return `name` as some file system takes it."""
    if not name.isascii():
        hidden = {found.group() for found in unseen(name)}
        name = "".join(c for c in unicodedata.normalize("NFKC", name) if c not in hidden)
        name = "".join(c for c in name if unicodedata.category(c) != "Cf")
    return name.casefold().rstrip(". ")


def _folded(path: Path) -> tuple[str, ...]:
    return tuple(unicodedata.normalize("NFC", part).casefold() for part in path.parts)
