"""The `rg` binary: run in a folder that is held open, its output bounded.

Owns how it is found, called and ended. Knows no tool.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import ByteReceiveStream

from acp_bridge.errors import ToolError

from .files import held
from .tool import Workspace

LIMIT_S = 60.0
COMMON = (
    "--no-config",  # settings of the user's may name programs to run
    "--no-messages",  # a folder that may not be read is no reason to fail
    "--color=never",
    "--sort=path",
    "--hidden",
    "--no-require-git",
)


@dataclass(frozen=True, slots=True)
class Found:
    """What it printed, and whether that was cut short."""

    output: bytes
    cut: bool


async def ripgrep(arguments: Sequence[str], path: Path, workspace: Workspace, *, max_bytes: int) -> Found:
    """Run `rg` on the folder or file `path`, without what is protected below it.

    Raises:
        ToolError: it is not installed, the pattern is wrong, or it took too long.
    """
    folder, name = (path, ".") if await anyio.to_thread.run_sync(os.path.isdir, path) else (path.parent, path.name)
    with ExitStack() as stack:
        try:
            fd = stack.enter_context(held(folder))
            cwd = f"/proc/self/fd/{fd}" if sys.platform.startswith("linux") else folder
            argv = [_binary(), *COMMON, *arguments, *_hidden_globs(folder, workspace), "--", f"./{name}"]
            process = await anyio.open_process(argv, cwd=cwd, env={"LC_ALL": "C.UTF-8"}, stdin=subprocess.DEVNULL)
        except (OSError, ValueError) as exc:
            raise ToolError(f"{str(path)!r} cannot be searched: {exc}") from exc
    errors = bytearray()
    found = Found(b"", False)
    try:
        with anyio.move_on_after(LIMIT_S) as limit:
            async with anyio.create_task_group() as tg:
                tg.start_soon(_keep, process.stderr, errors, 2000)
                found = await _bounded(process.stdout, max_bytes)
                if found.cut:
                    process.kill()
            await process.wait()
    finally:
        with anyio.CancelScope(shield=True):  # it is killed first, so there is next to nothing to wait for
            if process.returncode is None:
                process.kill()
            await process.aclose()
    if limit.cancelled_caught:
        raise ToolError(f"the search took more than {LIMIT_S:g} s; narrow it down by path", code="TIMED_OUT")
    if errors and not found.output:
        raise ToolError(errors.decode("utf-8", "replace").strip())
    return found


def _binary() -> str:
    beside = Path(sys.executable).with_name("rg")
    binary = str(beside) if os.access(beside, os.X_OK) else shutil.which("rg")
    if binary is None:
        raise ToolError("ripgrep (`rg`) is not installed; use run_command with grep or find instead")
    return binary


def _hidden_globs(folder: Path, workspace: Workspace) -> list[str]:
    """Return globs that leave out what asks always; the last one counts, so they stand behind the caller's."""
    inside = [path.relative_to(folder) for path in workspace.protected if path.is_relative_to(folder)]
    return ["--iglob=!**/.git", *(f"--glob=!/{_literal(str(path))}" for path in inside if path.parts)]


def _literal(text: str) -> str:
    return "".join(f"\\{char}" if char in "*?[]{}\\!" else char for char in text)


async def _bounded(stream: ByteReceiveStream | None, max_bytes: int) -> Found:
    output = bytearray()
    cut = await _keep(stream, output, max_bytes, stop=True)
    return Found(bytes(output), cut)


async def _keep(stream: ByteReceiveStream | None, kept: bytearray, max_bytes: int, stop: bool = False) -> bool:
    if stream is None:
        return False
    async for chunk in stream:
        kept += chunk[: max_bytes - len(kept)]
        if stop and len(kept) >= max_bytes:
            return True
    return False
