"""The Commands port and its guarded form: shell commands of one session, none of which outlives it.

Owns a command's environment, output, time limit and background jobs. What guards it is `child` and `_guardian`.
"""

import contextlib
import fcntl
import math
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import anyio
import anyio.lowlevel

from acp_bridge.errors import ToolError
from acp_bridge.redaction import Secrets

from .capture import Capture
from .child import Descriptors, GuardedChild, guard
from .unattended import unattended

ALLOWED = frozenset({"PATH", "HOME", "LANG", "TERM", "TMPDIR", "TZ", "USER", "SHELL", "LOGNAME"})
"""Names that a command gets, with every `LC_*`. No provider's key is among them, whatever it is called."""

DRAIN_S = 0.3
QUIET_S = 0.05
"""After the shell ended: how long its pipe is read at most, and how long a silence ends that."""
PROGRESS_S = 0.1


NOTHING_MORE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended.

    Attributes:
        code: exit code, 128 + n after signal n; None if it was ended for its time limit.
        output: what it wrote to stdout and stderr, in order of arrival, as a terminal would show it in the end,
            without secrets, bounded by keeping head and tail.
        cut: bytes left out of the middle of `output`.
        spilled: the file that holds the whole, if more was written than is kept and the file could be.
        spilled_all: whether it does hold the whole.
        left_running: descendants that go on in the background.
    """

    code: int | None
    output: str
    cut: int = 0
    spilled: Path | None = None
    spilled_all: bool = True
    left_running: int = 0


class Commands(Protocol):
    """Runs commands so that none outlives its session, also after SIGKILL of this process."""

    async def run(
        self,
        command: str,
        *,
        cwd: Path,
        timeout_s: float,
        name: str,
        progress: Callable[[str], None],
        env: Mapping[str, str] = NOTHING_MORE,
    ) -> Ended:
        """Run `sh -c command` until the shell ends, with the variables of `env` beside the usual ones.

        Cancelled, it ends every descendant of the command first.
        """
        ...

    async def aclose(self) -> None:
        """End every job that commands left in the background. Closing twice does nothing."""
        ...


class GuardedCommands:
    """Commands of one session.

    Args:
        env: the environment to choose from.
        extra_names: variables that a command gets beside the usual ones.
        spill: folder for whole outputs; made when first needed.
        running: the file that guards hold a shared lock on; see `earlier_commands_ended`.
        secrets: taken out of all output, in the file for whole outputs too.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        extra_names: Iterable[str] = (),
        *,
        spill: Path | None = None,
        running: Path | None = None,
        secrets: Secrets = Secrets(),  # noqa: B008 - a frozen value
    ) -> None:
        self._secrets = secrets
        named = frozenset(extra_names)
        self._env = unattended(allowed(env, named), named)
        self._spill = spill
        self._running = running
        self._children: set[GuardedChild] = set()

    async def run(
        self,
        command: str,
        *,
        cwd: Path,
        timeout_s: float,
        name: str,
        progress: Callable[[str], None],
        env: Mapping[str, str] = NOTHING_MORE,
    ) -> Ended:
        """Run `sh -c command` under a guard of its own until the shell ends, whatever still holds its pipes."""
        self._children = {child for child in self._children if not child.is_gone()}
        file = self._spill / f"{re.sub('[^A-Za-z0-9._-]', '_', name)[:100]}.txt" if self._spill else None
        capture = Capture(file, self._secrets)
        held: list[GuardedChild] = []
        left = 0
        try:
            with contextlib.ExitStack() as pipe:
                source, sink = _pipe(pipe)
                fds = Descriptors(subprocess.DEVNULL, sink.fileno(), sink.fileno(), drain=source.fileno())
                argv = ("/bin/sh", "-c", command)
                await guard(argv, env={**self._env, **env}, cwd=cwd, fds=fds, keep=held.append, running=self._running)
                sink.close()  # else the end of the output could never be seen
                code, left = await _watch(held[0], source.fileno(), capture, timeout_s, progress)
            await capture.finish()
            output, cut = capture.text()
            return Ended(
                code=code,
                output=output,
                cut=cut,
                spilled=capture.spilled,
                spilled_all=capture.spilled_all,
                left_running=left,
            )
        finally:
            capture.close()
            for child in held:
                if left:
                    self._children.add(child)
                else:
                    await child.end()

    async def aclose(self) -> None:
        """End every job in the background, all at once, within `child.END_S`."""
        children, self._children = self._children, set()
        async with anyio.create_task_group() as tg:
            for child in children:
                tg.start_soon(child.end)


def allowed(env: Mapping[str, str], extra_names: Iterable[str] = ()) -> dict[str, str]:
    """Return the part of `env` that a command may see."""
    names = ALLOWED.union(extra_names)
    return {name: value for name, value in env.items() if name in names or name.startswith("LC_")}


async def earlier_commands_ended(path: Path, wait_s: float = 2.0) -> bool:
    """Whether surely no guard holds `path` any more, waiting a moment for those that are just ending their commands."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False  # it cannot be known
    try:
        with anyio.move_on_after(wait_s):
            while not _take_lock(fd):  # noqa: ASYNC110 - no event comes from a lock
                await anyio.sleep(0.02)
            return True
        return _take_lock(fd)
    finally:
        os.close(fd)  # lets go of the lock


def _take_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pipe(stack: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    try:
        source, sink = os.pipe()
    except OSError as exc:
        raise ToolError(f"the command could not be started: {(exc.strerror or '').lower()}") from exc
    os.set_blocking(source, False)
    return stack.enter_context(FileIO(source, "r")), stack.enter_context(FileIO(sink, "w"))


async def _watch(
    child: GuardedChild, source: int, capture: Capture, timeout_s: float, progress: Callable[[str], None]
) -> tuple[int | None, int]:
    """Follow a command until its shell ends; return its code, None after the time limit, and what it left running."""
    status: tuple[int, int] | None = None
    with anyio.move_on_after(timeout_s) as limit:
        async with anyio.create_task_group() as tg:
            tg.start_soon(_collect, source, capture, math.inf)
            tg.start_soon(_tell, capture, progress)
            status = await child.ended()
            tg.cancel_scope.cancel()
    if status is None and limit.cancelled_caught:
        await child.end()
    with anyio.move_on_after(DRAIN_S):  # the rest of what the shell wrote is in the pipe; a job may go on writing
        await _collect(source, capture, QUIET_S)
    if status is not None:
        if status[1]:
            child.drain()
        return status
    if limit.cancelled_caught:
        return None, 0
    child.kill()
    raise ToolError(child.failure or "the command's guard was killed, and the command with it; it may be half done")


async def _collect(source: int, capture: Capture, quiet_s: float) -> None:
    """Read until the end, or until nothing came for `quiet_s`."""
    while True:
        await anyio.lowlevel.checkpoint()  # a flood never has to wait
        try:
            chunk = os.read(source, 65536)
        except BlockingIOError:
            with anyio.move_on_after(quiet_s) as silence:
                await anyio.wait_readable(source)
            if silence.cancelled_caught:
                return
            continue
        if not chunk:
            return
        await capture.add(chunk)


async def _tell(capture: Capture, progress: Callable[[str], None]) -> None:
    told = 0
    while True:
        await anyio.sleep(PROGRESS_S)
        if capture.total != told:
            told = capture.total
            progress(capture.text()[0])
