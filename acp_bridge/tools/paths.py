"""Where a path given by a model leads: resolved, then judged against the session's folders.

Owns what is refused, what lies inside, and what asks always. Opens nothing: `files` does, without following.
"""

import os
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from acp_bridge.errors import ToolError
from acp_bridge.limits import PATH
from acp_bridge.text import mended_text

from .tool import Access, AccessKind, Call, Workspace

GIT = ".git"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A resolved path and how it lies to the workspace.

    Attributes:
        path: absolute, with every symbolic link followed, also where its last parts do not exist.
        inside: it lies in one of the roots.
        protected: it is, or lies in, something that asks always.
        spilled: it lies in the folder of whole outputs.
    """

    path: Path
    inside: bool
    protected: bool
    spilled: bool


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
        inside=any(path.is_relative_to(root) for root in workspace.roots),
        protected=_is_protected(path, workspace),
        spilled=spilled,
    )


def accessed(kind: AccessKind, target: Target) -> Access:
    """Return what a call that touches only `target` asks for; a grant covers that very path."""
    if kind == "read" and target.spilled:
        return Access(kind=kind, paths=(target.path,))
    name = str(target.path)
    scope = name if name.isprintable() else repr(name)  # it is shown as what would be allowed from then on
    if target.protected:
        scope = ""
    return Access(kind=kind, inside=target.inside, protected=target.protected, scope=scope, paths=(target.path,))


def permitted(text: str, call: Call) -> Path:
    """Return where `text` leads now, if that is still what permission was given for.

    Raises:
        ToolError: a link on the way was changed since.
    """
    target = resolved(text, call.workspace)
    path = target.path
    if call.permitted is None:
        allowed = target.spilled or (target.inside and not target.protected)
    else:
        allowed = path in call.permitted
    if not allowed:
        raise ToolError(f"{text!r} leads somewhere else than when permission was given; nothing was done. Try again")
    return path


def lexical(text: object, workspace: Workspace) -> str:
    """Return an absolute path for drawing, without a look at the disk; the session's folder if `text` is no path."""
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
    if str(target.path) == lexical(text, workspace):
        return text
    return f"{text} → {placed(target.path, workspace)}"


def placed(path: Path, workspace: Workspace) -> str:
    """Return a resolved path for a person: as `shown`, and that it lies outside the project if it does."""
    inside = any(path.is_relative_to(root) for root in workspace.roots)
    return shown(path, workspace) + ("" if inside else ", outside the project")


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


def _is_protected(path: Path, workspace: Workspace) -> bool:
    return (
        any(_is_git(part) for part in path.parts)
        or any(path.is_relative_to(folder) for folder in workspace.protected)
        or path.is_relative_to("/proc")  # a process's environment holds keys
        or any(_is_git_folder(folder) for folder in (path, *path.parents))
    )


def _is_git(name: str) -> bool:
    """Whether some file system takes `name` for `.git`: case, width and invisible characters aside."""
    if name.isascii():
        return name.lower().rstrip(". ") == GIT
    seen = (c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    return "".join(seen).casefold().rstrip(". ") == GIT


def _is_git_folder(folder: Path) -> bool:
    """Whether git would take hooks and settings from `folder`: a bare one, or one that a `.git` file points to."""
    return os.path.isfile(folder / "HEAD") and any(os.path.exists(folder / name) for name in ("objects", "commondir"))
