"""An agent process seen from outside, line by line: what went in and what came out, in order.

Owns the process, its pipes and the two threads that read them. Knows of the protocol only its envelope: what a line
is, and that an answer carries the id of its request. Whoever answers the agent's requests is called in the reader's
thread, so that an answer stands directly behind its question.
"""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

Json: TypeAlias = dict[str, Any]
Answers: TypeAlias = Callable[[Json], Json | None]
"""From a request of the agent's to `{"result": …}` or `{"error": …}`, or None for no answer."""

WAIT_S = 30.0
"""How long a wait may take; it is a failure, not a pace."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the exchange.

    Attributes:
        way: `>` to the agent, `<` from it, `#` what happened to the process.
        said: the parsed JSON, or the text where it is none.
    """

    way: str
    said: Any

    @property
    def message(self) -> Json:
        """The JSON object that it is; an empty one if it is none."""
        return _table(self.said)

    @property
    def method(self) -> str:
        """What it asks for or tells; empty for an answer."""
        return str(self.message.get("method", ""))

    @property
    def params(self) -> Json:
        """What it asks with."""
        return _table(self.message.get("params"))

    @property
    def result(self) -> Json:
        """The result that it answers with; an empty table if it is an error, or another kind of value."""
        return _table(self.message.get("result"))

    @property
    def update(self) -> Json:
        """The update that it shows, if the agent shows one."""
        return _table(self.params.get("update")) if self.way == "<" and self.method == "session/update" else {}

    @property
    def session(self) -> str:
        """The session that it names, if it does."""
        return str(self.params.get("sessionId", ""))

    @property
    def answers(self) -> bool:
        """Whether it answers a request, of either side."""
        return "id" in self.message and "method" not in self.message

    @property
    def is_agents_answer(self) -> bool:
        """Whether it is the agent's answer to a request."""
        return self.way == "<" and self.answers


def _table(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


class Stuck(Exception):
    """What was waited for did not come."""


class AgentProcess:
    """One run of the agent. `lines` is shared by the runs of one scenario, so that the order is kept across them."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        answers: Answers,
        lines: list[Line],
    ) -> None:
        self.lines = lines
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
            bufsize=0,
            start_new_session=True,
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
        """Return a place in `lines`: now."""
        with self._news:
            return len(self.lines)

    def send(self, *messages: Json) -> None:
        """Send messages, in one write."""
        with self._news:
            self._write(messages)

    def _write(self, messages: Sequence[Json]) -> None:
        self.lines += [Line(">", message) for message in messages]
        self._put(b"".join(json.dumps(message, ensure_ascii=False).encode() + b"\n" for message in messages))

    def send_raw(self, *texts: str) -> None:
        """Send lines as they are, in one write."""
        with self._news:
            self.lines += [Line(">", parsed_or_text(text)) for text in texts]
            self._put("".join(f"{text}\n" for text in texts).encode())

    def _put(self, data: bytes) -> None:
        assert self._process.stdin is not None, "it was made with a pipe"
        view = memoryview(data)
        with contextlib.suppress(BrokenPipeError):  # the next wait says that the agent is gone
            while view:
                view = view[self._process.stdin.write(view) or 0 :]

    def wait_for(self, match: Callable[[Line], bool], what: str, *, since: int = 0, times: int = 1) -> Line:
        """Return the line from `since` on that matches for the `times`-th time, once it has come.

        Raises:
            Stuck: it does not come.
        """
        deadline = time.monotonic() + WAIT_S
        with self._news:
            while True:
                found = [line for line in self.lines[since:] if match(line)]
                if len(found) >= times:
                    return found[times - 1]
                left = deadline - time.monotonic()
                if left <= 0 or self._ended:
                    raise Stuck(self._told(what))
                self._news.wait(left)

    def watch(self, look: Callable[[], bool], what: str) -> None:
        """Return once `look` finds the fact, which lies outside this process.

        Raises:
            Stuck: it does not come about.
        """
        deadline = time.monotonic() + WAIT_S
        while not look():
            if time.monotonic() > deadline:
                raise Stuck(self._told(what))
            with self._news:
                if self._ended and not look():
                    raise Stuck(self._told(what))
                self._news.wait(0.005)

    def _told(self, what: str) -> str:
        why = "the agent has ended" if self._ended else f"nothing for {WAIT_S:g} s"
        last = "\n".join(f"  {line.way} {_short(line.said)}" for line in self.lines[-6:])
        return f"waited for {what}: {why}; the last lines:\n{last}\nstderr:\n{self.stderr or '  (empty)'}"

    # --- its end ---

    def kill(self) -> None:
        """End the whole process group with SIGKILL, as editors do."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def signal(self, name: str) -> None:
        """Send a signal to the process alone."""
        self._process.send_signal(signal.Signals[name])

    def hang_up(self) -> None:
        """Close its input."""
        assert self._process.stdin is not None, "it was made with a pipe"
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def ended(self) -> int:
        """Return the exit code, once all that it wrote has been read.

        Raises:
            Stuck: it does not end; it is killed.
        """
        try:
            code = self._process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
            raise Stuck(self._told("its end")) from None
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
        said = parsed_or_text(line.decode(errors="backslashreplace"))
        with self._news:
            self.lines.append(read := Line("<", said))
            message = read.message
            if message.get("jsonrpc") != "2.0":
                self.faults.append(f"a line on stdout is no JSON-RPC message: {line[:200]!r}")
            elif read.method and "id" in message:
                answer = self._answers(message)
                if answer is not None:
                    self._write([{"jsonrpc": "2.0", "id": message["id"], **answer}])
            self._news.notify_all()

    def _read_stderr(self) -> None:
        assert self._process.stderr is not None, "it was made with a pipe"
        while block := self._process.stderr.read(65536):
            self._stderr.append(block)


def parsed_or_text(text: str) -> Any:
    """Return what a line says, or the line itself where it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _short(said: Any) -> str:
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}…"
