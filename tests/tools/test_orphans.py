"""Nobody is left behind: the agent is killed, by itself or with its whole process group, and its commands end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .conftest import Marked
from .test_guard import SPAWN_ALL_SORTS

AGENT = """
import os, sys
from pathlib import Path
import anyio
from acp_bridge.tools import GuardedCommands

async def main():
    commands = GuardedCommands(os.environ, ("MARK",), running=Path("running"))
    async with anyio.create_task_group() as tg:
        for n, command in enumerate(sys.argv[1:]):
            tg.start_soon(lambda c=command, n=n: commands.run(
                c, cwd=Path.cwd(), timeout_s=1000, name=f"c{n}", progress=lambda output: None))
        await anyio.sleep_forever()

anyio.run(main)
"""


def agent(marked: Marked, folder: Path, *commands: str, stdin: int | None = None) -> subprocess.Popen[bytes]:
    env = {name: value for name, value in os.environ.items() if name in ("PYTHONPATH", "HOME")}
    return subprocess.Popen(
        [sys.executable, "-c", AGENT, *commands],
        cwd=folder,
        env={**env, **marked.env},
        start_new_session=True,
        stdin=stdin,
    )


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_command_does_not_read_what_is_meant_for_the_agent(marked: Marked, tmp_path: Path) -> None:
    process = agent(marked, tmp_path, "cat > got; touch ready", stdin=subprocess.PIPE)
    try:
        assert process.stdin
        process.stdin.write(b"from the client")
        process.stdin.flush()
        wait_for(tmp_path / "ready")
        assert (tmp_path / "got").read_bytes() == b""
    finally:
        end(process)
        process.communicate()


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(5)


@pytest.mark.parametrize("whole_group", [True, False])
def test_a_killed_agent_leaves_no_process(marked: Marked, tmp_path: Path, whole_group: bool) -> None:
    process = agent(
        marked,
        tmp_path,
        f"{SPAWN_ALL_SORTS}\n sleep 0.3; touch ready; sleep 1000",  # in the middle of a command
        "sleep 1000 & sleep 1000 & touch done",  # and with jobs in the background of another
    )
    try:
        wait_for(tmp_path / "ready")
        wait_for(tmp_path / "done")
        assert len(marked.pids()) >= 10
        if whole_group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait(5)
        assert marked.all_gone_within(2)
    finally:
        end(process)


@pytest.mark.parametrize("after_s", [0.0, 0.004, 0.008, 0.012, 0.02])
def test_an_agent_killed_while_a_command_starts_leaves_no_process(
    marked: Marked, tmp_path: Path, after_s: float
) -> None:
    process = agent(marked, tmp_path, "touch first", "while [ ! -e first ]; do :; done; sleep 1000")
    try:
        deadline = time.monotonic() + 10
        while len(marked.pids()) < 2:  # the first guard is being started
            assert time.monotonic() < deadline
        time.sleep(after_s)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(5)
        assert marked.all_gone_within(2)
    finally:
        end(process)


def test_a_fast_forking_tree_is_ended(marked: Marked, tmp_path: Path) -> None:
    """Each process starts its successor and ends, ignoring TERM: whoever looks finds only the dead."""
    (tmp_path / "hydra").write_text(
        "import os, signal\nsignal.signal(15, signal.SIG_IGN)\nfor _ in range(20000):\n  if os.fork(): os._exit(0)\n"
    )
    hydra = f"{sys.executable} -I -S hydra &"
    process = agent(marked, tmp_path, f"{hydra} {hydra} sleep 0.2; touch ready; sleep 1000")
    try:
        wait_for(tmp_path / "ready")
        process.kill()
        process.wait(5)
        assert marked.all_gone_within(1.5)  # by themselves they would take longer
    finally:
        end(process)
