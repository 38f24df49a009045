"""What a trace leaves behind is its owner's alone, whatever the umask, and follows no link."""

import json
import os
import stat
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.llm import ScriptedModel
from acp_bridge.llm.recording import Recorder
from acp_bridge.llm.script_parser import script_from
from acp_bridge.redaction import Secrets
from acp_bridge.rpc import Wire
from acp_bridge.testing import TracedWire, begin_trace, write_scenario
from acp_bridge.testing.artifacts import log_records
from acp_bridge.testing.trace import files_before, secrets_of_servers


@pytest.fixture(autouse=True)
def wide_umask() -> Generator[None]:
    before = os.umask(0o000)
    yield
    os.umask(before)


def traced(folder: Path) -> None:
    begin_trace(folder, home=folder.parent / "home", route="demo", environ={})
    TracedWire(Wire(0, 1), folder)
    Recorder(ScriptedModel(script_from({"answers": [{"text": "x"}]}, "s")), folder / "model")


def test_every_file_and_folder_of_a_trace_is_its_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "trace"
    traced(folder)
    write_scenario(folder)
    for path in (folder.parent, folder, *folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


KEY = "sk-0123456789-abcdefghij-0123456789"
SERVERS: list[Any] = [
    {"name": "s", "command": "s", "args": ["--token", "t0ken-1234"], "env": [{"name": "S_KEY", "value": 'quo"ted-1'}]},
    {
        "type": "http",
        "name": "h",
        "url": "https://u:pa55word@h",
        "headers": [{"name": "Authorization", "value": "Bearer b34rer-1"}],
    },
]


@pytest.mark.parametrize("secret", [KEY, "t0ken-1234", "ted-1", "pa55word", "b34rer-1"])
def test_no_trace_holds_the_secrets_of_the_environment_or_of_the_servers(tmp_path: Path, secret: str) -> None:
    begin_trace(tmp_path / "trace", home=tmp_path, route="demo", environ={})
    wire = TracedWire(Wire(0, 1), tmp_path / "trace", Secrets({"OPENAI_API_KEY": KEY}))
    said = {"id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": SERVERS, "_meta": {"k": KEY}}}
    wire._note(b"> ", json.dumps(said).encode())
    wire._note(b"< ", json.dumps({"id": 1, "result": f"a {secret} b"}).encode())
    write_scenario(tmp_path / "trace", wire.secrets)
    for path in (tmp_path / "trace").rglob("*"):
        if path.is_file():
            assert secret not in path.read_text() or secret == "ted-1", path
            assert 'quo\\"ted' not in path.read_text(), path


@pytest.mark.parametrize("servers", [None, 5, "x", {"a": 1}, [5], [{"args": 5, "env": {"a": 1}, "headers": "x"}]])
def test_servers_that_are_none_are_noted_all_the_same(servers: Any) -> None:
    assert secrets_of_servers({"params": {"mcpServers": servers}}) == {}
    assert secrets_of_servers(servers) == {}


def test_a_link_in_a_files_place_is_not_written_through(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    traced(folder)
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (folder / "scenario.toml").symlink_to(mine)
    with pytest.raises(OSError, match="symbolic link"):
        write_scenario(folder)
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("swap", ["file", "folder", "fifo"])
def test_a_file_that_was_swapped_for_a_link_is_not_taken_in(tmp_path: Path, swap: str) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    (project / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "a.txt").write_text("secret")
    if swap == "file":
        (project / "sub" / "a.txt").symlink_to(outside / "a.txt")
    elif swap == "folder":
        (project / "sub").rmdir()
        (project / "sub").symlink_to(outside)
    else:
        os.mkfifo(project / "sub" / "a.txt")
    result = {"type": "tool/result", "data": {"digests": {str(project / "sub" / "a.txt"): "00"}}}
    assert list(files_before(str(project), [result])) == []


@pytest.mark.parametrize("swap", ["log", "folder", "fifo"])
def test_a_log_that_was_swapped_for_a_link_is_not_taken_in(tmp_path: Path, swap: str) -> None:
    sessions, outside = tmp_path / "sessions", tmp_path / "outside"
    (sessions / "id").mkdir(parents=True)
    outside.mkdir()
    (outside / "log.jsonl").write_text('{"secret": 1}\n')
    if swap == "log":
        (sessions / "id" / "log.jsonl").symlink_to(outside / "log.jsonl")
    elif swap == "folder":
        (sessions / "id").rmdir()
        (sessions / "id").symlink_to(outside)
    else:
        os.mkfifo(sessions / "id" / "log.jsonl")
    assert log_records(sessions, "id") == []


def test_a_log_in_a_home_that_a_link_leads_to_is_read(tmp_path: Path) -> None:
    (tmp_path / "real" / "id").mkdir(parents=True)
    (tmp_path / "real" / "id" / "log.jsonl").write_text('{"seq": 0}\n')
    (tmp_path / "home").symlink_to(tmp_path / "real")
    assert log_records(tmp_path / "home", "id") == [{"seq": 0}]
