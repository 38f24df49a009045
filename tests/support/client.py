"""A raw ACP client over a real process.

Owns the process, what was sent and what came back; knows no more of the protocol than its envelopes and how to answer
a permission question. Every line that the agent writes must parse and is held against the schema; a fault fails the
test that reads on, or the one that leaves the client.
"""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from . import schema

Json: TypeAlias = dict[str, Any]
Match: TypeAlias = Callable[[Json], bool]
Permit: TypeAlias = Callable[[Json], Json | None]
"""From a request's params to `{"result": …}` or `{"error": …}`, or None for no answer."""

TIMEOUT_S = 10.0
"""How long a wait may take; it is a failure, not a pace."""


class RpcFailure(Exception):
    """The agent answered with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error.get('code')}: {error.get('message')} {error.get('data', '')}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")


def clean_environment(home: Path, model: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment in which nothing of the surroundings is left but the way to programs."""
    home.mkdir(parents=True, exist_ok=True)
    environment = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "ACP_BRIDGE_HOME": str(home / "bridge"),
        "ACP_BRIDGE_LOG": "warning",
    }
    if model:
        environment["ACP_BRIDGE_MODEL"] = model
    return {**environment, **(more or {})}


class Client:
    """One agent process and the client's end of its pipes.

    Everything received is kept, in order, in `received`; waits look from a place in it on (`mark`), so that what came
    early is not missed. `permit` is asked for each permission question, in the reader's thread; what it returns is
    sent as the answer, None leaves the question open. `answers` does the same for other methods.
    """

    def __init__(
        self,
        home: Path,
        script: Path | str = "",
        *,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = (sys.executable, "-m", "acp_bridge"),
        cwd: Path | None = None,
        permit: Permit | None = None,
    ) -> None:
        self.home = home / "bridge"
        self.permit: Permit | None = permit
        self.answers: dict[str, Permit] = {}
        self.received: list[Json] = []
        self.sent: list[Json] = []
        self.faults: list[str] = []
        self._ids = itertools.count(1)
        self._methods: dict[tuple[type, Any], str] = {}
        self._news = threading.Condition()
        self._reading = threading.Event()
        self._reading.set()
        self._ended = False
        self._stderr: list[bytes] = []
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=clean_environment(home, f"scripted:{script}" if script else "", environment),
            cwd=cwd or home,
            start_new_session=True,
        )
        self._threads = [threading.Thread(target=act, daemon=True) for act in (self._read, self._read_stderr)]
        for thread in self._threads:
            thread.start()

    # --- life ---

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Hang up; the agent must then end by itself, with 0, and have left no fault behind."""
        self._reading.set()
        if exc_type is not None or self.process.poll() is not None:
            self.kill()
        else:
            self.close_stdin()
            code = self.wait()
            assert code == 0, f"exit code {code} after end of input; stderr: {self.stderr}"
        if exc_type is None:
            self.check()
            assert "Traceback" not in self.stderr, self.stderr

    def kill(self) -> None:
        """End the process group as editors do: with SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.wait()

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        self.process.send_signal(number)

    def close_stdin(self) -> None:
        """Hang up."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def wait(self, timeout_s: float = TIMEOUT_S) -> int:
        """Return the exit code, once all that was written has been read."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise AssertionError(f"the agent did not end within {timeout_s} s; stderr: {self.stderr}") from None
        for thread in self._threads:
            thread.join(TIMEOUT_S)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        return code

    @property
    def stderr(self) -> str:
        """What came on stderr so far."""
        return b"".join(self._stderr).decode(errors="replace")

    def check(self) -> None:
        """Fail if anything received so far was at fault."""
        assert not self.faults, "\n".join(self.faults)

    @property
    def ended(self) -> bool:
        """Whether the agent's output has come to its end."""
        with self._news:
            return self._ended

    # --- out ---

    def write(self, data: bytes) -> None:
        """Send bytes as they are, in one write."""
        for line in data.splitlines():
            self._note(line)
        assert self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) or 0 :]

    def _note(self, line: bytes) -> None:
        """Remember which method an id stands for, so that its answer can be judged."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return
        if isinstance(message, dict) and isinstance(message.get("method"), str) and "id" in message:
            request_id = message["id"]
            if isinstance(request_id, int | str | None):
                self._methods[type(request_id), request_id] = message["method"]

    def send(self, *messages: Json) -> None:
        """Send messages, all in one write."""
        self.sent += messages
        self.write(b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages))

    def request(self, method: str, params: Any = None) -> int:
        """Send a request and return its id."""
        message = self.made(method, params)
        self.send(message)
        return message["id"]

    def made(self, method: str, params: Any = None) -> Json:
        """Return a request with an id of its own, not sent yet."""
        message = {"id": next(self._ids), "method": method}
        return message if params is None else {**message, "params": params}

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self.send({"method": method} if params is None else {"method": method, "params": params})

    def reply(self, request: Json, result: Any) -> None:
        """Answer a request of the agent's."""
        self.send({"id": request["id"], "result": result})

    def reply_error(self, request: Json, code: int = -32603, message: str = "no") -> None:
        """Answer a request of the agent's with an error."""
        self.send({"id": request["id"], "error": {"code": code, "message": message}})

    # --- in ---

    @property
    def mark(self) -> int:
        """A place in what was received: now."""
        with self._news:
            return len(self.received)

    def wait_for(self, match: Match, *, since: int = 0, timeout_s: float = TIMEOUT_S, what: str = "") -> Json:
        """Return the first message from `since` on that matches."""
        deadline = time.monotonic() + timeout_s
        looked = since
        with self._news:
            while True:
                for message in itertools.islice(self.received, looked, None):
                    if match(message):
                        self.check()
                        return message
                looked = max(looked, len(self.received))
                left = deadline - time.monotonic()
                if left <= 0 or (self._ended and looked == len(self.received)):
                    why = "the output ended" if self._ended else f"nothing for {timeout_s} s"
                    last = "\n".join(json.dumps(message)[:300] for message in self.received[-8:])
                    raise AssertionError(f"waited for {what or match}: {why}. Last:\n{last}\nstderr: {self.stderr}")
                self._news.wait(left)

    def answer(self, request_id: Any, *, since: int = 0, timeout_s: float = TIMEOUT_S) -> Json:
        """Return the response to a request, whole."""

        def answers(message: Json) -> bool:
            return "method" not in message and "id" in message and _same(message["id"], request_id)

        return self.wait_for(answers, since=since, timeout_s=timeout_s, what=f"the answer of {request_id!r}")

    def result(self, request_id: Any, *, timeout_s: float = TIMEOUT_S) -> Any:
        """Return the result of a request.

        Raises:
            RpcFailure: it was answered with an error.
        """
        response = self.answer(request_id, timeout_s=timeout_s)
        if "error" in response:
            raise RpcFailure(response["error"])
        return response["result"]

    def call(self, method: str, params: Any = None, *, timeout_s: float = TIMEOUT_S) -> Any:
        """Send a request and return its result."""
        return self.result(self.request(method, params), timeout_s=timeout_s)

    def refused(self, method: str, params: Any = None) -> RpcFailure:
        """Send a request and return the error that it must be answered with."""
        try:
            result = self.call(method, params)
        except RpcFailure as failure:
            return failure
        raise AssertionError(f"{method} was not refused: {result}")

    def asked(self, method: str = "session/request_permission", *, since: int = 0, session: str = "") -> Json:
        """Return the first request of the agent's for `method` from `since` on."""

        def asks(message: Json) -> bool:
            wanted = message.get("method") == method and "id" in message
            return wanted and (not session or message["params"]["sessionId"] == session)

        return self.wait_for(asks, since=since, what=method)

    def update(self, kind: str, *, since: int = 0, session: str = "", timeout_s: float = TIMEOUT_S, **of: Any) -> Json:
        """Return the first update of `kind` from `since` on with members that equal `of`."""

        def is_it(message: Json) -> bool:
            update = _update_of(message, session)
            return update.get("sessionUpdate") == kind and all(update.get(key) == value for key, value in of.items())

        message = self.wait_for(is_it, since=since, timeout_s=timeout_s, what=f"{kind} {of}")
        return message["params"]["update"]

    def updates(self, session: str = "", *, since: int = 0, until: int | None = None, kind: str = "") -> list[Json]:
        """Return the updates received so far."""
        with self._news:
            received = self.received[since:until]
        found = [_update_of(message, session) for message in received]
        return [update for update in found if update and (not kind or update["sessionUpdate"] == kind)]

    def place_of(self, message: Json) -> int:
        """Return where in `received` a message lies."""
        with self._news:
            return next(i for i, other in enumerate(self.received) if other is message)

    def settle(self) -> int:
        """Wait until all that was sent before has been acted on, and return the mark after it."""
        self.refused("_test/nothing", {})
        return self.mark

    # --- the protocol, as often used ---

    def initialize(self, capabilities: Json | None = None, **more: Any) -> Json:
        """Shake hands."""
        return self.call("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities or {}, **more})

    def new_session(self, cwd: Path | str, **more: Any) -> str:
        """Open a session and return its id, once it has been greeted: what comes later is about what was done in it."""
        session = self.call("session/new", {"cwd": str(cwd), "mcpServers": [], **more})["sessionId"]
        self.update("available_commands_update", session=session)
        return session

    def prompt(self, session: str, text: str) -> int:
        """Send a prompt and return its id."""
        return self.request("session/prompt", prompt_params(session, text))

    def prompted(self, session: str, text: str, *, timeout_s: float = TIMEOUT_S) -> str:
        """Send a prompt and return its stop reason."""
        return self.result(self.prompt(session, text), timeout_s=timeout_s)["stopReason"]

    def cancel(self, session: str) -> None:
        """Cancel what runs in a session."""
        self.notify("session/cancel", {"sessionId": session})

    # --- threads ---

    @contextlib.contextmanager
    def not_reading(self) -> Generator[None]:
        """Leave the agent's output in the pipe meanwhile."""
        self._reading.clear()
        try:
            yield
        finally:
            self._reading.set()

    def _read(self) -> None:
        assert self.process.stdout is not None
        held = b""
        while True:
            self._reading.wait()
            block = self.process.stdout.read(65536)
            if not block:
                break
            *lines, held = (held + block).split(b"\n")
            for line in lines:
                self._take(line)
        with self._news:
            if held:
                self.faults.append(f"the output ended in half a line: {held[:200]!r}")
            self._ended = True
            self._news.notify_all()

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line.decode())
            found = schema.faults(message, self._methods.get(_key(message)))
        except Exception as exc:  # noqa: BLE001  whatever it is, the line is at fault
            message, found = {}, [f"not a message: {exc!r}"]
        with self._news:
            self.faults += [f"{fault} in {line[:500]!r}" for fault in found]
            self.received.append(message)
            self._news.notify_all()
        if "method" in message and "id" in message:
            self._answer(message)

    def _answer(self, request: Json) -> None:
        asked = (
            self.permit if request["method"] == "session/request_permission" else self.answers.get(request["method"])
        )
        answer = asked(request["params"]) if asked is not None else None
        if answer is not None:
            self.send({"id": request["id"], **answer})

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        while block := self.process.stderr.read(65536):
            self._stderr.append(block)


def prompt_params(session: str, text: str) -> Json:
    """Return the params of a prompt of one text."""
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


def choosing(*kinds: str) -> Permit:
    """Return a permit that selects the first option of one of the kinds; the first question gets the first kind,
    and so on, the last is repeated.
    """
    wanted = iter((*kinds, *itertools.repeat(kinds[-1], 1000)))

    def permit(params: Json) -> Json:
        kind = next(wanted)
        return {"result": selected(params, kind)}

    return permit


def selected(params: Json, kind: str) -> Json:
    """Return the result that selects the option of a kind."""
    option = next(option for option in params["options"] if option["kind"] == kind)
    return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}


DISMISSED: Json = {"outcome": {"outcome": "cancelled"}}


def _update_of(message: Json, session: str) -> Json:
    if message.get("method") != "session/update":
        return {}
    params = message["params"]
    return params["update"] if not session or params["sessionId"] == session else {}


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and left == right


def _key(message: Any) -> tuple[type, Any]:
    request_id = message.get("id") if isinstance(message, dict) and "method" not in message else object()
    return type(request_id), request_id if isinstance(request_id, int | str | None) else None
