"""A home of one's own, and commands run in this process or in one of theirs."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.conversations import Home

from acp_bridge.cli import main as cli


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]
Terminal = Callable[..., Ran]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of a person without a key, whose home is empty."""
    user = tmp_path / "user"
    user.mkdir()
    return {
        "HOME": str(user),
        "ACP_BRIDGE_HOME": str(tmp_path / "home"),
        "PATH": os.environ["PATH"],
        "OLLAMA_BASE_URL": "http://127.0.0.1:9/v1",  # nothing answers at the discard port
        "LMSTUDIO_BASE_URL": "http://127.0.0.1:9/v1",
        "LLAMACPP_BASE_URL": "http://127.0.0.1:9/v1",
        "TZ": "UTC",
        "LANG": "C.UTF-8",
    }


@pytest.fixture
def home(environ: dict[str, str]) -> Home:
    return Home(Path(environ["ACP_BRIDGE_HOME"]))


@pytest.fixture
def user(environ: dict[str, str]) -> Path:
    return Path(environ["HOME"])


@pytest.fixture
def run(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process; keywords are further variables."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    def running(*argv: str, **more: str) -> Ran:
        for name, value in more.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        code = cli._run_command(argv)
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return running


@pytest.fixture
def spawn(environ: dict[str, str]) -> Run:
    """Runs a command line in a process of its own."""

    def spawning(*argv: str, **more: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "acp_bridge", *argv],
            env={**environ, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return spawning


@pytest.fixture
def terminal(environ: dict[str, str]) -> Terminal:
    """Runs a command line on a terminal of 80 columns, at which somebody `types`; colours are left out."""

    def running(*argv: str, types: str = "") -> Ran:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))
        env = {**environ, "TERM": "xterm-256color"}
        process = subprocess.Popen(
            [sys.executable, "-m", "acp_bridge", *argv], env=env, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        os.write(ours, types.encode())
        shown = b""
        try:
            while block := os.read(ours, 65536):
                shown += block
        except OSError:  # Linux says so when nobody holds the other end
            pass
        os.close(ours)
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).replace("\r\n", "\n")
        return Ran(process.wait(timeout=60), text, "")

    return running
