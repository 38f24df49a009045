"""An agent process seen from outside: what went in and what came out, frame by frame, in order.

Owns the process, its pipes and the two threads that read them. Whoever answers the agent's requests is called in the
reader's thread, so that an answer stands directly behind its question.
"""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from .frame import Frame, parse_or_text

Json: TypeAlias = dict[str, Any]
Answers: TypeAlias = Callable[[Json], Json | None]
"""From a request of the agent's to `{"result": …}` or `{"error": …}`, or None for no answer."""

WAIT_S = 30.0
"""How long a wait may take; it is a failure, not a pace."""


class Stuck(Exception):
    """What was waited for did not come."""


class AgentProcess:
    """One run of the agent. `frames` is shared by the runs of one scenario, so that the order is kept across them."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        answers: Answers,
        frames: list[Frame],
    ) -> None:
        self.frames = frames
        self.faults: list[str] = []
        self._answers = answers
        self._stderr: list[bytes] = []
        self._news = threading.Condition()
        self._ended = False
        self._process = subprocess.Popen(
            list(command),
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # what `send` wrote is in the pipe when it returns
            start_new_session=True,  # a group of its own, so that `kill` ends all that the agent started
        )
        self._threads = [threading.Thread(target=act, daemon=True) for act in (self._read, self._read_stderr)]
        for thread in self._threads:
            thread.start()

    @property
    def stderr(self) -> str:
        """What came on stderr so far."""
        return b"".join(self._stderr).decode(errors="replace")

    @property
    def running(self) -> bool:
        """Whether the process is still there."""
        return self._process.poll() is None

    def mark(self) -> int:
        """Return a place in `frames`: now."""
        with self._news:
            return len(self.frames)

    def send(self, *messages: Json) -> None:
        """Send messages, in one write."""
        with self._news:
            self._write(messages)

    def _write(self, messages: Sequence[Json]) -> None:
        self.frames += [Frame(">", message) for message in messages]
        self._write_bytes(b"".join(json.dumps(message, ensure_ascii=False).encode() + b"\n" for message in messages))

    def send_raw(self, *texts: str) -> None:
        """Send lines as they are, in one write."""
        with self._news:
            self.frames += [Frame(">", parse_or_text(text)) for text in texts]
            self._write_bytes("".join(f"{text}\n" for text in texts).encode())

    def _write_bytes(self, data: bytes) -> None:
        assert self._process.stdin is not None, "it was made with a pipe"
        view = memoryview(data)
        with contextlib.suppress(BrokenPipeError):  # the next wait says that the agent is gone
            while view:
                view = view[self._process.stdin.write(view) or 0 :]

    def wait_for(self, match: Callable[[Frame], bool], what: str, *, since: int = 0, times: int = 1) -> Frame:
        """Return the frame from `since` on that matches for the `times`-th time, once it has come.

        Raises:
            Stuck: it does not come.
        """
        deadline = time.monotonic() + WAIT_S
        with self._news:
            while True:
                found = [frame for frame in self.frames[since:] if match(frame)]
                if len(found) >= times:
                    return found[times - 1]
                left = deadline - time.monotonic()
                if left <= 0 or self._ended:
                    raise Stuck(self._report(what))
                self._news.wait(left)

    def watch(self, look: Callable[[], bool], what: str) -> None:
        """Return once `look` finds the fact, which lies outside this process.

        Raises:
            Stuck: it does not come about.
        """
        deadline = time.monotonic() + WAIT_S
        while not look():
            if time.monotonic() > deadline:
                raise Stuck(self._report(what))
            with self._news:
                if self._ended and not look():
                    raise Stuck(self._report(what))
                self._news.wait(0.005)  # a file or a log gives no sign, so it is looked at again

    def _report(self, what: str) -> str:
        why = "the agent has ended" if self._ended else f"nothing for {WAIT_S:g} s"
        last = "\n".join(f"  {frame.direction} {_short(frame.body)}" for frame in self.frames[-6:])
        return f"waited for {what}: {why}; the last lines:\n{last}\nstderr:\n{self.stderr or '  (empty)'}"

    # --- its end ---

    def kill(self) -> None:
        """End the whole process group with SIGKILL, as editors do."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # the group has the number of its first process

    def signal(self, name: str) -> None:
        """Send a signal to the process alone."""
        self._process.send_signal(signal.Signals[name])

    def hang_up(self) -> None:
        """Close its input."""
        assert self._process.stdin is not None, "it was made with a pipe"
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def wait_ended(self) -> int:
        """Return the exit code, once all that it wrote has been read.

        Raises:
            Stuck: it does not end; it is killed.
        """
        try:
            code = self._process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
            raise Stuck(self._report("its end")) from None
        for thread in self._threads:
            thread.join(WAIT_S)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        return code

    # --- threads ---

    def _read(self) -> None:
        assert self._process.stdout is not None, "it was made with a pipe"
        held = b""
        while block := self._process.stdout.read(65536):
            *lines, held = (held + block).split(b"\n")
            for line in lines:
                self._take(line)
        with self._news:
            if held:
                self.faults.append(f"the output ended in half a line: {held[:200]!r}")
            self._ended = True
            self._news.notify_all()

    def _take(self, line: bytes) -> None:
        said = parse_or_text(line.decode(errors="backslashreplace"))
        with self._news:
            self.frames.append(read := Frame("<", said))
            message = read.message
            if message.get("jsonrpc") != "2.0":
                self.faults.append(f"a line on stdout is no JSON-RPC message: {line[:200]!r}")
            elif read.method and "id" in message:  # answered under the lock, before a step sees the question
                answer = self._answers(message)
                if answer is not None:
                    self._write([{"jsonrpc": "2.0", "id": message["id"], **answer}])
            self._news.notify_all()

    def _read_stderr(self) -> None:
        assert self._process.stderr is not None, "it was made with a pipe"
        while block := self._process.stderr.read(65536):
            self._stderr.append(block)


def _short(said: Any) -> str:
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}…"
