"""Where a path given by a model leads: resolved, then judged against the session's folders.

Owns what is refused and what lies inside; what asks always, `always_ask` says. Opens nothing: `files` does, without
following.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from acp_bridge.errors import ToolError
from acp_bridge.limits import PATH
from acp_bridge.text import mended_text

from .always_ask import Asks, asked_by_name, is_repository, lies_below, own_code
from .tool import Access, AccessKind, Call, Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A resolved path and how it lies to the workspace.

    Attributes:
        path: absolute, with every symbolic link followed, also where its last parts do not exist.
        inside: it lies in one of the roots.
        asks: whether it is, or lies in, something that asks always.
        spilled: it lies in the folder of whole outputs.
    """

    path: Path
    inside: bool
    asks: Asks
    spilled: bool

    def is_protected(self, kind: AccessKind) -> bool:
        """Whether such an access asks always."""
        return self.asks == "touch" or (self.asks == "change" and kind != "read")


def resolved(text: str, workspace: Workspace) -> Target:
    """Return where `text`, taken from the session's folder, leads. Touches the disk only to follow links.

    Raises:
        ToolError: it is no path, or one of a form that other programs would expand.
    """
    try:
        path = Path(os.path.realpath(workspace.cwd / _plain(text)))
    except OSError as exc:  # a link that is there when it is looked at, and gone when it is read
        raise ToolError(f"The path {text!r} changed while it was looked at: {exc.strerror}. Try again.") from exc
    spilled = workspace.spill is not None and path.is_relative_to(os.path.realpath(workspace.spill))
    return Target(
        path=path,
        inside=is_inside(path, workspace),
        asks=_asks(path, workspace),
        spilled=spilled,
    )


def accessed(kind: AccessKind, target: Target) -> Access:
    """Return what a call that touches only `target` asks for; a grant covers that very path."""
    if kind == "read" and target.spilled:
        return Access(kind=kind, paths=(target.path,))
    name = str(target.path)
    scope = name if name.isprintable() else repr(name)  # it is shown as what would be allowed from then on
    protected = target.is_protected(kind)
    if protected:
        scope = ""
    return Access(kind=kind, inside=target.inside, protected=protected, scope=scope, paths=(target.path,))


def is_inside(path: Path, workspace: Workspace) -> bool:
    """Whether a resolved path lies in a root. One that is a home folder, or everything, is no project."""
    return any(path.is_relative_to(root) and not _is_wide(root, workspace) for root in workspace.roots)


def _is_wide(root: Path, workspace: Workspace) -> bool:
    return root == Path(root.anchor) or root in workspace.homes


def closed_homes(workspace: Workspace) -> tuple[Path, ...]:
    """Return the home folders within a root: they are not what a project is about, unless a root lies in one."""
    roots = workspace.roots
    return tuple(
        home
        for home in workspace.homes
        if any(home != root and home.is_relative_to(root) for root in roots)
        and not any(root.is_relative_to(home) for root in roots)
    )


def permitted(text: str, call: Call) -> Path:
    """Return where `text` leads now, if that is still what permission was given for.

    Raises:
        ToolError: a link on the way was changed since.
    """
    target = resolved(text, call.workspace)
    path = target.path
    free = target.spilled or (target.inside and not target.asks)
    allowed = free if call.permitted is None else path in call.permitted
    if not allowed:
        raise ToolError(f"{text!r} leads somewhere else than when permission was given; nothing was done. Try again")
    return path


def lexical(text: object, workspace: Workspace) -> str:
    """Return an absolute path to be shown, without a look at the disk; the session's folder if `text` is no path."""
    if not isinstance(text, str):
        return str(workspace.cwd)
    return os.path.normpath(mended_text(os.path.join(workspace.cwd, text)))


def named(text: object, workspace: Workspace) -> object:
    """Return a path as a title names it: as it was given and, where a link leads it elsewhere, where to."""
    if not isinstance(text, str):
        return text
    try:
        target = resolved(text, workspace)
    except ToolError:  # it is said when the call is judged
        return text
    climbs = ".." in Path(text).parts and not target.inside  # a long title may leave that out of its middle
    if str(target.path) == lexical(text, workspace) and not climbs:
        return text
    return f"{text} → {placed(target.path, workspace)}"


def placed(path: Path, workspace: Workspace) -> str:
    """Return a resolved path for a person: as `shown`, and that it lies outside the project if it does."""
    return shown(path, workspace) + ("" if is_inside(path, workspace) else ", outside the project")


def shown(path: Path, workspace: Workspace) -> str:
    """Return `path` as a model or a person reads it best: relative to the session's folder if it lies there."""
    return str(path.relative_to(workspace.cwd)) if path.is_relative_to(workspace.cwd) else str(path)


def _plain(text: str) -> str:
    if not text:
        raise ToolError("the path is empty; give one relative to the session's folder, or an absolute one")
    if "\0" in text or mended_text(text) != text:
        raise ToolError(f"{text!r} is no path: it has characters that no file name can have")
    if len(text) > PATH:
        raise ToolError(f"the path is longer than {PATH:,} characters; no file has such a one")
    if text.startswith("~"):
        raise ToolError(f"{text!r}: '~' is not expanded; give the absolute path, or './~…' for a file so named")
    if "://" in text or text.casefold().startswith("file:"):
        raise ToolError(f"{text!r} is a URI; give a plain path")
    return text


def may_be_read(path: Path, workspace: Workspace) -> Callable[[Path], bool]:
    """Return whether a file below `path` may be read by who may read that; looks at each of its folders once."""
    repository = cache(is_repository)

    @cache
    def shut(folder: Path) -> bool:
        return _asks(folder, workspace, repository) == "touch"

    if shut(path):
        return lambda _file: True
    return lambda file: (
        not (shut(file.parent) or asked_by_name(Path(file.name)) == "touch" or file in workspace.protected)
    )


def _asks(path: Path, workspace: Workspace, repository: Callable[[Path], bool] = is_repository) -> Asks:
    root = _project(path, workspace)
    if (
        lies_below(path, (*workspace.protected, *closed_homes(workspace)))
        or path.is_relative_to("/proc")  # a process's environment holds keys
        or any(repository(folder) for folder in (path, *path.parents) if root is None or not _is_above(folder, root))
    ):
        return "touch"
    named = asked_by_name(path)
    if named == "change" and root is not None and path != root:
        named = asked_by_name(path.relative_to(root.parent))
    return named or ("change" if lies_below(path, own_code()) else "")


def _project(path: Path, workspace: Workspace) -> Path | None:
    """Return the innermost root that a path lies in. What a user opened is a project, wherever it lies.

    Other agents keep worktrees in folders of theirs (`.claude/worktrees/x`), people open `~/.config/nvim`.
    """
    around = [root for root in workspace.roots if path.is_relative_to(root) and not _is_wide(root, workspace)]
    return max(around, key=lambda root: len(root.parts), default=None)


def _is_above(folder: Path, root: Path) -> bool:
    """Whether a folder holds a root that is a checkout by itself: worktrees often lie in their bare repository."""
    return folder != root and root.is_relative_to(folder) and os.path.lexists(root / ".git")
