"""Which files storage opens, with which modes, and which folders it refuses."""

import errno
import fcntl
import os
import stat
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from support.words import TURN, Counting, header, loaded, made, records, store_in

from acp_bridge.content import Image
from acp_bridge.errors import SessionInUse, SessionNotFound, StoreError, StorePoisoned, StoreReplaced
from acp_bridge.session import InputQueued, SessionFilter, TurnEnded, TurnStarted
from acp_bridge.storage import JsonlStore
from acp_bridge.storage.disk import NEW, OsDisk
from acp_bridge.storage.filesystem import network_warning


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
async def test_folders_are_0700_and_files_0600_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    root = tmp_path / "home" / "sessions"
    before = os.umask(umask)
    try:
        session = await store_in(root).create(header(), records(TURN))
        await session.put_content(b"picture")
        await session.close()
        await store_in(root).list(SessionFilter())
    finally:
        os.umask(before)
    for path in root.parent.rglob("*"):
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path
    assert mode(root.parent) == 0o700


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.mkdir()


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _link(path: Path) -> None:
    path.symlink_to(path.with_name("real"))


@pytest.mark.parametrize("special", [_fifo, _folder, _device, _link])
@pytest.mark.parametrize("name", ["s1/log.jsonl", "s1.lock"])
async def test_what_is_no_regular_file_is_an_error_and_no_hang(tmp_path: Path, special: object, name: str) -> None:
    await made(tmp_path)
    path = tmp_path / name
    path.rename(path.with_name("real"))
    assert callable(special)
    special(path)
    with anyio.fail_after(5):
        with pytest.raises(StoreError):
            await loaded(tmp_path)
        await store_in(tmp_path).list(SessionFilter())


async def test_a_session_that_is_a_link_is_refused(tmp_path: Path) -> None:
    await made(tmp_path)
    (tmp_path / "s1").rename(tmp_path / "elsewhere")
    (tmp_path / "s1").symlink_to("elsewhere")
    for attempt in (loaded(tmp_path), store_in(tmp_path).read("s1")):
        with pytest.raises(StoreError):
            await attempt
    await store_in(tmp_path).delete("s1")
    assert (tmp_path / "elsewhere" / "log.jsonl").exists()


async def test_a_root_that_others_can_write_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    await made(root)
    for bits in (0o720, 0o702, 0o777):
        root.chmod(bits)
        for attempt in (loaded(root), store_in(root).create(header("s2"), []), store_in(root).list(SessionFilter())):
            with pytest.raises(StoreError, match="chmod"):
                await attempt


async def test_a_root_that_is_a_link_or_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(StoreError):
            await store_in(tmp_path / name).create(header(), [])
    assert list((tmp_path / "real").iterdir()) == []


async def test_a_root_of_another_user_is_refused(tmp_path: Path) -> None:
    class Foreign(OsDisk):
        def lstat(self, path: str) -> os.stat_result:
            found = list(super().lstat(path))
            found[4] += 1
            return os.stat_result(found)

    with pytest.raises(StoreError, match="another user"):
        await store_in(tmp_path, Foreign()).list(SessionFilter())


async def test_every_folder_made_is_synced_into_its_parent(tmp_path: Path) -> None:
    synced: list[str] = []

    class Watching(OsDisk):
        def sync_folder(self, path: str) -> None:
            synced.append(path)
            super().sync_folder(path)

    root = tmp_path / "a" / "b" / "sessions"
    session = await store_in(root, Watching()).create(header(), [])
    await session.close()
    assert {str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a/b"), str(root)} <= set(synced)


async def test_a_folder_that_a_process_made_and_did_not_live_to_sync_is_synced_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)  # its maker was killed here
    disk = Counting()
    await (await store_in(tmp_path / "home/sessions", disk).create(header(), [])).close()
    assert disk.folders[:2] == [str(tmp_path), str(tmp_path / "home")]
    await made(tmp_path / "other/home/sessions")
    disk = Counting()
    await (await store_in(tmp_path / "other/home/sessions", disk).create(header("s2"), [])).close()
    assert disk.folders[0] == str(tmp_path / "other/home")


async def test_each_folder_is_synced_before_one_is_made_in_it(tmp_path: Path) -> None:
    class Noting(OsDisk):
        def make_folder(self, path: str) -> None:
            done.append(("make", Path(path).name))
            super().make_folder(path)

        def sync_folder(self, path: str) -> None:
            done.append(("sync", Path(path).name))
            super().sync_folder(path)

    done: list[tuple[str, str]] = []
    await (await store_in(tmp_path / "a" / "b", Noting()).create(header(), [])).close()
    assert done[1:5] == [("make", "a"), ("sync", tmp_path.name), ("make", "b"), ("sync", "a")]


async def test_a_new_session_costs_one_sync_of_its_log_and_few_of_folders(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    await made(tmp_path / "home/sessions")
    disk = Counting()
    store = store_in(tmp_path / "home/sessions", disk)
    counts = list[tuple[int, int]]()
    for name in ("s2", "s3"):
        disk.calls.clear()
        await (await store.create(header(name), [])).close()
        counts.append((disk.calls.count("sync"), disk.calls.count("sync_folder")))
    assert counts == [(1, 3), (1, 2)]  # the root's own name once a process; then the new folder, and its name


@pytest.mark.parametrize(("code", "synced"), [(0, [51]), (errno.ENOTSUP, [51, "fsync"]), (errno.EIO, [51])])
def test_on_macos_files_and_folders_are_synced_through_the_drives_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, synced: list[object]
) -> None:
    calls: list[object] = []

    def control(_fd: int, command: int) -> int:
        calls.append(command)
        if code:
            raise OSError(code, os.strerror(code))
        return 0

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", lambda _fd: calls.append("fsync"))
    disk = OsDisk()
    fd = disk.open(str(tmp_path / "file"), NEW)
    for sync in (lambda: disk.sync(fd), lambda: disk.sync_folder(str(tmp_path))):
        calls.clear()
        with pytest.raises(OSError, match="error") if code == errno.EIO else nullcontext():
            sync()
        assert calls == synced
    disk.close(fd)


def test_a_file_that_is_there_is_never_taken_for_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b"theirs")
    with pytest.raises(FileExistsError):
        OsDisk().open(str(tmp_path / "theirs"), NEW)


@pytest.mark.parametrize("call", ["write", "sync", "rename", "sync_folder"])
async def test_a_making_that_fails_leaves_nothing_but_its_lock(tmp_path: Path, call: str) -> None:
    class Failing(Counting):
        def sync_folder(self, path: str) -> None:
            if "s1" in os.listdir(tmp_path) or call != "sync_folder":  # the last one, behind the rename
                super().sync_folder(path)

    disk = Failing()
    disk.failures[call] = OSError(errno.EIO, "failed")
    with pytest.raises(StoreError):
        await store_in(tmp_path, disk).create(header(), records(TURN))
    assert set(os.listdir(tmp_path)) == {"s1.lock"}


class NoDeletionSynced(Counting):
    """Fails to sync the folder of sessions while one is on its way out of it."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self.failures["sync_folder"] = OSError(errno.EIO, "failed")

    def sync_folder(self, path: str) -> None:
        if "trash-s1" in os.listdir(self._root):
            super().sync_folder(path)


async def test_a_deletion_that_fails_leaves_the_session_to_be_seen_and_deleted_again(tmp_path: Path) -> None:
    await made(tmp_path)
    disk = NoDeletionSynced(tmp_path)
    store = store_in(tmp_path, disk)
    with pytest.raises(StoreError, match="cannot delete"):
        await store.delete("s1")
    assert list((await loaded(tmp_path)).records) == records(TURN)
    disk.failures.clear()
    await store.delete("s1")
    with pytest.raises(SessionNotFound):
        await loaded(tmp_path)


async def test_a_name_that_a_failed_deletion_gave_back_is_synced_before_the_next_record_counts(tmp_path: Path) -> None:
    """A power cut could else still carry the deletion out, and what was promised since with it."""
    await made(tmp_path)
    with pytest.raises(StoreError, match="cannot delete"):
        await store_in(tmp_path, NoDeletionSynced(tmp_path)).delete("s1")
    disk = Counting()
    session = await store_in(tmp_path, disk).hold("s1")
    await session.append([])
    assert disk.calls == []
    await session.append(records([TurnStarted(turn=2)], first=2))
    assert disk.calls[:2] == ["sync_folder", "sync_folder"]
    await session.close()


async def test_a_session_whose_folder_becomes_a_link_while_its_lock_is_taken_is_refused(tmp_path: Path) -> None:
    await made(tmp_path)

    class Swapping(OsDisk):
        def try_lock(self, fd: int) -> bool:
            (tmp_path / "s1").rename(tmp_path / "elsewhere")
            (tmp_path / "s1").symlink_to("elsewhere")
            return super().try_lock(fd)

    with pytest.raises(StoreError, match="a link"):
        await store_in(tmp_path, Swapping()).hold("s1")


async def test_a_fork_has_the_picture_of_a_prompt_that_was_only_queued(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    session = await store.create(header(), [])
    name = await session.put_content(b"picture")
    queued = InputQueued(id="i1", content=(Image(mime_type="image/png", file=name, size=7),), source="client")
    await session.append(records([queued, *TURN]))
    await session.close()
    await store.fork("s1", header("s2"), through=2)
    assert (tmp_path / "s2" / name).read_bytes() == b"picture"


async def test_a_malformed_id_reaches_no_system_call(tmp_path: Path) -> None:
    class Silent(OsDisk):
        def lstat(self, path: str) -> os.stat_result:
            raise AssertionError(path)

        def open(self, path: str, flags: int) -> int:
            raise AssertionError(path)

    store = store_in(tmp_path, Silent())
    for name in ("../../etc/passwd", "..", "", "a/b", "x" * 10_000, "a\0"):
        for attempt in (store.hold(name), store.read(name), store.verify(name), store.salvage(name)):
            with pytest.raises(SessionNotFound):
                await attempt
        await store.delete(name)


async def test_children_inherit_neither_lock_nor_log(tmp_path: Path) -> None:
    session = await store_in(tmp_path).create(header(), records(TURN))
    script = "import os; print([os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if n != '3'])"
    command = [sys.executable, "-c", script]
    child = await anyio.to_thread.run_sync(
        lambda: subprocess.run(command, close_fds=False, capture_output=True, text=True, check=False)
    )
    assert "s1" not in child.stdout
    await session.close()


@pytest.mark.parametrize(
    ("kind", "warns"), [("ext4", False), ("nfs4", True), ("cifs", True), ("fuse.sshfs", True), ("tmpfs", False)]
)
def test_a_network_file_system_is_told_of(kind: str, warns: bool) -> None:
    mounts = f"/dev/a / ext4 rw 0 0\nserver:/x /home/a\\040b {kind} rw 0 0\nother /home/a nfs rw 0 0\n"
    assert bool(network_warning("/home/a b/sessions", mounts)) == warns
    assert network_warning("/home/ab/sessions", mounts) == ""


class ReadOnly(OsDisk):
    """The real disk, nothing of which can be written for as long as `refusal` is set."""

    refusal = errno.EROFS

    def _refuse(self, path: str) -> None:
        if self.refusal:
            raise OSError(self.refusal, os.strerror(self.refusal), path)

    def open(self, path: str, flags: int) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY):
            self._refuse(path)
        return super().open(path, flags)

    def make_folder(self, path: str) -> None:
        self._refuse(path)
        super().make_folder(path)

    def rename(self, source: str, target: str) -> None:
        self._refuse(target)
        super().rename(source, target)


REFUSALS = (errno.EROFS, errno.EACCES, errno.EPERM)


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_root_that_can_only_be_read_makes_no_session_and_says_what_to_do(tmp_path: Path, refusal: int) -> None:
    await made(tmp_path)
    disk = ReadOnly()
    disk.refusal = refusal
    store = JsonlStore(tmp_path, disk=disk)
    with pytest.raises(StoreError, match=rf"{tmp_path}.*set ACP_BRIDGE_HOME"):
        await store.create(header("s2"), [])
    with pytest.raises(StoreError):
        await store.delete("s1")
    assert len((await store.read("s1")).records) == 2
    assert len((await store.list(SessionFilter())).sessions) == 1


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("lock", ["there", "gone"])
async def test_a_session_that_can_only_be_read_is_held_and_saved_once_it_can_be_written(
    tmp_path: Path, refusal: int, lock: str
) -> None:
    await made(tmp_path)
    if lock == "gone":
        (tmp_path / "s1.lock").unlink()
    disk = ReadOnly()
    disk.refusal = refusal
    session = await JsonlStore(tmp_path, disk=disk, patience_s=0.05).hold("s1")
    assert len(session.loaded.records) == 2
    assert str(tmp_path / "s1") in session.warning
    assert "can only be read" in session.warning
    more = records([TurnStarted(turn=2)], first=2)
    for attempt in (session.repair, session.append, session.salvage, session.append):
        with pytest.raises(StorePoisoned, match=os.strerror(refusal)):
            await attempt(more)
    disk.refusal = 0
    await session.salvage(more)
    await session.append(records([TurnEnded(turn=2, reason="completed")], first=3))
    with pytest.raises(SessionInUse):
        await store_in(tmp_path).hold("s1")
    await session.close()
    assert len((await loaded(tmp_path)).records) == 4


async def test_a_session_that_can_only_be_read_is_held_once(tmp_path: Path) -> None:
    await made(tmp_path)
    first = await JsonlStore(tmp_path, disk=ReadOnly(), patience_s=0.05).hold("s1")
    with pytest.raises(SessionInUse):
        await JsonlStore(tmp_path, disk=ReadOnly(), patience_s=0.05).hold("s1")
    await first.close()


async def test_what_was_held_without_a_lock_is_not_written_while_another_holds_it(tmp_path: Path) -> None:
    await made(tmp_path)
    (tmp_path / "s1.lock").unlink()
    disk = ReadOnly()
    viewer = await JsonlStore(tmp_path, disk=disk, patience_s=0.05).hold("s1")
    disk.refusal = 0
    writer = await store_in(tmp_path).hold("s1")
    with pytest.raises(StorePoisoned, match="another process has the lock"):
        await viewer.salvage(records([TurnStarted(turn=2)], first=2))
    await writer.append(records([TurnStarted(turn=2)], first=2))
    await writer.close()
    with pytest.raises(StoreReplaced):
        await viewer.salvage(records([TurnStarted(turn=2)], first=2))
    await viewer.close()


async def test_a_log_that_its_owner_made_read_only_is_not_replaced(tmp_path: Path) -> None:
    class Protected(OsDisk):
        def open(self, path: str, flags: int) -> int:
            if flags & os.O_RDWR and path.endswith("log.jsonl"):
                raise OSError(errno.EACCES, "permission denied", path)
            return super().open(path, flags)

    inode = (await made(tmp_path)).stat().st_ino
    session = await JsonlStore(tmp_path, disk=Protected()).hold("s1")
    with pytest.raises(StorePoisoned):
        await session.salvage(records([TurnStarted(turn=2)], first=2))
    await session.close()
    assert (tmp_path / "s1/log.jsonl").stat().st_ino == inode


@pytest.mark.parametrize(("code", "works"), [(errno.EINVAL, True), (errno.EIO, False)])
async def test_a_file_system_without_a_sync_of_folders_is_taken_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, works: bool
) -> None:
    def fsync(fd: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fsync)
    if works:
        await made(tmp_path / "sessions")
    else:
        with pytest.raises(StoreError):
            await made(tmp_path / "sessions")


async def test_a_session_that_gets_its_name_while_it_is_looked_for_is_not_taken_for_something_else(
    tmp_path: Path,
) -> None:
    await made(tmp_path)

    class Appearing(OsDisk):
        looks = 0

        def lstat(self, path: str) -> os.stat_result:
            if path == f"{tmp_path}/s1":
                self.looks += 1
                if self.looks == 1:
                    raise FileNotFoundError(errno.ENOENT, "not yet", path)
            return super().lstat(path)

    with pytest.raises(SessionNotFound):
        await store_in(tmp_path, Appearing()).hold("s1")
