"""The disk as tools see it: no link is followed, nothing blocks, a file is replaced wholly or not at all."""

import ctypes
import errno
import os
import resource
import stat
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support.loops import TRIO_WHEN_SLOW

from acp_bridge.errors import ToolError
from acp_bridge.limits import TEXT_FILE
from acp_bridge.tools import ABSENT, KnownFiles, LocalFiles

FILES = LocalFiles()
AT_FDCWD, RENAME_EXCHANGE = -100, 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


async def read(path: Path) -> str:
    return await KnownFiles(FILES, {}, since_ms=0).read_text(path)


async def write(path: Path, text: str) -> None:
    await KnownFiles(FILES, {}, since_ms=0).write_text(path, text)


async def refusal(path: Path, text: str | None = None) -> str:
    with anyio.fail_after(5), pytest.raises(ToolError) as refused:
        await (read(path) if text is None else FILES.write_text(path, text, ABSENT))
    return str(refused.value)


@pytest.mark.parametrize("text", ["", "a", "a\r\nb\r\n", "\ufeffa\n", "a\nb", "\n", "Größe 漢字\u2028\x0c"])
async def test_what_is_written_is_read_byte_for_byte(folder: Path, text: str) -> None:
    before = open_fds()
    await write(folder / "new" / "deep" / "f", text)
    assert (folder / "new/deep/f").read_bytes() == text.encode()
    assert await read(folder / "new/deep/f") == text
    assert open_fds() == before
    assert os.listdir(folder / "new/deep") == ["f"]


async def test_a_fifo_a_socket_and_a_folder_are_refused_without_waiting(folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    assert "no regular file" in await refusal(folder / "fifo")
    assert "no regular file" in await refusal(folder / "fifo", "x")
    assert "list_files" in await refusal(folder)
    assert "folder" in await refusal(folder, "x")
    assert "no regular file" in await refusal(Path("/dev/zero"))
    assert stat.S_ISFIFO(os.stat(folder / "fifo").st_mode)


async def test_a_link_at_the_end_is_not_followed(folder: Path) -> None:
    (folder / "secret").write_text("s")
    (folder / "link").symlink_to("secret")
    assert "symbolic link" in await refusal(folder / "link")
    await refusal(folder / "link", "x")
    assert (folder / "secret").read_text() == "s"


async def test_a_parent_that_became_a_link_is_not_followed(folder: Path) -> None:
    (folder / "outside").mkdir()
    (folder / "outside" / "f").write_text("s")
    (folder / "project").symlink_to("outside")
    assert "link" in await refusal(folder / "project" / "f")
    assert "link" in await refusal(folder / "project" / "f", "x")
    assert "link" in await refusal(folder / "project" / "new" / "f", "x")
    assert (folder / "outside" / "f").read_text() == "s"
    assert os.listdir(folder / "outside") == ["f"]


@TRIO_WHEN_SLOW
async def test_a_parent_swapped_for_a_link_all_the_time_leads_nowhere_else(folder: Path) -> None:
    (folder / "outside").mkdir()
    (folder / "real").mkdir()
    (folder / "link").symlink_to("outside")
    renameat2 = ctypes.CDLL(None).renameat2
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            assert not renameat2(AT_FDCWD, bytes(folder / "real"), AT_FDCWD, bytes(folder / "link"), RENAME_EXCHANGE)

    thread = threading.Thread(target=swap)
    thread.start()
    written = 0
    try:
        with anyio.move_on_after(0.5):
            while True:
                try:
                    await write(folder / "real" / "f", "x")
                    written += 1
                except ToolError:
                    pass
                await anyio.lowlevel.checkpoint()
    finally:
        stop.set()
        thread.join()
    assert written
    assert os.listdir(folder / "outside") == []


async def test_the_mode_of_a_file_is_kept_and_a_new_one_follows_the_umask(folder: Path) -> None:
    (folder / "run.sh").write_text("a")
    os.chmod(folder / "run.sh", 0o754)
    old = os.umask(0o027)
    try:
        await write(folder / "run.sh", "b")
        await write(folder / "new", "b")
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(folder / "run.sh").st_mode) == 0o754
    assert stat.S_IMODE(os.stat(folder / "new").st_mode) == 0o640


async def test_a_read_only_file_is_left_alone(folder: Path) -> None:
    (folder / "f").write_text("a")
    os.chmod(folder / "f", 0o444)
    assert "read-only" in await refusal(folder / "f", "b")
    assert (folder / "f").read_text() == "a"


@contextmanager
def disk_full_at(size: int) -> Generator[None]:
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


async def test_a_write_that_fails_half_way_leaves_the_old_text_and_nothing_else(folder: Path) -> None:
    await write(folder / "f", "old")
    with disk_full_at(4096):
        assert "too large" in await refusal(folder / "f", "x" * 10_000)
    assert (folder / "f").read_text() == "old"
    assert os.listdir(folder) == ["f"]


async def test_what_is_no_utf8_text_is_refused_with_its_place(folder: Path) -> None:
    (folder / "f").write_bytes(b"abc\xff")
    assert "byte 3" in await refusal(folder / "f")
    (folder / "f").write_bytes(b"PNG\0")
    assert "NUL at byte 3" in await refusal(folder / "f")
    assert "surrogate" in await refusal(folder / "f", "a\ud800")
    assert (folder / "f").read_bytes() == b"PNG\0"


async def test_a_file_beyond_the_cap_is_refused_and_one_at_it_is_read(folder: Path) -> None:
    (folder / "f").write_bytes(b"a" * TEXT_FILE)
    assert len(await read(folder / "f")) == TEXT_FILE
    with (folder / "f").open("ab") as file:
        file.write(b"a")
    assert "10 MiB" in await refusal(folder / "f")


async def test_a_missing_file_is_said_to_be_missing(folder: Path) -> None:
    assert "does not exist" in await refusal(folder / "no" / "f")
    (folder / "file").write_text("")
    assert "no folder" in await refusal(folder / "file" / "f")


async def test_without_descriptors_left_a_read_fails_and_does_not_hang(folder: Path) -> None:
    (folder / "f").write_text("a")
    await read(folder / "f")
    old = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, old[1]))
    try:
        assert "too many open files" in await refusal(folder / "f")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, old)
    assert await read(folder / "f") == "a"


def appears(path: Path) -> None:
    path.write_text("theirs")


def is_rewritten(path: Path) -> None:
    path.write_text("theirs")


def is_replaced(path: Path) -> None:
    path.with_name("theirs").write_text("theirs")
    path.with_name("theirs").rename(path)


def becomes_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def becomes_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def vanishes(path: Path) -> None:
    path.unlink()


def becomes_read_only(path: Path) -> None:
    path.chmod(0o444)


def becomes_private(path: Path) -> None:
    path.chmod(0o600)


CHANGES = [is_rewritten, is_replaced, becomes_a_link, becomes_a_folder, vanishes, becomes_read_only, becomes_private]


def found(path: Path) -> object:
    """What there is: what a link names, the names in a folder, the text and mode of a file."""
    if path.is_symlink():
        return os.readlink(path)
    return path.exists() and (os.listdir(path) if path.is_dir() else (path.read_text(), path.stat().st_mode))


@pytest.mark.parametrize(
    ("happens", "late"),
    [
        (happens, late)
        for happens in [*CHANGES, appears]
        for late in (False, True)
        if late or happens != becomes_private
    ],
    ids=lambda value: getattr(value, "__name__", "while it is written" if value else "before"),
)
async def test_what_is_another_file_than_the_change_was_made_for_is_left_as_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch, happens: Callable[[Path], None], late: bool
) -> None:
    path = folder / "f"
    if happens is not appears:
        path.write_text("mine")
    files = KnownFiles(FILES, {}, since_ms=0)
    await files.text_to_change(path)
    synced = os.fsync

    def sync(fd: int) -> None:
        synced(fd)
        if late:
            happens(path)
            monkeypatch.undo()

    monkeypatch.setattr(os, "fsync", sync)
    if not late:
        happens(path)
    with pytest.raises(ToolError):
        await files.write_text(path, "new")
    left = found(path)
    monkeypatch.undo()
    assert left == found(path)
    assert left != ("new", 0o100644)
    assert not [name for name in os.listdir(folder) if name.startswith(".f")], "a draft stays"


async def test_a_mode_that_was_changed_since_the_question_is_kept(folder: Path) -> None:
    (folder / "f").write_text("one")
    files = KnownFiles(FILES, {}, since_ms=0)
    await files.text_to_change(folder / "f")
    becomes_private(folder / "f")
    await files.write_text(folder / "f", "two")
    assert found(folder / "f") == ("two", 0o100600)


async def test_a_file_made_in_the_last_moment_is_not_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the last look and the rename: the name is given only where there is none."""
    link = os.link

    def late(*args: Any, **kwargs: Any) -> None:
        (folder / "f").write_text("theirs")
        link(*args, **kwargs)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(ToolError, match="changed by somebody else"):
        await write(folder / "f", "mine")
    assert (folder / "f").read_text() == "theirs"
    assert os.listdir(folder) == ["f"]


async def test_a_new_file_is_made_where_there_are_no_hard_links(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    await write(folder / "f", "mine")
    assert os.listdir(folder) == ["f"]


async def test_the_same_text_in_another_inode_is_the_same_file(folder: Path) -> None:
    """Editors save by replacing; what was shown is what is there."""
    (folder / "f").write_text("one")
    files = KnownFiles(FILES, {}, since_ms=0)
    await files.text_to_change(folder / "f")
    (folder / "g").write_text("one")
    (folder / "g").rename(folder / "f")
    await files.write_text(folder / "f", "two")
    assert (folder / "f").read_text() == "two"
