"""SIGKILL at every barrier, before and after it, with a real process: nothing behind one is begun before it is passed.

The life is: new, a change of mode, a turn of two requests and three tools, and a load by the next process. The same
judge as for random kills; and, since the instant is known here, what each call must be classified as.
"""

import contextlib
import itertools
import os
import subprocess
from pathlib import Path

import pytest
from crash.kills.judge import Session, Turn, Verdicts, of, read_log
from crash.kills.killing import fresh_token, load_and_judge
from crash.kills.provider import Asked, Provider, Reply, Wanted
from support.client import Client

pytestmark = pytest.mark.slow  # the kill table, in small, stands for these in the quick run


PLACES = [(when, number) for number in range(1, 15) for when in ("before", "after")]
QUICK = {("after", 2), ("before", 3), ("after", 3), ("after", 4)}


def places() -> list[object]:
    """Return every place, all but a few marked slow."""
    return [pytest.param(*place, marks=() if place in QUICK else pytest.mark.slow) for place in PLACES]


class Life:
    """One session, the provider that it talks to, and what is known of it from outside."""

    def __init__(self, folder: Path, provider: Provider) -> None:
        self.project, self.home = folder / "project", folder / "home"
        self.project.mkdir()
        self.provider = provider
        self.verdicts = Verdicts()
        self.session = Session("life", self.project, self.verdicts)
        self.tokens = [fresh_token() for _ in range(3)]
        self.session.tokens = dict.fromkeys(self.tokens, "run_command")
        self.session_id = ""
        self.barriers = folder / "barriers"

    def answer(self, asked: Asked) -> Reply:
        """Three tools for a prompt that asks for them, else words."""
        if "three things" not in str(asked.messages[-1]["content"]):
            return Reply(["All ", "done."])
        calls = [Wanted("run_command", {"command": f"echo {token} >> effects.log"}) for token in self.tokens]
        return Reply(["I ", "begin."], calls)

    def agent(self, kill_at: str = "") -> Client:
        """Start an agent that dies at a place."""
        more = {
            **self.provider.environment,
            "ACP_BRIDGE_CHECKPOINT_POLICY": "crash.kills.killer:policy",
            "PYTHONPATH": f"{Path(__file__).parents[2]}:{os.environ.get('PYTHONPATH', '')}",
            "BARRIERS": str(self.barriers),
            "KILL_AT": kill_at,
        }
        agent = Client(self.home, environment=more)
        agent.initialize()
        return agent

    @property
    def log(self) -> Path:
        return self.home / "bridge" / "sessions" / self.session_id / "log.jsonl"

    def first_process(self, kill_at: str = "") -> bool:
        """Live until the kill; whether there was one."""
        agent = self.agent(kill_at)
        self.session_id = agent.new_session(self.project)
        turn = Turn("Do three things.")
        mark = agent.mark
        mode = agent.request("session/set_mode", {"sessionId": self.session_id, "modeId": "full"})
        if was_killed := _died(agent, before=mode):
            agent.kill()
            return was_killed
        prompt = agent.prompt(self.session_id, turn.prompt)
        self.session.turns.append(turn)
        was_killed = _died(agent, before=prompt)
        agent.kill()
        turn.asked = len(self.provider.asked)
        turn.take(agent.received[mark:], prompt)
        return was_killed

    def judged(self) -> None:
        """Have another process load the session, go on with it, and judge it all."""
        agent = self.agent()
        assert load_and_judge(agent, self.session, self.session_id, self.log), str(self.verdicts)
        assert agent.prompted(self.session_id, "Go on.") == "end_turn"
        agent.kill()
        self.session.turns.append(Turn("Go on.", asked=1))
        events = read_log(self.log)
        self.session.judge_log(events)
        self.session.judge_effects(events)
        self.session.judge_requests(asked.text for asked in self.provider.asked)
        assert not self.provider.rejected
        assert self.verdicts.clean, str(self.verdicts)


def _died(agent: Client, *, before: int) -> bool:
    """Wait until the agent dies or answers; whether it died, be it a moment after the answer."""
    with contextlib.suppress(AssertionError):  # the output has ended
        agent.answer(before)
    try:
        agent.process.wait(0.2)
    except subprocess.TimeoutExpired:
        return False
    return True


def life_in(folder: Path, provider: Provider) -> Life:
    life = Life(folder, provider)
    provider.answer = life.answer
    return life


@pytest.mark.parametrize(("when", "number"), places())
def test_a_kill_at_any_barrier_loses_nothing_and_repeats_nothing(tmp_path: Path, when: str, number: int) -> None:
    with Provider(lambda _asked: Reply(["?"])) as provider:
        life = life_in(tmp_path, provider)
        was_killed = life.first_process(f"{when} {number}")
        come_to = life.barriers.read_text().split()
        life.judged()
    if not was_killed:
        assert number > len(come_to) or come_to[number - 1] == "result"  # nothing comes after that one
        return
    kind, nth = come_to[number - 1], come_to[:number].count(come_to[number - 1])
    if kind == "tool":
        _judge_tool(life, when, nth)
    if kind == "request":
        assert life.session.turns[0].asked == nth - 1  # no request leaves before its barrier


def _judge_tool(life: Life, when: str, nth: int) -> None:
    """Hold the n-th call, at whose barrier the process died, against what it must be: its body never began."""
    results = {event["data"]["callId"]: event["data"] for event in of(read_log(life.log), "tool/result")}
    if (when, nth) == ("before", 1) and "call_1_1_1" not in results:
        return  # the answer that asked for the calls is what this barrier would have saved
    codes = [results[f"call_1_1_{place}"].get("code") for place in (1, 2, 3)]
    died_at = codes[nth - 1]
    assert died_at == "TOOL_OUTCOME_UNKNOWN" or (when == "before" and died_at == "TOOL_NOT_STARTED")
    assert codes[nth:] == ["TOOL_NOT_STARTED"] * (3 - nth)
    assert when == "before" or codes[: nth - 1] == [None] * (nth - 1)  # earlier results rode on this barrier's sync
    assert [life.session.effects()[token] for token in life.tokens] == [1] * (nth - 1) + [0] * (4 - nth)


@pytest.mark.parametrize("when", ["before", pytest.param("after", marks=pytest.mark.slow)])
def test_a_kill_at_the_open_barrier_leaves_a_session_that_loads(tmp_path: Path, when: str) -> None:
    """Nothing is shown before the barrier, so a second process may repair once more, and to the same end."""
    with Provider(lambda _asked: Reply(["?"])) as provider:
        life = life_in(tmp_path, provider)
        assert life.first_process("after 3")
        agent = life.agent(f"{when} 1")
        agent.request("session/load", {"sessionId": life.session_id, "cwd": str(life.project), "mcpServers": []})
        agent.process.wait(10)
        agent.kill()
        assert not agent.updates(), "something was replayed before the open barrier was passed"
        life.judged()


@pytest.mark.slow
def test_the_places_are_all_the_barriers_that_a_life_comes_to(tmp_path: Path) -> None:
    with Provider(lambda _asked: Reply(["?"])) as provider:
        life = life_in(tmp_path, provider)
        assert not life.first_process()
        come_to = life.barriers.read_text().split()
        life.judged()
    kinds = [kind for kind, _ in itertools.groupby(kind for kind in come_to if kind != "result")]
    assert kinds == ["answer", "request", "tool", "request", "turn"]
    assert len(come_to) <= max(number for _, number in PLACES)
