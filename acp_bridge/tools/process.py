"""A program that is spoken to over its stdin and stdout, under guard: it and all it starts end with this process.

Owns the two pipes. Knows no protocol.
"""

import errno
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from io import FileIO
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from acp_bridge.errors import ToolError

from .child import Descriptors, GuardedChild, guard

OURS = 2


class PipeReader(ByteReceiveStream):
    """The reading end of a pipe."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        os.set_blocking(file.fileno(), False)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return what came, at least one byte."""
        await anyio.lowlevel.checkpoint()
        while not self._file.closed:
            data = self._file.read(max_bytes)
            if data is None:
                await anyio.wait_readable(self._file)
            elif data:
                return data
            else:
                raise anyio.EndOfStream
        raise anyio.ClosedResourceError

    async def aclose(self) -> None:
        """Close it; a waiting `receive` is told."""
        if not self._file.closed:
            anyio.notify_closing(self._file)
            self._file.close()


class PipeWriter(ByteSendStream):
    """The writing end of a pipe."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        os.set_blocking(file.fileno(), False)

    async def send(self, item: bytes) -> None:
        """Write all of `item`; cancelled, it has written some of it."""
        await anyio.lowlevel.checkpoint()
        rest = memoryview(item)
        while rest:
            if self._file.closed:
                raise anyio.ClosedResourceError
            try:
                written = self._file.write(rest)
            except OSError as exc:
                if exc.errno == errno.EPIPE:
                    raise anyio.BrokenResourceError from exc
                raise
            if written is None:
                await anyio.wait_writable(self._file)
            else:
                rest = rest[written:]

    async def aclose(self) -> None:
        """Close it; the program reads the end of its input."""
        if not self._file.closed:
            anyio.notify_closing(self._file)
            self._file.close()


class GuardedProcess:
    """A running program."""

    def __init__(self, child: GuardedChild, stdin: PipeWriter, stdout: PipeReader) -> None:
        self._child = child
        self.stdin = stdin
        self.stdout = stdout

    async def wait(self) -> int | None:
        """Wait until it ends; return its exit code, None if its guard was killed. For one waiter at a time."""
        status = await self._child.ended()
        if status is None and self._child.failure:
            raise ToolError(self._child.failure)
        return status[0] if status else None


@asynccontextmanager
async def guarded_process(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stderr: int | None = OURS,
    running: Path | None = None,
    leave_s: float = 0.5,
) -> AsyncGenerator[GuardedProcess]:
    """Run `argv` with exactly `env`. On leaving, its stdin is closed; after `leave_s` it and all it started are ended.

    Args:
        stderr: the descriptor that it gets as stderr; None for its stdout.

    Raises:
        ToolError: it cannot be started. A program that does not exist ends with code 127 and says so on stderr.
    """
    held: list[GuardedChild] = []
    with ExitStack() as pipes:
        try:
            their_stdin, stdin = _pipe(pipes)
            stdout, their_stdout = _pipe(pipes)
        except OSError as exc:
            raise ToolError(f"{argv[0]!r} could not be started: {(exc.strerror or '').lower()}") from exc
        fds = Descriptors(
            their_stdin.fileno(), their_stdout.fileno(), their_stdout.fileno() if stderr is None else stderr
        )
        try:
            await guard(argv, env=env, cwd=cwd, fds=fds, keep=held.append, running=running)
            their_stdin.close()
            their_stdout.close()
            yield GuardedProcess(held[0], PipeWriter(stdin), PipeReader(stdout))
        finally:
            stdin.close()
            for child in held:
                with anyio.move_on_after(leave_s, shield=True):
                    await child.gone()
                await child.end()


def _pipe(stack: ExitStack) -> tuple[FileIO, FileIO]:
    source, sink = os.pipe()
    return stack.enter_context(FileIO(source, "r")), stack.enter_context(FileIO(sink, "w"))
