"""Settings files of other programs: read, and replaced whole with a copy kept.

Owns what must not happen to them: half a file, another mode, a lost comment, a lost edit of somebody else's.
"""

import errno
import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from acp_bridge.errors import BridgeError

from .jsonc import NotJsonc, parse
from .merge import Setting, merge, merge_plain

_COPY = "before-acp-bridge"

Done: TypeAlias = Literal["made", "changed", "unchanged"]


class SettingsUnchanged(BridgeError):
    """The settings could not be merged; the file is as it was. The message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Written:
    """What was done, and where the file as it was is kept, if there was one."""

    done: Done
    path: Path
    copy: Path | None = None


def write_settings(path: Path, settings: Sequence[Setting]) -> Written:
    """Merge `settings` into the file.

    Raises:
        SettingsUnchanged: it cannot be read as what it should be, or not be written.
    """
    target = Path(os.path.realpath(path))  # a link into somebody's dotfiles stays one
    try:
        before = _read(target)
        text = (before or b"").decode()
        after = merge(text, settings)
        _check(text, after, settings)
    except UnicodeDecodeError as exc:
        raise _refusal(path, "it is not UTF-8") from exc
    except NotJsonc as exc:
        raise _refusal(path, f"it cannot be read as JSON with comments: {exc}") from exc
    except OSError as exc:
        raise _refusal(path, (exc.strerror or str(exc)).lower()) from exc
    if before is not None and after == text:
        return Written("unchanged", path)
    try:
        if before is None:
            target.parent.mkdir(parents=True, exist_ok=True)
        copy = _keep_copy(target, before) if before is not None else None
        _replace(target, after.encode(), before)
    except OSError as exc:
        raise _refusal(path, f"it cannot be written: {(exc.strerror or str(exc)).lower()}") from exc
    return Written("made" if before is None else "changed", path, copy)


def _refusal(path: Path, why: str) -> SettingsUnchanged:
    return SettingsUnchanged(
        f"{path} was left as it is: {why}; add the block by hand (the same command without --write)"
    )


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _check(before: str, after: str, settings: Sequence[Setting]) -> None:
    """Refuse a result that does not mean what it must."""
    old, new = parse(before), parse(after)
    wanted = merge_plain(old.plain if old else {}, settings)
    if new is None or new.plain != wanted:
        raise NotJsonc("it is written in a way that this program cannot add to")


def _keep_copy(path: Path, data: bytes) -> Path:
    """Keep the file as it was beside it, under a name that is free."""
    number = 0
    while True:
        copy = path.with_name(f"{path.name}.{_COPY}" + (f"-{number}" if number else ""))
        try:
            fd = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            number += 1
            continue
        with os.fdopen(fd, "wb") as stream:
            os.chmod(copy, stat.S_IMODE(path.stat().st_mode))
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())  # else a power cut could leave neither the old settings nor the new
        return copy


def _replace(path: Path, data: bytes, before: bytes | None) -> None:
    """Put a whole new file in the place of the old one.

    Raises:
        OSError: the old one is still there.
    """
    fd, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as stream:
            os.chmod(temporary, stat.S_IMODE(path.stat().st_mode) if before is not None else 0o600)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())  # else the name could outlive the bytes
        _refuse_changed(path, before)  # as late as can be: an editor writes its settings whenever it likes
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _refuse_changed(path: Path, before: bytes | None) -> None:
    if _read(path) != before:
        raise OSError(errno.EBUSY, "somebody else changed it just now; try again")
