"""Starts agents warm: forked from a process that has imported them, in place of 0.7 s of imports for each.

Owns which commands are started so, and that nobody notices: `subprocess.Popen`, and so whatever is built on it, gets a
real child with a real pid, group and exit status. What a fork cannot be is started by its command: another program,
interpreter flags, an environment that an interpreter reads at its start, descriptors of its own, and whatever runs in a
test marked `cold_start`. A script of the tests is forked like an agent; code that is given with `-c` only where it
begins with `FORKABLE`, since most of such code is there to see what an interpreter imports. `forkserver` is the other
half.
"""

import atexit
import ctypes
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from .forkserver import LENGTH_BYTES, PID_BYTES

AGENT: Final = str(Path(sys.executable).with_name("acp-bridge"))
_PR_SET_CHILD_SUBREAPER: Final = 36
_DEFAULTS: Final[dict[str, Any]] = {
    "executable": None,
    "preexec_fn": None,
    "close_fds": True,
    "pass_fds": (),
    "shell": False,
    "restore_signals": True,
    "gid": None,
    "gids": None,
    "uid": None,
    "umask": -1,
    "process_group": -1,
}
"""What an order does not say, and so must be as it is unless somebody wants it otherwise."""
FORKABLE: Final = "# may be forked\n"
"""How code for `-c` begins that does not mind what is imported already."""
_TESTS: Final = Path(__file__).parents[1]
_READ_AT_THE_START: Final = ("PYTHON", "LD_", "MALLOC_", "OPENAI_LOG", "ANTHROPIC_LOG")
_DONE_BY_THE_FORK: Final = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
_LOCALES: Final = ("LANG", "LC_ALL", "LC_CTYPE")


class ForkServer:
    """The process that forks; it is started by the first order and ends with this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._prctl = ctypes.CDLL(None).prctl

    def fork(self, order: Mapping[str, Any], fds: Sequence[int]) -> int:
        """Return the pid of a new child of this process that does what is ordered with `fds` as its 0, 1 and 2."""
        said = json.dumps(order).encode()
        with self._lock:
            if self._control is None:
                self._control = self._start()
            self._prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._control, [len(said).to_bytes(LENGTH_BYTES)], list(fds))
                self._control.sendall(said)
                pid = self._control.recv(PID_BYTES, socket.MSG_WAITALL)
            finally:
                self._prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        if not pid:
            raise RuntimeError("the server of warm agents has ended; its reason is on stderr")
        return int(pid)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, str(Path(__file__).with_name("forkserver.py")), str(theirs.fileno())]
            environ = {"PATH": os.environ.get("PATH", os.defpath)}
            server = subprocess.Popen(command, env=environ, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        atexit.register(server.wait)
        atexit.register(ours.close)
        return ours


class Starts:
    """Decides for each start whether it is warm.

    Attributes:
        cold: no start is.
    """

    def __init__(self) -> None:
        self.cold = sys.platform != "linux"
        self._server = ForkServer()
        self._by_command = subprocess.Popen._execute_child  # pyright: ignore
        self._signature = inspect.signature(self._by_command)

    def install(self) -> None:
        """Have every `Popen` of this process come here."""
        starts = self

        def start(popen: Any, *arguments: Any) -> None:
            said = starts._signature.bind(popen, *arguments).arguments
            order = None if starts.cold else ordered(said)
            if order is None:
                starts._by_command(popen, *arguments)
                return
            mine = [said[name] for name in ("p2cread", "c2pwrite", "errwrite")]
            popen.pid = starts._server.fork(order, [own if fd == -1 else fd for own, fd in enumerate(mine)])
            popen._child_created = True
            ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
            popen._close_pipe_fds(*(said[name] for name in ends))

        subprocess.Popen._execute_child = start  # pyright: ignore

    @contextmanager
    def all_cold(self) -> Generator[None]:
        """Start every agent by its command meanwhile."""
        before, self.cold = self.cold, True
        try:
            yield
        finally:
            self.cold = before


def ordered(said: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the order for a start that `Popen` was asked for, or None if it is none that a fork can be."""
    program = _program(said["args"])
    env = os.environ if said["env"] is None else said["env"]
    cwd = os.getcwd() if said["cwd"] is None else os.path.abspath(said["cwd"])
    if (
        program is None
        or any(said[name] != value for name, value in _DEFAULTS.items())
        or any(
            value and name.startswith(_READ_AT_THE_START) and name not in _DONE_BY_THE_FORK
            for name, value in env.items()
        )
        or not all(_is_of_the_tests(entry) for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry)
        or any(env.get(name) not in (None, "", "C.UTF-8") for name in _LOCALES)
        or not os.path.isdir(cwd)
    ):
        return None
    own_session = bool(said["start_new_session"])
    return {**program, "env": dict(env), "cwd": cwd, "own_session": own_session}


def _is_of_the_tests(path: str) -> bool:
    """Whether a file or folder lies in `tests`: what lies elsewhere may shadow what a fork has imported."""
    return os.path.isabs(path) and Path(path).is_relative_to(_TESTS)


def _program(command: Any) -> dict[str, Any] | None:
    """Return which program a command runs, with its arguments and what is in front of its path of imports."""
    program: dict[str, Any] = {"module": "", "code": "", "path": None}
    match [command] if isinstance(command, str) else list(command):
        case [sys.executable, "-m", "acp_bridge", *arguments]:
            return {**program, "module": "acp_bridge", "argv": ["acp_bridge", *arguments]}
        case [sys.executable, "-c", str() as code, *arguments] if code.startswith(FORKABLE):
            return {**program, "code": code, "argv": ["-c", *arguments], "path": ""}
        case [str() as script, *arguments] if script == AGENT:
            return {**program, "argv": [script, *arguments], "path": os.path.dirname(script)}
        case [sys.executable, str() as script, *arguments] if script.endswith(".py") and _is_of_the_tests(script):
            return {**program, "argv": [script, *arguments], "path": os.path.dirname(script)}
        case _:
            return None


STARTS: Final = Starts()
