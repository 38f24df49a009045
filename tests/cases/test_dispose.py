"""The one ordered effect, from outside: whatever hangs or fails, the later steps run, and the time is bounded.

After each: a real `step/end` and `turn/end` on the disk before storage closes, the exit code that tells, no child left,
and a lock that is free at once. What ends in good order in every phase of a turn is told in `tests/e2e/test_ending.py`.
"""

import itertools
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.client import Client
from support.lives import FULL, Json, Start, events, load
from support.processes import eventually, gone, pids_in, writing_pids
from support.script import hang, say, use, written

pytestmark = pytest.mark.slow  # the kill table, in small, stands for these in the quick run


BOUND_S = 5.5
"""The deadline of a turn, and what the watchdog waits behind it."""
SPARE_S = 1.5
"""What a busy machine may take beyond it."""


@dataclass
class Stubborn:
    """A process in which something is stubborn."""

    folder: Path
    script: Path
    client: Client

    @property
    def trace(self) -> list[str]:
        file = self.folder / "trace"
        return file.read_text().splitlines() if file.exists() else []

    def came_to(self, word: str) -> None:
        eventually(lambda: word in self.trace, word)

    def ended(self, how: str = "end of input") -> tuple[int, float]:
        """End it; return the exit code and how long it took."""
        began = time.monotonic()
        if how == "end of input":
            self.client.close_stdin()
        else:
            self.client.signal(signal.Signals[how])
        return self.client.wait(BOUND_S + SPARE_S + 3), time.monotonic() - began


Made = Callable[..., Stubborn]


@pytest.fixture
def stubborn(project: Path, tmp_path: Path) -> Made:
    def made(what: str) -> Stubborn:
        script = written(
            project / "s.json",
            say("Hello.", when="say hello"),
            use("run_command", command=writing_pids(project / "pids"), when="run it"),
            use("run_command", command="sleep 600 > /dev/null 2>&1 & echo $! > job", when="leave a job"),
            hang("I begin", when="stream it"),
            say("Hello."),
        )
        environment = {
            **FULL,
            "ACP_BRIDGE_CHECKPOINT_POLICY": "support.stubborn:policy",
            "PYTHONPATH": f"{Path(__file__).parents[1]}:{os.environ.get('PYTHONPATH', '')}",
            "STUBBORN": what,
            "TRACE": str(tmp_path / "trace"),
        }
        client = Client(tmp_path / "home", script, environment=environment)
        client.initialize()
        return Stubborn(tmp_path, script, client)

    return made


def whole(found: list[Json]) -> bool:
    """Whether a log ends in a closed turn, by the loop's own words."""
    kinds = [event["type"] for event in found]
    return kinds[-2:] == ["step/end", "turn/end"] and not any(event.get("synthetic") for event in found)


def loads_at_once(start: Start, ended: Stubborn, session: str, project: Path) -> None:
    """The lock is free, and nothing is left to repair."""
    before = events(ended.client, session)
    other = start(ended.script)
    began = time.monotonic()
    load(other, session, project)
    assert time.monotonic() - began < 2 + SPARE_S
    assert events(other, session) == before
    assert other.prompted(session, "say hello") == "end_turn"


# --- what can be cancelled ---


@pytest.mark.parametrize("ending", ["end of input", "SIGTERM"])
@pytest.mark.parametrize(("barrier", "code"), [("request", None), ("tool", "ABORTED_BEFORE_DISPATCH")])
def test_a_barrier_that_hangs_and_can_be_left_holds_nothing_up(
    start: Start, stubborn: Made, project: Path, barrier: str, code: str | None, ending: str
) -> None:
    ended = stubborn(f"{barrier} hangs")
    session = ended.client.new_session(project)
    prompt = ended.client.prompt(session, "run it")
    ended.came_to(f"{barrier} hangs")
    exit_code, seconds = ended.ended(ending)
    assert (exit_code, seconds < 3) == (0 if ending == "end of input" else 143, True)
    assert ended.client.result(prompt) == {"stopReason": "cancelled"}
    found = events(ended.client, session)
    assert whole(found)
    assert [event["data"]["code"] for event in found if event["type"] == "tool/result"] == ([code] if code else [])
    assert not (project / "pids").exists()
    loads_at_once(start, ended, session, project)


# --- what cannot ---


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["end of input", "SIGTERM"])
def test_a_turn_barrier_that_hangs_is_given_up_and_the_turn_is_saved_all_the_same(
    start: Start, stubborn: Made, project: Path, ending: str
) -> None:
    """A settled fact is waited for, so the first step overruns its share; the others run, and the failure shows."""
    ended = stubborn("turn hangs")
    session = ended.client.new_session(project)
    ended.client.prompt(session, "say hello")
    ended.came_to("turn hangs")
    exit_code, seconds = ended.ended(ending)
    assert exit_code == (1 if ending == "end of input" else 143)
    assert seconds < BOUND_S + SPARE_S
    assert whole(events(ended.client, session))
    assert {"model closed", "commands closed"} <= set(ended.trace[-6:-2])
    assert ended.trace[-2:] == ["storage closes", "storage closed"]
    loads_at_once(start, ended, session, project)


@pytest.mark.slow
def test_a_body_that_cannot_be_stopped_ends_with_the_process(start: Start, stubborn: Made, project: Path) -> None:
    """Nothing true can be said of the call, so nothing is: the next load finds its outcome unknown."""
    ended = stubborn("body hangs")
    session = ended.client.new_session(project)
    ended.client.prompt(session, "run it")
    ended.came_to("body hangs")
    exit_code, seconds = ended.ended()
    assert (exit_code, seconds < BOUND_S + SPARE_S) == (1, True)
    other = start(ended.script)
    load(other, session, project)
    codes = [event["data"]["code"] for event in events(other, session, "tool/result")]
    assert codes == ["TOOL_OUTCOME_UNKNOWN"]


def test_a_load_under_way_at_the_open_barrier_is_given_up(start: Start, stubborn: Made, project: Path) -> None:
    ended = stubborn("open hangs")
    session = ended.client.new_session(project)
    assert ended.client.prompted(session, "say hello") == "end_turn"
    ended.client.call("session/close", {"sessionId": session})
    ended.client.request("session/load", {"sessionId": session, "cwd": str(project), "mcpServers": []})
    ended.came_to("open hangs")
    exit_code, seconds = ended.ended()
    assert (exit_code, seconds < BOUND_S + SPARE_S) == (1, True)
    other = start(ended.script)
    load(other, session, project)
    assert other.prompted(session, "say hello") == "end_turn"


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.05])
def test_a_load_that_the_end_overtakes_leaves_a_whole_session(
    start: Start, stubborn: Made, project: Path, delay_s: float
) -> None:
    ended = stubborn("")
    session = ended.client.new_session(project)
    assert ended.client.prompted(session, "say hello") == "end_turn"
    ended.client.call("session/close", {"sessionId": session})
    ended.client.request("session/load", {"sessionId": session, "cwd": str(project), "mcpServers": []})
    time.sleep(delay_s)  # the end comes at another moment of the load
    exit_code, seconds = ended.ended()
    assert (exit_code, seconds < 2 + SPARE_S) == (0, True)
    loads_at_once(start, ended, session, project)


# --- later steps ---


PHASES = ("idle", "run", "stream", "leave a job")
QUICK = {("model", "hangs", "idle"), ("commands", "fails", "leave a job"), ("storage", "hangs", "run")}


def steps() -> list[object]:
    """Return every step, way and phase, all but a few marked slow."""
    places = itertools.product(("model", "commands", "storage"), ("hangs", "fails"), PHASES)
    return [pytest.param(*place, marks=() if place in QUICK else pytest.mark.slow) for place in places]


@pytest.mark.parametrize(("step", "how", "phase"), steps())
def test_a_step_that_hangs_or_fails_keeps_no_later_one_from_running(
    start: Start, stubborn: Made, project: Path, step: str, how: str, phase: str
) -> None:
    """D42: the real ends of the turn, then what runs, then storage; overruns and failures show in the exit code."""
    ended = stubborn(f"{step} {how}")
    session = ended.client.new_session(project)
    prompt = ended.client.prompt(session, "say hello")
    ended.client.result(prompt)  # so that the model is open
    pids: list[int] = []
    match phase:
        case "run":
            prompt = ended.client.prompt(session, "run it")
            pids = pids_in(project / "pids")
        case "stream":
            prompt = ended.client.prompt(session, "stream it")
            ended.client.update("agent_message_chunk", messageId="msg_2_1")
        case "leave a job":
            assert ended.client.prompted(session, "leave a job") == "end_turn"
            pids = pids_in(project / "job")
        case _:
            pass
    exit_code, seconds = ended.ended()
    busy = phase in ("run", "stream")
    assert seconds < (BOUND_S if busy else 2.5) + SPARE_S
    assert ended.client.result(prompt) == {"stopReason": "cancelled" if busy else "end_turn"}
    gone(pids, within_s=2)
    assert whole(events(ended.client, session))
    trace = ended.trace
    assert [trace.index(word) for word in ("turn/end", "model closes", "storage closes")] == sorted(
        [trace.index(word) for word in ("turn/end", "model closes", "storage closes")]
    )
    last_end = len(trace) - 1 - trace[::-1].index("turn/end")
    assert all(last_end < trace.index(word) for word in ("model closes", "commands closes", "storage closes"))
    assert trace.index("commands closes") < trace.index("storage closes")
    assert ("storage closed" in trace) == (step != "storage")
    assert ("model closed" in trace) == (step != "model")
    assert exit_code == 1, ended.client.stderr
    loads_at_once(start, ended, session, project)


# --- more than once ---


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_hanging_up_and_one_signal_are_one_end(start: Start, stubborn: Made, project: Path, number: str) -> None:
    """Editors close our input and send SIGTERM back to back; the turn is closed by its loop nevertheless."""
    ended = stubborn("")
    session = ended.client.new_session(project)
    prompt = ended.client.prompt(session, "run it")
    pids = pids_in(project / "pids")
    ended.client.close_stdin()
    exit_code, seconds = ended.ended(number)
    assert exit_code in (0, 128 + signal.Signals[number])  # whichever was seen first
    assert seconds < 3
    assert ended.client.result(prompt) == {"stopReason": "cancelled"}
    assert whole(events(ended.client, session))
    gone(pids, within_s=1)
    loads_at_once(start, ended, session, project)


@pytest.mark.parametrize(("first", "second"), list(itertools.product(["SIGTERM", "SIGINT"], repeat=2)))
def test_a_second_signal_ends_at_once_what_hangs(
    start: Start, stubborn: Made, project: Path, first: str, second: str
) -> None:
    ended = stubborn("turn hangs")
    session = ended.client.new_session(project)
    ended.client.prompt(session, "say hello")
    ended.came_to("turn hangs")
    ended.client.signal(signal.Signals[first])
    time.sleep(0.2)  # two of one number that come together are one
    exit_code, seconds = ended.ended(second)
    assert exit_code == 128 + signal.Signals[second]
    assert seconds < SPARE_S
    other = start(ended.script)
    load(other, session, project)
    assert other.prompted(session, "say hello") == "end_turn"
