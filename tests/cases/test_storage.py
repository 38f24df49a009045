"""What a client hears of a disk that takes nothing, and what heals: in process, over two pipes."""

import errno
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.script import say, use, written

from acp_bridge.app import serve
from acp_bridge.config import load
from acp_bridge.rpc import Wire
from acp_bridge.storage import JsonlStore
from acp_bridge.storage.disk import OsDisk

from .test_in_process import Host

pytestmark = pytest.mark.anyio
UNSAVED = -31002


class Fallible(OsDisk):
    """The real disk, which is full or read-only for as long as a test says so, and notes its syncs."""

    full = read_only = False

    def __init__(self) -> None:
        self.calls: list[str] = []

    def sync(self, fd: int) -> None:
        self.calls.append("sync")
        super().sync(fd)

    def sync_folder(self, path: str) -> None:
        self.calls.append("sync_folder")
        super().sync_folder(path)

    def open(self, path: str, flags: int) -> int:
        if self.read_only and flags & os.O_RDWR:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return super().open(path, flags)

    def write(self, fd: int, data: memoryview) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(fd, data)


class Talk(Host):
    """A client's end that asks and waits."""

    def __init__(self) -> None:
        super().__init__()
        self._number = 0

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the whole answer, be it an error."""
        self._number += 1
        self.send(self._number, method, params)
        return await self.until(f'"id": {self._number}')

    def updates(self, kind: str) -> list[dict[str, Any]]:
        """Return all updates of a kind so far."""
        sent = (message["params"]["update"] for message in self.received if message.get("method") == "session/update")
        return [update for update in sent if update["sessionUpdate"] == kind]


@asynccontextmanager
async def agent(home: Path, disk: OsDisk, *, mode: str = "full") -> AsyncGenerator[Talk]:
    """Serve a client for the time of the block; what is left unsaved at the end is not its matter."""
    script = written(home.parent / "s.json", use("write_file", path="a", content="b", when="write"), say("Hello."))
    environment = {"ACP_BRIDGE_MODEL": f"scripted:{script}", "ACP_BRIDGE_MODE": mode, "ACP_BRIDGE_HOME": str(home)}
    host = Talk()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            store = JsonlStore(home / "sessions", disk=disk, patience_s=0.05)

            async def run() -> None:
                await serve(load(environment), Wire(*host.wire_ends), store=store)

            tasks.start_soon(run)
            await host.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
            try:
                yield host
            finally:
                host.hang_up()
    host.close()


async def new(host: Talk, cwd: Path) -> str:
    return str((await host.ask("session/new", {"cwd": str(cwd), "mcpServers": []}))["result"]["sessionId"])


async def prompted(host: Talk, session: str, text: str = "hi") -> dict[str, Any]:
    return await host.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})


async def test_a_session_on_a_read_only_disk_is_shown_with_a_notice_and_takes_prompts_once_it_is_writable(
    tmp_path: Path,
) -> None:
    home, disk = tmp_path / "home", Fallible()
    async with agent(home, disk) as host:
        session = await new(host, tmp_path)
        await prompted(host, session)
    log = home / "sessions" / session / "log.jsonl"
    before = log.read_bytes()
    disk.read_only = True
    params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
    async with agent(home, disk) as host:
        assert "result" in await host.ask("session/load", params)
        told = [update["content"]["text"] for update in host.updates("agent_message_chunk")]
        assert "Hello." in told
        assert any("can only be read" in text for text in told)
        error = (await prompted(host, session, "write"))["error"]
        assert (error["code"], os.strerror(errno.EROFS) in error["data"]["details"]) == (UNSAVED, True)
        refused = (await host.ask("session/new", params))["error"]
        assert "set ACP_BRIDGE_HOME" in refused["data"]["details"]
        assert (log.read_bytes(), (tmp_path / "a").exists()) == (before, False)
        disk.read_only = False
        assert (await prompted(host, session))["result"] == {"stopReason": "end_turn"}
    assert log.read_bytes().count(b'"turn/end"') == 3


async def test_a_load_that_has_nothing_new_to_say_writes_and_syncs_nothing(tmp_path: Path) -> None:
    home, disk = tmp_path / "home", Fallible()
    async with agent(home, disk) as host:
        session = await new(host, tmp_path)
        await prompted(host, session)
    log, lock = home / "sessions" / session / "log.jsonl", home / "sessions" / f"{session}.lock"
    before = log.read_bytes()
    params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
    for method in ("session/load", "session/resume", "session/load"):
        disk.calls.clear()
        async with agent(home, disk) as host:
            assert "result" in await host.ask(method, params)
        assert (log.read_bytes(), disk.calls) == (before, [])
    lock.unlink()  # as if the power had taken it: now nothing says that what is shown was ever synced
    async with agent(home, disk) as host:
        assert "result" in await host.ask("session/load", params)
    assert log.read_bytes().count(b'"session/opened"') == 2
    for folder in (tmp_path, home, home):
        async with agent(home, disk) as host:
            assert "result" in await host.ask("session/load", {**params, "cwd": str(folder)})
    assert log.read_bytes().count(b'"session/opened"') == 3


async def test_a_full_disk_heals_for_a_change_of_mode_as_for_a_prompt(tmp_path: Path) -> None:
    disk = Fallible()
    async with agent(tmp_path / "home", disk, mode="ask") as host:
        session = await new(host, tmp_path)
        disk.full = True
        for _ in range(2):
            refused = await host.ask("session/set_mode", {"sessionId": session, "modeId": "edit"})
            assert refused["error"]["code"] == UNSAVED
        assert host.updates("current_mode_update") == []
        disk.full = False
        assert (await host.ask("session/set_mode", {"sessionId": session, "modeId": "edit"}))["result"] == {}
        option = {"sessionId": session, "configId": "mode", "value": "ask"}
        assert "result" in await host.ask("session/set_config_option", option)
        assert (await prompted(host, session))["result"] == {"stopReason": "end_turn"}


async def test_a_narrower_mode_that_a_full_disk_does_not_take_holds_and_is_told(tmp_path: Path) -> None:
    disk = Fallible()
    async with agent(tmp_path / "home", disk) as host:
        session = await new(host, tmp_path)
        disk.full = True
        refused = (await host.ask("session/set_mode", {"sessionId": session, "modeId": "plan"}))["error"]
        assert "mode 'plan' is in force here all the same" in refused["data"]["details"]
        assert [update["currentModeId"] for update in host.updates("current_mode_update")] == ["plan"]


async def test_a_prompt_whose_sessions_folder_is_gone_says_where_it_is_kept(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with agent(home, Fallible()) as host:
        session = await new(host, tmp_path)
        (home / "sessions" / session).rename(tmp_path / "moved")
        error = (await prompted(host, session, "are you there?"))["error"]
        [kept] = (home / "sessions").glob(f"unsaved-{session}-*.jsonl")
        assert str(kept) in error["data"]["details"]
        assert b"are you there?" in kept.read_bytes()
