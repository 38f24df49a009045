"""What a search found, held against the files that were judged: `rg` goes by names, and a name can become a link.

Owns that nothing is told but what lies below the folder that is held open, in a regular file, reached without a link,
and asks nobody by itself: `rg` is told names to leave out, and not what makes a folder a repository.
Whatever was swapped while `rg` ran, a line that is told is a line of such a file. Knows no tool.
"""

import os
import re
import stat
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

from acp_bridge.limits import TEXT_FILE

from .files import FOLDER, READ, held
from .paths import may_be_read
from .tool import Workspace

_CUT = re.compile(rb" \[\.\.\. (?:omitted end of long line|\d+ more match(?:es)?)\]$")
_MARK = b"\xef\xbb\xbf"
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Match:
    """A line of a file, as `rg` prints it; its name is relative to the folder."""

    name: bytes
    number: int
    text: bytes


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The lines that are what they are said to be, in their order, and how many were left out for which reason.

    Attributes:
        changed: they are no longer there.
        closed: they lie where reading asks by itself.
    """

    matches: list[Match]
    changed: int
    closed: int


def confirm_matches(path: Path, workspace: Workspace, found: Sequence[Match]) -> Confirmed:
    """Hold lines against the files. Reads; to be run in a thread."""
    folder = _folder(path)
    told = may_be_read(path, workspace)
    kept: list[Match] = []
    closed = 0
    with held(folder) as place:
        for name, group in groupby(found, key=lambda match: match.name):
            matches = list(group)
            if told(folder / os.fsdecode(name)):
                kept += _confirm(place, name, matches)
            else:
                closed += len(matches)
    return Confirmed(kept, len(found) - len(kept) - closed, closed)


def confirm_names(path: Path, workspace: Workspace, names: Iterable[bytes]) -> list[bytes]:
    """Return the names of regular files that are there. Looks; to be run in a thread."""
    folder = _folder(path)
    told = may_be_read(path, workspace)
    with held(folder) as place:
        return [name for name in names if told(folder / os.fsdecode(name)) and _is_regular(place, name)]


def _folder(path: Path) -> Path:
    """Return the folder that `rg` ran in."""
    return path if path.is_dir() else path.parent


def _confirm(place: int, name: bytes, found: list[Match]) -> Iterator[Match]:
    wanted = {match.number: match for match in found}
    try:
        with _parent(place, name) as (parent, last):
            fd = os.open(last, READ, dir_fd=parent)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return
            for number, line in enumerate(_lines(file), 1):
                if (match := wanted.pop(number, None)) is not None and _is_same(line, match.text):
                    yield match
                if not wanted:
                    return
    except OSError:  # it is gone, or a link by now
        return


def _is_same(line: bytes, text: bytes) -> bool:
    line, text = (part.rstrip(b"\n").removeprefix(_MARK) for part in (line, text))
    cut = _CUT.search(text)
    return line == text or (cut is not None and line.startswith(text[: cut.start()]))


def _lines(file: BinaryIO) -> Iterable[bytes]:
    head = file.read(2)
    file.seek(0)
    if head not in _WIDE_MARKS:
        return file
    return file.read(TEXT_FILE).decode("utf-16", "replace").encode().splitlines(keepends=True)


def _is_regular(place: int, name: bytes) -> bool:
    try:
        with _parent(place, name) as (parent, last):
            return stat.S_ISREG(os.stat(last, dir_fd=parent, follow_symlinks=False).st_mode)
    except OSError:
        return False


@contextmanager
def _parent(place: int, name: bytes) -> Generator[tuple[int, bytes]]:
    *folders, last = (part for part in name.split(b"/") if part not in (b"", b"."))
    parent = os.dup(place)
    try:
        for part in folders:
            entered = os.open(part, FOLDER, dir_fd=parent)
            os.close(parent)
            parent = entered
        yield parent, last
    finally:
        os.close(parent)
