"""A warm agent is what the command would have been, seen from outside and from a command that it runs."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.client import Client
from support.script import say, use, written
from support.warm import AGENT, STARTS, ordered

SEEN = ("SigBlk", "SigIgn", "SigCgt", "Umask", "Threads", "NoNewPrivs")


def facts(folder: Path) -> dict[str, Any]:
    """Return what a process and its commands can be told apart by."""
    script = written(folder / "s.json", use("run_command", command="env | sort; ulimit -a; umask"), say("Done."))
    with Client(folder / "home", script, environment={"ACP_BRIDGE_MODE": "full", "SOME": "thing"}) as client:
        client.initialize()
        session = client.new_session(folder)
        client.prompted(session, "go")
        said = client.updates(session, kind="tool_call_update")[-1]["content"]
        place = Path(f"/proc/{client.process.pid}")
        status = dict(line.split(":\t", 1) for line in (place / "status").read_text().splitlines())
        parent, group, sid = (place / "stat").read_text().rpartition(")")[2].split()[1:4]

        def named(text: str) -> str:
            return text.replace(str(folder), "FOLDER").replace(session, "SESSION")

        return {
            "what a command sees": named(str(said)),
            "descriptors": sorted(named(os.readlink(fd).split(":")[0]) for fd in (place / "fd").iterdir()),
            "command": (place / "cmdline").read_text(),
            "folder": named(os.readlink(place / "cwd")),
            "is a child of this process": int(parent) == os.getpid(),
            "leads a session of its own": int(group) == int(sid) == client.process.pid,
            **{name: status[name] for name in SEEN},
        }


@pytest.mark.skipif(STARTS.cold, reason="agents are not started warm")
def test_a_warm_agent_differs_in_nothing_from_a_cold_one(tmp_path: Path) -> None:
    (tmp_path / "warm").mkdir()
    (tmp_path / "cold").mkdir()
    warm = facts(tmp_path / "warm")
    with STARTS.all_cold():
        cold = facts(tmp_path / "cold")
    assert "forkserver" in warm.pop("command")
    assert "forkserver" not in cold.pop("command")
    assert cold == warm


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 143)])
def test_a_signal_reaches_a_warm_agent_and_its_end_is_told(tmp_path: Path, number: int, code: int) -> None:
    client = Client(tmp_path)
    client.initialize()
    os.killpg(client.process.pid, number)
    assert client.wait() == code
    with pytest.raises(ProcessLookupError):
        os.kill(client.process.pid, 0)


SAID: dict[str, Any] = {
    "args": [AGENT, "serve"],
    "env": {"HOME": "/"},
    "cwd": None,
    "start_new_session": True,
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


@pytest.mark.parametrize(
    "otherwise",
    [
        {"args": [sys.executable, "-P", "-m", "acp_bridge"]},
        {"args": ["sh", "-c", f"exec {AGENT}"]},
        {"args": f"{AGENT} serve"},
        {"env": {"PYTHONUTF8": "0"}},
        {"env": {"PYTHONPATH": "/"}},
        {"args": [sys.executable, "-c", "print()"]},
        {"args": [sys.executable, "/elsewhere.py"]},
        {"env": {"LC_ALL": "C"}},
        {"cwd": "/no/such/folder"},
        {"pass_fds": (7,)},
        {"umask": 0},
        {"preexec_fn": os.setsid},
    ],
    ids=str,
)
def test_what_a_fork_cannot_be_is_no_order(otherwise: dict[str, Any]) -> None:
    assert ordered(SAID)
    assert ordered({**SAID, **otherwise}) is None


SHOW = """# may be forked
import os, sys
print(__name__, sys.argv[1:], sys.path[:2], sys.dont_write_bytecode, type(sys.stdout.buffer).__name__)
print(os.environ["PYTHONPATH"])
"""


@pytest.mark.skipif(STARTS.cold, reason="agents are not started warm")
@pytest.mark.parametrize("more", [{}, {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}])
@pytest.mark.parametrize("how", ["code", "script"])
def test_a_program_of_the_tests_differs_in_nothing_from_a_cold_one(how: str, more: dict[str, str]) -> None:
    tests = Path(__file__).parents[1]
    program = ["-c", SHOW] if how == "code" else [str(Path(__file__).with_name("show_start.py"))]
    command = [sys.executable, *program, "an argument"]
    environ = {"PYTHONPATH": str(tests / "crash"), **more}
    assert ordered({**SAID, "args": command, "env": environ})
    warm = subprocess.run(command, capture_output=True, env=environ, check=True)
    with STARTS.all_cold():
        cold = subprocess.run(command, capture_output=True, env=environ, check=True)
    assert warm.stdout == cold.stdout
    assert b"an argument" in warm.stdout


def test_a_popen_of_anything_else_is_as_ever() -> None:
    assert subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, check=True).stdout == b"1\n"
