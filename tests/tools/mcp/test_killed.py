"""Nobody is left behind: the agent is killed, and its MCP servers end with all that they started."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ..conftest import Marked  # noqa: TID252 - tests are no package to import from
from .conftest import SERVERS

AGENT = """
import os, sys
from pathlib import Path
import anyio
from acp_bridge.tools import McpServers, ServerSpec

async def main():
    env = {"MARK": os.environ["MARK"]}
    script, *kinds = sys.argv[1:]
    specs = [ServerSpec(name=how, command=sys.executable, args=(script, how), env=env) for how in kinds]
    servers = McpServers(tuple(specs), env=os.environ, cwd=Path.cwd())
    async with anyio.create_task_group() as tg:
        tg.start_soon(servers.run)
        await servers.ready(10)
        Path("ready").touch()
        await anyio.sleep_forever()

anyio.run(main)
"""


def test_a_killed_agent_leaves_no_server_and_no_grandchild(marked: Marked, tmp_path: Path) -> None:
    env = {**os.environ, "MARK": marked.token}
    argv = [sys.executable, "-c", AGENT, str(SERVERS / "odd.py"), "grandchild", "stays"]
    agent = subprocess.Popen(argv, cwd=tmp_path, env=env, start_new_session=True)
    try:
        deadline = time.monotonic() + 15
        while not (tmp_path / "ready").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert len(marked.pids()) >= 6  # itself, two guards, two servers, a grandchild
        os.killpg(agent.pid, signal.SIGKILL)
        agent.wait(5)
        assert marked.all_gone_within(2)
    finally:
        agent.kill()
        agent.wait(5)


def test_without_a_server_the_library_is_not_imported(tmp_path: Path) -> None:
    probe = """
import sys, anyio
from pathlib import Path
from acp_bridge.tools import McpServers
async def main():
    servers = McpServers((), env={}, cwd=Path("/"))
    await servers.run(); await servers.ready(1); await servers.aclose()
anyio.run(main)
print([name for name in ("mcp", "mcp_types") if name in sys.modules])
"""
    shown = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=30)
    assert shown.stdout.strip() == "[]"
