"""The Files port and its local form: text files, read and written without following a link.

Owns how a checked path is opened, bounded and replaced. Knows no roots: who may touch what is decided before.
"""

import contextlib
import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import anyio.to_thread

from acp_bridge.errors import ToolError
from acp_bridge.limits import PICTURE, TEXT_FILE
from acp_bridge.pictures import HEAD, kind_of, oversized

FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a FIFO or a device must not block
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_WORDS = {
    errno.ENOENT: "does not exist",
    errno.ELOOP: "has a symbolic link in it that was not there when the path was checked",
    errno.ENOTDIR: "lies below something that is no folder, or below a link made since the path was checked",
    errno.EACCES: "may not be opened: permission denied",
    errno.ENAMETOOLONG: "has a name that is too long",
}


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as it was at one moment.

    Attributes:
        text: what is read and edited; None where there is no such file.
        digest: its SHA-256 in hex, made in a thread; empty where there is none.
        disk: SHA-256 in hex of what lies on the disk; empty where nothing does.
        saved: the disk has this text, line ends and a byte order mark aside. An editor may hold another one.
        disk_time_ms: when what lies on the disk was changed, since the epoch.
    """

    text: str | None
    digest: str
    disk: str
    saved: bool = True
    disk_time_ms: int = 0


ABSENT = FileState(None, "", "")


@dataclass(frozen=True, slots=True)
class PictureFile:
    """A picture on the disk, and its SHA-256 in hex."""

    data: bytes
    digest: str


class Files(Protocol):
    """Where text comes from and goes to: the disk, or an editor with its unsaved buffers."""

    async def find_picture(self, path: Path) -> PictureFile | None:
        """Return what lies on the disk at an absolute, checked path if it begins as a picture; else None.

        Raises:
            ToolError: it is a picture, and too large to be taken.
        """
        ...

    async def look(self, path: Path) -> FileState:
        """Return what there is at an absolute, checked path.

        Raises:
            ToolError: it is no regular file, is too large, or is not UTF-8 text.
        """
        ...

    async def write_text(self, path: Path, text: str, before: FileState) -> FileState:
        """Replace or create the file, wholly or not at all; missing folders are made; its mode is kept.

        Args:
            path: absolute and checked.
            text: what it is to hold.
            before: what it replaces, as it was seen; anything else is left as it is.

        Returns:
            What there is then; an editor may not have saved it yet.

        Raises:
            ToolError: it could not be written, or there is something else by now; the old content is as it was.
        """
        ...


class LocalFiles:
    """Text on the disk. Line ends and a byte order mark are part of the text."""

    async def find_picture(self, path: Path) -> PictureFile | None:
        """Read the whole picture, opened as a text is."""
        return await anyio.to_thread.run_sync(_find_picture, path)

    async def look(self, path: Path) -> FileState:
        """Read the whole text, opened part by part from `/`, so that no link put there meanwhile is followed."""
        return await anyio.to_thread.run_sync(_look, path)

    async def write_text(self, path: Path, text: str, before: FileState) -> FileState:
        """Write beside the file, sync, look once more, and rename over it in the folder that is held open."""
        return await anyio.to_thread.run_sync(_write, path, text, before)


def digest(text: str) -> str:
    """Return the SHA-256 in hex of a file with this text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _look(path: Path) -> FileState:
    try:
        with held(path.parent) as folder:
            data, facts = _read(folder, path)
    except FileNotFoundError:
        return ABSENT
    except OSError as exc:
        raise _refusal(path, exc) from exc
    found = hashlib.sha256(data).hexdigest()
    return FileState(_decode(data, path), found, found, disk_time_ms=facts.st_mtime_ns // 1_000_000)


def _find_picture(path: Path) -> PictureFile | None:
    try:
        with held(path.parent) as folder:
            fd = os.open(path.name or ".", READ, dir_fd=folder)
            try:
                return _picture_in(fd, path)
            finally:
                os.close(fd)
    except OSError:  # whatever is wrong with it, reading it as text says
        return None


def _picture_in(fd: int, path: Path) -> PictureFile | None:
    if not stat.S_ISREG(os.fstat(fd).st_mode) or not (kind := kind_of(data := os.read(fd, HEAD))):
        return None
    while len(data) <= PICTURE and (part := os.read(fd, 1 << 20)):
        data += part
    if b"\0" not in data:  # a text may begin like a GIF; no picture is without a NUL
        return None
    if len(data) > PICTURE:
        why = oversized(max(os.fstat(fd).st_size, len(data)))
        raise ToolError(f"{str(path)!r} is a picture ({kind}), and {why}; make a smaller copy of it and read that")
    return PictureFile(data, hashlib.sha256(data).hexdigest())


def _read(folder: int, path: Path) -> tuple[bytes, os.stat_result]:
    fd = os.open(path.name or ".", READ, dir_fd=folder)
    try:
        facts = os.fstat(fd)
        return _content(fd, facts, path), facts
    finally:
        os.close(fd)


def _content(fd: int, facts: os.stat_result, path: Path) -> bytes:
    if stat.S_ISDIR(facts.st_mode):
        raise ToolError(f"{str(path)!r} is a folder; use list_files")
    if not stat.S_ISREG(facts.st_mode):
        raise ToolError(f"{str(path)!r} is no regular file")
    parts: list[bytes] = []
    size = facts.st_size
    while size <= TEXT_FILE and (part := os.read(fd, 1 << 20)):
        parts.append(part)
        size = sum(map(len, parts))  # what it has, not what it says: files below /proc say 0
    if size > TEXT_FILE:
        raise ToolError(
            f"{str(path)!r} is larger than {TEXT_FILE >> 20} MiB; look into it with search_files or run_command"
        )
    return b"".join(parts)


def _decode(data: bytes, path: Path) -> str:
    if (nul := data.find(b"\0")) >= 0:
        raise ToolError(f"{str(path)!r} is no text file: it has a NUL at byte {nul}")
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise ToolError(f"{str(path)!r} is not UTF-8 text: {exc.reason} at byte {exc.start}") from exc


def _write(path: Path, text: str, before: FileState) -> FileState:
    try:
        data = text.encode()
    except UnicodeEncodeError as exc:
        raise ToolError(f"the text for {str(path)!r} has half a character (a lone surrogate) at {exc.start}") from exc
    try:
        with held(path.parent, make=True) as folder:
            _replace(folder, path, data, before)
    except OSError as exc:
        raise _refusal(path, exc) from exc
    written = hashlib.sha256(data).hexdigest()
    return FileState(text, written, written)


def _replace(folder: int, path: Path, data: bytes, before: FileState) -> None:
    old = _replaceable(folder, path)
    draft = f".{path.name[:40]}.{secrets.token_hex(4)}.tmp"
    fd = os.open(draft, _NEW, 0o600 if old else 0o666, dir_fd=folder)
    try:
        with open(fd, "wb", buffering=0) as file:
            if old:
                _dress(fd, old)
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(file.fileno())  # else a power cut could leave the new name with nothing in it
        _put(folder, draft, path, old, before)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise
    _sync_folder(folder)


def _put(folder: int, draft: str, path: Path, old: os.stat_result | None, before: FileState) -> None:
    """Give the draft its name if what it replaces is what it was made from; nothing that takes time comes after."""
    now = _replaceable(folder, path)
    is_as_before = not before.disk if now is None else hashlib.sha256(_read(folder, path)[0]).hexdigest() == before.disk
    if not is_as_before or _dress_of(now) != _dress_of(old):
        raise changed(path)
    if now is None:
        try:
            os.link(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError as exc:  # made between the look and now: a rename would replace it
            raise changed(path) from exc
        except OSError:  # a file system without hard links
            os.rename(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        else:
            os.unlink(draft, dir_fd=folder)
    else:
        os.rename(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)


def changed(path: Path) -> ToolError:
    """Return the refusal of a file that is another than the call was made for, or that a person was shown."""
    return ToolError(
        f"{str(path)!r} was changed by somebody else since this call was planned and shown; nothing was written. "
        "Read it again first"
    )


def _replaceable(folder: int, path: Path) -> os.stat_result | None:
    try:
        old = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(old.st_mode):
        raise ToolError(f"{str(path)!r} is a folder")
    if not stat.S_ISREG(old.st_mode):
        raise ToolError(f"{str(path)!r} is no regular file; it was left as it is")
    if not old.st_mode & 0o222:
        raise ToolError(f"{str(path)!r} is read-only; it was left as it is")
    return old


def _dress_of(facts: os.stat_result | None) -> tuple[int, ...]:
    return (facts.st_mode, facts.st_uid, facts.st_gid) if facts else ()


def _dress(fd: int, old: os.stat_result) -> None:
    """Give the new file the old one's owner and mode; the mode last, since a change of owner clears parts of it."""
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):
            os.fchown(fd, old.st_uid, old.st_gid)
    os.fchmod(fd, stat.S_IMODE(old.st_mode))


def _sync_folder(folder: int) -> None:
    """Sync the rename, else a power cut may bring the old text back; not every file system can."""
    with contextlib.suppress(OSError):
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


@contextmanager
def held(path: Path, *, make: bool = False) -> Generator[int]:
    """Hold the folder `path` open, entered part by part: it is resolved, so a link in it was made after the check."""
    held = os.open(path.anchor, FOLDER)
    try:
        for name in path.parts[1:]:
            entered = _enter(held, name, make=make)
            os.close(held)
            held = entered
        yield held
    finally:
        os.close(held)


def _enter(folder: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
        return os.open(name, FOLDER, dir_fd=folder)


def _refusal(path: Path, exc: OSError) -> ToolError:
    words = _WORDS.get(exc.errno or 0) or f"could not be opened or written: {(exc.strerror or 'I/O error').lower()}"
    return ToolError(f"{str(path)!r} {words}")
