"""SIGKILL, and then EIO and ENOSPC, at every system call by which storage writes, with a real process under strace.

strace fires as the call begins, so "after call k" is "before call k + 1". It counts for each thread by itself, so it is
attached where one thread makes the calls that are meant: to a process that is about to make a session, to run a turn of
three requests, or to load what a kill left.
"""

import contextlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from crash.kills.judge import Session, Turn, Verdicts, read_log
from crash.kills.killing import fresh_token, load_and_judge
from support.client import TIMEOUT_S, Client
from support.processes import eventually
from support.script import say, use, written

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed; it injects the faults"),
]

MOST = 30
"""Calls of one kind; a turn that comes to more has grown, and the bound with it."""
STEPS = {"make": ("fdatasync", "fsync", "rename", "mkdir"), "turn": ("fdatasync", "pwrite64"), "load": ("fdatasync",)}
LEAST = {
    ("make", "fdatasync"): 1,
    ("make", "fsync"): 2,
    ("make", "rename"): 1,
    ("make", "mkdir"): 1,
    ("turn", "fdatasync"): 4,
    ("turn", "pwrite64"): 8,
    ("load", "fdatasync"): 1,
}
"""How many calls each step has to come to, lest the faults fall on nothing."""


class Life:
    """One session that is made, prompted and loaded."""

    def __init__(self, folder: Path) -> None:
        self.project, self.home = folder / "project", folder / "home"
        self.project.mkdir(parents=True)
        self.verdicts = Verdicts()
        self.session = Session("life", self.project, self.verdicts)
        self.session_id = ""
        tokens = [fresh_token(), fresh_token()]
        self.session.tokens = {tokens[0]: "run_command", tokens[1]: "write_file"}
        self.script = written(
            folder / "s.json",
            use("run_command", command=f"echo {tokens[0]} >> effects.log", text="One."),
            use("write_file", path=f"{tokens[1]}.txt", content=tokens[1], text="Two."),
            say("Three."),
        )

    def agent(self) -> Client:
        agent = Client(self.home, self.script, environment={"ACP_BRIDGE_MODE": "full"})
        agent.initialize()
        agent.refused("session/prompt", {"sessionId": "none", "prompt": [{"type": "text", "text": "x"}]})  # warm now
        return agent

    @property
    def log(self) -> Path:
        return self.home / "bridge" / "sessions" / self.session_id / "log.jsonl"

    def make(self, agent: Client) -> None:
        """Make the session, if the agent lives to tell."""
        with contextlib.suppress(AssertionError, BrokenPipeError):
            answer = agent.answer(agent.request("session/new", {"cwd": str(self.project), "mcpServers": []}))
            self.session_id = answer.get("result", {}).get("sessionId", "")

    def turn(self, agent: Client) -> bool:
        """Run the turn as far as it comes; whether it was completed."""
        turn, mark = Turn("Do it."), agent.mark
        prompt = agent.prompt(self.session_id, turn.prompt)
        with contextlib.suppress(AssertionError, BrokenPipeError):
            agent.answer(prompt)
        with agent._news:
            turn.take(agent.received[mark:], prompt)
        turn.asked = int(bool(turn.said))  # no word of an answer without a request
        failed = turn.answer is not None and "error" in turn.answer
        if failed:
            turn.answer = None  # told as not saved, so nothing is promised
        self.session.turns.append(turn)
        return turn.answer is not None

    def load(self, agent: Client) -> None:
        """Load it, if the agent lives to."""
        place = {"sessionId": self.session_id, "cwd": str(self.project), "mcpServers": []}
        with contextlib.suppress(AssertionError, BrokenPipeError):
            agent.answer(agent.request("session/load", place))

    def judge(self) -> None:
        """Hold what is left against what was told."""
        agent = self.agent()
        if not self.session_id:
            assert agent.call("session/list", {})["sessions"] == []
            self.make(agent)
        else:
            assert load_and_judge(agent, self.session, self.session_id, self.log), str(self.verdicts)
        assert agent.prompted(self.session_id, "Go on.") == "end_turn"
        agent.kill()
        self.session.turns.append(Turn("Go on.", asked=1))
        events = read_log(self.log)
        self.session.judge_log(events)
        self.session.judge_effects(events)
        assert self.verdicts.clean, str(self.verdicts)


@contextlib.contextmanager
def injected(agent: Client, call: str, what: str) -> Generator[None]:
    """Have a kind of call of the agent's tampered with."""
    argv = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:{what}"]
    with subprocess.Popen([*argv, "-p", str(agent.process.pid)], stderr=subprocess.PIPE) as strace:
        try:
            _attached(agent.process.pid, strace)
            yield
        finally:
            agent.kill()
            strace.terminate()


def _attached(pid: int, strace: "subprocess.Popen[bytes]") -> None:
    def all_traced() -> bool:
        if strace.poll() is not None:
            assert strace.stderr is not None
            pytest.skip(f"strace may not attach here: {strace.stderr.read().decode()[:200]}")
        return all("TracerPid:\t0\n" not in status for status in _statuses_of_threads(pid))

    eventually(all_traced, "strace to attach")


def _statuses_of_threads(pid: int) -> Generator[str]:
    """Yield what the kernel says of each thread; one that ends while it is asked for is none any more."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            yield Path(f"/proc/{pid}/task/{task}/status").read_text()


def lives(folder: Path, step: str, call: str, what: str) -> Generator[tuple[Life, bool]]:
    """Live with the fault at the first call of a kind in a step, then at the second, until the step has no more."""
    for number in range(1, MOST):
        life = Life(folder / str(number))
        agent = life.agent()
        if step != "make":
            life.make(agent)
        if step == "load":
            agent.prompt(life.session_id, "Do it.")
            eventually((life.project / "effects.log").exists, "the first effect")
            agent.kill()
            life.session.turns.append(Turn("Do it.", asked=1))
            agent = life.agent()
        with injected(agent, call, f"{what}:when={number}"):
            act: Any = getattr(life, step)
            act(agent)
            died = _has_died(agent)
        yield life, died
    raise AssertionError(f"{step} has more than {MOST} calls of {call}")


def _has_died(agent: Client) -> bool:
    """Whether the agent was killed. What ends its output is nothing else, however late its tracer lets it go."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        agent.process.wait(TIMEOUT_S if agent.ended else 0.3)  # it may die a moment after its last word, too
        return True
    return False


@pytest.mark.parametrize(("step", "call"), [(step, call) for step, calls in STEPS.items() for call in calls])
def test_a_kill_at_every_storage_call_loses_nothing(tmp_path: Path, step: str, call: str) -> None:
    deaths = 0
    for life, died in lives(tmp_path, step, call, "signal=SIGKILL"):
        life.judge()
        if not died:
            break
        deaths += 1
    assert deaths >= LEAST[step, call]


ERRORS = [
    (step, call, error)
    for (step, call), error in itertools.product([("make", "fdatasync"), ("turn", "fdatasync")], ["EIO", "ENOSPC"])
]


@pytest.mark.parametrize(
    ("step", "call", "error"), [*ERRORS, ("turn", "pwrite64", "ENOSPC"), ("load", "fdatasync", "EIO")]
)
def test_an_error_of_every_storage_call_is_told_and_loses_nothing(
    tmp_path: Path, step: str, call: str, error: str
) -> None:
    """As many as a clean turn has, and one more: what then runs is a life without a fault."""
    calls = {"make": 2, "turn": 6, "load": 2}[step]
    for life, _died in itertools.islice(lives(tmp_path, step, call, f"error={error}"), calls):
        life.judge()
