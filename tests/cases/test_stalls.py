"""What takes long is done beside the event loop: no session stands still for another's. Figures: `bench/stalls`."""

import subprocess
import sys
from pathlib import Path

PROBE = """
import os, sys, threading
import anyio
from acp_bridge.config import load
from acp_bridge.headless import open_runtime

HEAVY = ("openai", "anthropic", "httpx", "httpx2", "mcp")
on_the_loop = []

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HEAVY and threading.current_thread() is threading.main_thread():
            on_the_loop.append(name)
        return None

async def main():
    async with open_runtime(load(os.environ)) as runtime:
        sys.meta_path.insert(0, Watch())
        session = await runtime.new_session(os.getcwd())
        ticks = 0
        async def tick():
            nonlocal ticks
            while True:
                await anyio.sleep(0.001)
                ticks += 1
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tick)
            runtime.assembly.takes_images("anthropic:claude-sonnet-4-5")
            await session.configure("model", "anthropic:claude-sonnet-4-5")
            assert "anthropic" not in sys.modules  # nobody waits for it who only chooses
            await runtime.assembly.models.opened("anthropic:claude-sonnet-4-5")  # as the next prompt does
            tasks.cancel_scope.cancel()
        assert "anthropic" in sys.modules
        print(len(on_the_loop), ticks > 5, *on_the_loop[:3])

anyio.run(main, backend=sys.argv[1])
"""


def test_a_providers_library_is_imported_beside_the_event_loop(tmp_path: Path) -> None:
    """Counted: imports by the loop's thread, and that the loop went round meanwhile."""
    environ = {
        "ACP_BRIDGE_HOME": str(tmp_path / "home"),
        "ACP_BRIDGE_MODEL": "demo",
        "ACP_BRIDGE_MODELS": "anthropic:claude-sonnet-4-5",
        "ANTHROPIC_API_KEY": "sk-0123456789abcdef",
        "PATH": "/usr/bin:/bin",
    }
    argv = [sys.executable, "-P", "-c", PROBE, "asyncio"]
    shown = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, env=environ, timeout=60)
    assert shown.stdout == "0 True\n", shown.stderr
