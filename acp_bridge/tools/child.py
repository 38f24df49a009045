"""One program under a guard process of its own, seen from the agent.

Owns the descriptors, the words exchanged with the guard, and the certainty that both are gone. Knows no shell.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread

from acp_bridge.errors import ToolError

END_S = 3.0
"""What ending a tree may take: the guard's grace, and time for the kernel on a busy machine."""

_GUARDIAN = str(Path(__file__).with_name("_guardian.py"))


@dataclass(frozen=True, slots=True)
class Descriptors:
    """What the program gets as 0, 1 and 2, and the pipe that the guard empties when told to, or -1."""

    stdin: int
    stdout: int
    stderr: int
    drain: int = -1


@dataclass(slots=True, eq=False)
class GuardedChild:
    """A guard, and the program that it runs."""

    _guard: subprocess.Popen[bytes]
    _control: socket.socket
    _heard: bytearray = field(default_factory=bytearray)
    _group: int = 0
    failure: str = ""

    async def ended(self) -> tuple[int, int] | None:
        """Wait until the program ends; return its exit code and how many descendants it left.

        None if that will not be known: `failure` says why, or the guard was killed.
        """
        while line := await self._line():
            match line.split(maxsplit=2):
                case ["started", pid]:
                    self._group = int(pid)
                case ["ended", code, left]:
                    return int(code), int(left)
                case _:
                    self.failure = f"the command could not be started: {line.partition(' ')[2]}"
                    return None
        return None

    def drain(self) -> None:
        """Have the guard read, from now on, what nobody here reads any more."""
        with contextlib.suppress(OSError):
            self._control.send(b"d")

    def is_gone(self) -> bool:
        """Whether the guard, and with it all that it guarded, has ended by itself; if so, nothing is held any more."""
        if self._guard.poll() is None:
            return False
        self._control.close()
        return True

    async def gone(self) -> None:
        """Wait until the guard has gone, which it does when nothing is left to guard."""
        while await self._line():
            pass
        while self._guard.poll() is None:  # noqa: ASYNC110 - no event comes from a process
            await anyio.sleep(0.001)  # it has closed its end; what is left of its exit takes less than this
        self._control.close()

    async def end(self, *, within_s: float = END_S) -> None:
        """End the program and all its descendants, also while being cancelled."""
        if self.is_gone():
            return
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
            os.kill(self._guard.pid, signal.SIGCONT)  # the command may have stopped it
        with anyio.move_on_after(within_s, shield=True) as limit:
            await self.gone()
        if limit.cancelled_caught:
            self.kill()

    def kill(self) -> None:
        """End what can be named without the guard, if it was killed. One that is only slow goes on by itself."""
        if self._group:
            with contextlib.suppress(OSError):
                os.killpg(self._group, signal.SIGKILL)
        self._guard.poll()
        self._control.close()

    async def _line(self) -> str:
        while b"\n" not in self._heard:
            try:
                words = self._control.recv(4096)
            except BlockingIOError:
                await anyio.wait_readable(self._control)
                continue
            except OSError:
                words = b""
            if not words:
                return ""
            self._heard += words
        line, _, rest = self._heard.partition(b"\n")
        self._heard[:] = rest
        return line.decode()


async def guard(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    fds: Descriptors,
    keep: Callable[[GuardedChild], None],
    running: Path | None = None,
) -> None:
    """Start `argv` under a guard and hand it to `keep`, also if this is cancelled meanwhile.

    Raises:
        ToolError: it cannot be started.
    """

    def start() -> None:
        keep(_start(argv, env, cwd, fds, running))

    try:
        await anyio.to_thread.run_sync(start)  # starting a process blocks until it has begun
    except (OSError, ValueError) as exc:
        reason = (exc.strerror or "") if isinstance(exc, OSError) else str(exc)
        what = f" ({cwd})" if isinstance(exc, FileNotFoundError | NotADirectoryError) else ""
        raise ToolError(f"the command could not be started: {reason.lower()}{what}") from exc


def _start(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path, fds: Descriptors, running: Path | None
) -> GuardedChild:
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            guard_argv = [sys.executable, "-I", "-S", _GUARDIAN, str(theirs.fileno()), str(fds.drain)]
            popen = subprocess.Popen(
                [*guard_argv, str(running or ""), "" if "LC_CTYPE" in env else "LC_CTYPE", *argv],
                stdin=fds.stdin,
                stdout=fds.stdout,
                stderr=fds.stderr,
                env=dict(env),
                cwd=cwd,
                pass_fds=[fd for fd in (theirs.fileno(), fds.drain) if fd >= 0],
                start_new_session=True,
            )
    except BaseException:
        ours.close()
        raise
    ours.setblocking(False)
    return GuardedChild(popen, ours)
