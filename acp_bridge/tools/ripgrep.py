"""The `rg` binary: run in a folder that is held open, its output bounded.

Owns how it is found, called and ended. Knows no tool.
"""

import contextlib
import os
import shutil
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import ByteReceiveStream, ByteSendStream

from acp_bridge.errors import ToolError

from .always_ask import UNREAD
from .files import held
from .paths import closed_homes
from .process import guarded_process
from .tool import Workspace

LIMIT_S = 60.0
WRONG = 2
ENV = {"LC_ALL": "C.UTF-8"}
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


async def ripgrep(
    options: Sequence[str],
    path: Path,
    workspace: Workspace,
    *,
    only: str | None,
    max_bytes: int,
    ignored: bool = False,
    limit_s: float = LIMIT_S,
) -> Found:
    """Run `rg` on the folder or file `path`, without what is protected below it.

    Args:
        options: what to do there.
        path: resolved.
        workspace: what is protected.
        only: a glob; other files are left out.
        max_bytes: how much output is taken.
        ignored: take also what `.gitignore` names.
        limit_s: how long it may take.

    Raises:
        ToolError: it is not installed, the pattern is wrong, it took too long, or nothing can be searched.
    """
    folder, name = await anyio.to_thread.run_sync(_place, path)
    lines = f"*\n!*/\n!{only}\n" if only else ""
    choice = ["--no-ignore", *([f"--glob={_glob(only)}"] if only else [])] if ignored else _choice(only)
    argv = [_binary(), *COMMON, *options, *choice, *_hidden_globs(folder, workspace), "--", f"./{name}"]
    code: int | None = None
    output = bytearray()
    try:
        with anyio.move_on_after(limit_s) as limit, held(folder) as fd:
            cwd = Path(f"/proc/self/fd/{fd}") if sys.platform.startswith("linux") else folder
            async with guarded_process(argv, env=ENV, cwd=cwd, stderr=None, leave_s=0) as rg:
                await _tell(rg.stdin, "" if ignored else lines)
                if not await _fill(output, rg.stdout, max_bytes):
                    code = await rg.wait()
    except OSError as exc:
        raise ToolError(f"{str(path)!r} cannot be searched: {(exc.strerror or '').lower()}") from exc
    if limit.cancelled_caught:
        raise ToolError(f"the search took more than {limit_s:g} s; narrow it down by path", code="TIMED_OUT")
    if code == WRONG and b"\0" not in output:
        raise ToolError(output.decode("utf-8", "replace").strip() or f"{str(path)!r} cannot be searched")
    return Found(bytes(output), cut=code is None)


def _place(path: Path) -> tuple[Path, str]:
    """Return the folder to run in, and the file in it that is meant, if it is one.

    Raises:
        ToolError: there is nothing, or nothing that ends: reading a pipe or a device might wait for ever.
    """
    try:
        mode = os.stat(path, follow_symlinks=False).st_mode
    except OSError as exc:
        raise ToolError(f"{str(path)!r} does not exist") from exc
    if stat.S_ISDIR(mode):
        return path, ""
    if not stat.S_ISREG(mode):
        raise ToolError(f"{str(path)!r} is no regular file")
    return path.parent, path.name


def _glob(only: str) -> str:
    if "\n" in only:
        raise ToolError("a glob has one line")
    return only


def _binary() -> str:
    beside = Path(sys.executable).with_name("rg")
    binary = str(beside) if os.access(beside, os.X_OK) else shutil.which("rg")
    if binary is None:
        raise ToolError("ripgrep (`rg`) is not installed; use run_command with grep or find instead")
    return binary


def _choice(only: str | None) -> list[str]:
    """Return options for one glob that, unlike `--glob`, does not bring back what `.gitignore` names.

    A list of ignored names on stdin (all but the glob's) yields to every `.gitignore`; the type does not, so that what
    one takes back in (`!keep`) must match too. Types know only the last part of a path: `x/**` still shows `keep`.
    """
    if not only:
        return []
    _glob(only)
    return ["--ignore-file=/dev/stdin", f"--type-add=chosen:{only.rpartition('/')[2] or '*'}", "--type=chosen"]


def _hidden_globs(folder: Path, workspace: Workspace) -> list[str]:
    """Return globs that leave out what asks always; the last one counts, so they stand behind the caller's."""
    closed = (*workspace.protected, *closed_homes(workspace))
    inside = [path.relative_to(folder) for path in closed if path.is_relative_to(folder)]
    own = (f"--iglob=!/{_literal(str(path))}" for path in inside if path.parts)
    return [*(f"--iglob=!**/{name}" for name in UNREAD), *own]


def _literal(text: str) -> str:
    return "".join(f"\\{char}" if char in "*?[]{}\\!" else char for char in text)


async def _tell(stream: ByteSendStream, text: str) -> None:
    with contextlib.suppress(anyio.BrokenResourceError):  # it ended at once and says why on its output
        await stream.send(text.encode("utf-8", "replace"))
    await stream.aclose()


async def _fill(output: bytearray, stream: ByteReceiveStream, max_bytes: int) -> bool:
    """Read to the end, or until there are `max_bytes`; whether that came first."""
    async for chunk in stream:
        output += chunk[: max_bytes - len(output)]
        if len(output) >= max_bytes:
            return True
    return False
