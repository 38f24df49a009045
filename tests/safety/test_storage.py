"""Whoever hands the agent an odd id, folder, file or header gets an error, and nothing outside is touched."""

import json
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import log
from support.client import Client
from support.script import say, use, written

from .conftest import Start

pytestmark = pytest.mark.slow


IDS = (
    "../../etc/passwd",
    "a/b",
    "..",
    ".",
    "",
    "x" * 10_000,
    "a\0b",
    "%2e%2e",
    "C:\\x",
    "../project",
    "a\nb",
    "~",
    "-",
)


@pytest.fixture
def stored(start: Start, tmp_path: Path, project: Path) -> tuple[Path, str]:
    """Return the folder of sessions and the id of one in it, which no process holds."""
    client = start(written(tmp_path / "s.json", say("hello")))
    client.initialize()
    session = client.new_session(project)
    client.prompted(session, "hi")
    client.close_stdin()
    client.wait()
    return client.home / "sessions", session


def loading(start: Start, tmp_path: Path) -> Client:
    client = start(written(tmp_path / "s.json", say("hello again")))
    client.initialize()
    return client


def load_params(session: str, project: Path) -> dict[str, object]:
    return {"sessionId": session, "cwd": str(project), "mcpServers": []}


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/delete", "session/prompt"])
def test_a_malformed_id_is_answered_like_an_unknown_one(
    start: Start, tmp_path: Path, project: Path, method: str
) -> None:
    """S1: one answer for all, and nothing outside is found. (That no system call is made with
    such an id is tested beside the storage.)
    """
    client = loading(start, tmp_path)
    outside = client.home / "project"
    outside.mkdir(parents=True)
    params = {"cwd": str(project), "mcpServers": []} if method in ("session/load", "session/resume") else {}
    if method == "session/prompt":
        params = {"prompt": [{"type": "text", "text": "x"}]}
    answers = [client.answer(client.request(method, {"sessionId": name, **params})) for name in ("0" * 32, *IDS)]
    told = {str(answer.get("result", answer.get("error", {}).get("code"))) for answer in answers}
    assert told == {"{}" if method == "session/delete" else "-32002"}  # what is not there is deleted already
    assert outside.exists()


def test_a_session_that_is_a_link_is_not_followed(
    start: Start, stored: tuple[Path, str], tmp_path: Path, project: Path
) -> None:
    """S1."""
    root, session = stored
    elsewhere = tmp_path / "elsewhere"
    (root / session).rename(elsewhere)
    (root / session).symlink_to(elsewhere)
    before = (elsewhere / "log.jsonl").read_bytes()
    client = loading(start, tmp_path)
    client.refused("session/load", load_params(session, project))
    assert session not in str(client.call("session/list", {}))
    assert (elsewhere / "log.jsonl").read_bytes() == before


def linked(root: Path) -> None:
    root.rename(root.with_name("real"))
    root.symlink_to(root.with_name("real"))


def writable(root: Path) -> None:
    root.chmod(0o777)


def foreign(root: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(root, 65534, 65534)


@pytest.mark.parametrize("spoil", [linked, writable, foreign])
def test_a_root_that_others_could_use_is_not_used(
    start: Start, stored: tuple[Path, str], tmp_path: Path, project: Path, spoil: Callable[[Path], None]
) -> None:
    """S2: neither read nor written."""
    root, session = stored
    spoil(root)
    names = sorted(os.listdir(root))
    client = loading(start, tmp_path)
    client.refused("session/new", {"cwd": str(project), "mcpServers": []})
    client.refused("session/load", load_params(session, project))
    client.refused("session/list", {})
    assert sorted(os.listdir(root)) == names


@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "socket-less link"])
def test_a_log_that_is_no_regular_file_is_an_error_and_no_hang(
    start: Start, stored: tuple[Path, str], tmp_path: Path, project: Path, kind: str
) -> None:
    """S2."""
    root, session = stored
    path = root / session / "log.jsonl"
    path.unlink()
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            if os.geteuid() != 0:
                pytest.skip("only root can make a device")
            try:
                os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero: reading never ends
            except PermissionError:
                pytest.skip("no devices here")
        case _:
            path.symlink_to("/dev/zero")
    client = loading(start, tmp_path)
    began = time.monotonic()
    client.refused("session/load", load_params(session, project))
    client.call("session/list", {})
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("member", ["id", "cwd"])
def test_a_header_edited_by_hand_is_refused_before_repair(
    start: Start, stored: tuple[Path, str], tmp_path: Path, project: Path, member: str
) -> None:
    """S1: nothing is repaired or appended."""
    root, session = stored
    path = root / session / "log.jsonl"
    header, _, rest = path.read_bytes().partition(b"\n")
    old = (
        session
        if member == "id"
        else json.loads(header)["data"]["cwd"]
        if "data" in json.loads(header)
        else str(project)
    )
    assert old.encode() in header
    edited = header.replace(old.encode(), (old[:-1] + ("0" if old[-1] != "0" else "1")).encode())
    path.write_bytes(edited + b"\n" + rest[: len(rest) // 2])  # and a torn tail, which a repair would cut
    before = path.read_bytes()
    client = loading(start, tmp_path)
    client.refused("session/load", load_params(session, project))
    assert path.read_bytes() == before


def test_a_log_under_another_sessions_name_is_refused(
    start: Start, stored: tuple[Path, str], tmp_path: Path, project: Path
) -> None:
    """S1: the header's id must be the folder's."""
    root, session = stored
    other = "f" * len(session)
    shutil.copytree(root / session, root / other)
    before = (root / other / "log.jsonl").read_bytes()
    client = loading(start, tmp_path)
    client.refused("session/load", load_params(other, project))
    assert (root / other / "log.jsonl").read_bytes() == before


def test_with_umask_000_nobody_else_can_read_or_write_what_is_kept(start: Start, tmp_path: Path, project: Path) -> None:
    """S2: files 0600 and folders 0700, a spilled output and a prompt's picture among them."""
    flood = use("run_command", command="yes | head -c 300000")
    command = ("/bin/sh", "-c", f"umask 000; exec {sys.executable} -m acp_bridge")
    script = written(tmp_path / "s.json", flood)
    client = start(script, command=command, environment={"ACP_BRIDGE_MODE": "full"})
    client.initialize()
    session = client.new_session(project)
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
    picture = {"type": "image", "data": pixel, "mimeType": "image/png"}
    client.call("session/prompt", {"sessionId": session, "prompt": [picture, {"type": "text", "text": "go"}]})
    client.call("session/list", {})
    client.call("session/close", {"sessionId": session})
    kept = [path for path in client.home.rglob("*") if not path.is_symlink()]
    assert any("spill" in path.parts for path in kept)
    modes = {str(path.relative_to(client.home)): stat.S_IMODE(path.stat().st_mode) for path in kept}
    wrong = {name: oct(mode) for name, mode in modes.items() if mode & 0o077}
    assert not wrong
    assert log.kinds(client.home, session)[-1] == "turn/end"
