"""One worker of the kill table: sessions that are prompted and killed, again and again, each kill at another instant.

Owns the choice of instants and the order kill → load → judge → prompt. What holds afterwards is `judge`'s business.
"""

import contextlib
import itertools
import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from crash.kills.judge import Session, Turn, Verdicts, read_log, same_log
from crash.kills.provider import Asked, Provider, Reply, Wanted
from support.client import Client, RpcFailure, selected

Json: TypeAlias = dict[str, Any]

POINTS = ("prompt", "streaming", "permission", "barrier", "body", "result", "end", "answered", "load", "any")
"""Where in a turn a kill falls; each worker takes them in turn, so that all are hit alike."""

WRITES_S = (0.0, 0.03)
"""How long a write of an agent takes to reach the cache; each agent has one of them."""

KILLS_A_SESSION = 8
CHILD_GONE_S = 2.0
"""How long what a killed agent had started may live on."""
_LONGEST_TURN_S = 1.2
_TOKENS = itertools.count(random.randrange(10**6) * 10**5)
"""Unique in this process, and as good as unique on the machine."""


def fresh_token() -> str:
    """Return twelve digits: a word for a file, and seconds for a `sleep` that nobody else makes."""
    return f"9{next(_TOKENS):011d}"


class Watched(Client):
    """A client that counts what comes in, for those who wait for the n-th of something."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self.counts: Counter[str] = Counter()
        super().__init__(*arguments, **more)

    def write(self, data: bytes) -> None:
        """Send, unless the agent was killed meanwhile."""
        with contextlib.suppress(BrokenPipeError):
            super().write(data)

    def _take(self, line: bytes) -> None:
        super()._take(line)
        message = self.received[-1]
        self.counts[message.get("method", "response")] += 1
        if message.get("method") == "session/update":
            self.counts[message["params"]["update"].get("status") or ""] += 1


@dataclass(slots=True)
class Planner:
    """Makes the model's answers: a few steps with tools, then words alone."""

    chance: random.Random
    folder: Path
    session: Session | None = None
    steps: int = 0
    may_block: bool = False

    def answer(self, asked: Asked) -> Reply:
        """Return the next answer of the turn."""
        chance = self.chance
        text = [f"word{chance.randrange(1000)} " for _ in range(chance.randint(2, 10))]
        pause_s = chance.choice((0, 0.001, 0.004))
        if self.steps <= 0:
            return Reply(text, pause_s=pause_s)
        self.steps -= 1
        if chance.random() < 0.3:
            calls = [self._call("read_file") for _ in range(chance.randint(2, 3))]
        else:
            names = ("run_command", "run_command", "run_command", "edit_file", "write_file", "read_file")
            calls = [self._call(chance.choice(names)) for _ in range(chance.randint(1, 3))]
        return Reply(text, calls, pause_s)

    def _call(self, name: str) -> Wanted:
        token = fresh_token()
        assert self.session is not None
        self.session.tokens[token] = name
        match name:
            case "run_command":
                return Wanted(name, {"command": self._command(token)})
            case "write_file":
                return Wanted(name, {"path": f"{token}.txt", "content": f"{token}\n"})
            case "edit_file":
                (self.folder / f"{token}.txt").write_text("old\n")
                return Wanted(name, {"path": f"{token}.txt", "old_text": "old", "new_text": token})
            case _:
                return Wanted(name, {"path": "seed.txt", "offset": 1})

    def _command(self, token: str) -> str:
        done = f"echo {token} >> effects.log"
        if self.may_block and self.chance.random() < 0.5:
            return f"{done}; (setsid sleep {token} &); sleep {token} & trap '' TERM; sleep {token}"
        return f"{done}; sleep {self.chance.choice((0, 0.01, 0.05))}"


@dataclass(slots=True)
class Leftovers:
    """What must be gone a moment after a kill."""

    due: list[tuple[float, Session, list[str]]] = field(default_factory=list[tuple[float, Session, list[str]]])

    def killed(self, session: Session, tokens: Iterable[str]) -> None:
        """Have the tokens' processes looked for when they must be gone."""
        self.due.append((time.monotonic() + CHILD_GONE_S, session, list(tokens)))

    def look(self, *, wait: bool = False) -> None:
        """Look for those that are due; with `wait` for all."""
        while self.due and (wait or self.due[0][0] <= time.monotonic()):
            at, session, tokens = self.due.pop(0)
            time.sleep(max(0.0, at - time.monotonic()))
            lines = command_lines()
            for token in tokens:
                for line in lines:
                    if token in line:
                        session.found("children left", line)


def command_lines() -> list[str]:
    """Return what runs on this machine, arguments included."""
    found: list[str] = []
    for pid in os.listdir("/proc"):
        if pid.isdigit() and int(pid) != os.getpid():
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


class Worker:
    """Kills one session after another in a folder of its own."""

    def __init__(self, folder: Path, verdicts: Verdicts, seed: str, *, fault: str, points: Sequence[str]) -> None:
        self._points = points
        self._chance = random.Random(seed)
        self._folder = folder
        self._verdicts = verdicts
        self._name = seed
        self._fault = fault
        self._leftovers = Leftovers()
        self._planner = Planner(self._chance, folder)
        self._spare: Watched | None = None
        self._environment: dict[str, str] = {}
        self._leave_open = False
        self._ended: list[tuple[float, Session, str, list[str]]] = []

    def run(self, kills: int) -> None:
        """Make `kills` kills."""
        points = itertools.cycle(self._chance.sample(self._points, len(self._points)))
        with Provider(self._planner.answer) as provider:
            self._environment = {**provider.environment, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
            try:
                for number in itertools.count():
                    if kills <= 0:
                        break
                    kills -= self._one_session(provider, number, min(kills, KILLS_A_SESSION), points)
                    self._judge_ended()
                self._judge_ended(wait=True)
                for rejected in provider.rejected:
                    self._verdicts.add("transcripts rejected", rejected)
            finally:
                if self._spare is not None:
                    self._spare.kill()

    # --- one session ---

    def _one_session(self, provider: Provider, number: int, kills: int, points: Iterator[str]) -> int:
        folder = self._folder / f"project{number}"
        folder.mkdir()
        (folder / "seed.txt").write_text("seed\nseed\n")
        self._environment["ACP_BRIDGE_MODE"] = self._chance.choice(("ask", "full", "edit"))
        self._drop_spare()
        session = Session(f"{self._name}.{number}", folder, self._verdicts)
        self._planner.session, self._planner.folder = session, folder
        asked_before = len(provider.asked)
        agent = self._agent()
        session_id = agent.new_session(folder)
        session.name += f" ({session_id})"
        made = 0
        while made < kills:
            made += 1
            point = next(points)
            self._turn_and_kill(provider, agent, session, session_id, point if point != "load" else "any")
            if point == "load" and made < kills:
                made += 1
                self._kill_while_loading(session, session_id)
            loaded = self._loaded(session, session_id)
            if loaded is None:
                break
            agent = loaded
        agent.kill()
        told = [asked.text for asked in provider.asked[asked_before:]]
        self._ended.append((time.monotonic() + CHILD_GONE_S, session, session_id, told))
        return made

    def _judge_ended(self, *, wait: bool = False) -> None:
        """Judge once more the sessions in which all that ran on after a kill must have ended by now."""
        self._leftovers.look(wait=wait)
        while self._ended and (wait or self._ended[0][0] <= time.monotonic()):
            at, session, session_id, told = self._ended.pop(0)
            time.sleep(max(0.0, at - time.monotonic()))
            session.judge_requests(told)
            try:
                events = read_log(self._log(session_id))
            except (OSError, ValueError) as exc:
                session.found("sessions that would not load", repr(exc))
                continue
            session.judge_log(events)
            session.judge_effects(events)

    def _log(self, session_id: str) -> Path:
        return self._folder / "home" / "bridge" / "sessions" / session_id / "log.jsonl"

    def _agent(self) -> Watched:
        """Return an agent that has shaken hands, and let the next one start meanwhile."""
        agent, self._spare = self._spare or self._started(), None
        agent.answer(1, timeout_s=30)
        self._spare = self._started()
        return agent

    def _started(self) -> Watched:
        planted = self._planted(self._chance.choice(WRITES_S))
        agent = Watched(self._folder / "home", environment={**self._environment, **planted}, permit=self._permit)
        agent.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        return agent

    def _planted(self, write_s: float) -> dict[str, str]:
        if not (write_s or self._fault):
            return {}  # the agent as it is
        return {
            "PYTHONPATH": f"{Path(__file__).parents[2]}:{os.environ.get('PYTHONPATH', '')}",
            "ACP_BRIDGE_CHECKPOINT_POLICY": "crash.kills.faults:policy",
            "FAULT": self._fault,
            "WRITE_S": str(write_s),
        }

    def _drop_spare(self) -> None:
        if self._spare is not None:
            self._spare.kill()
            self._spare = None

    def _permit(self, params: Json) -> Json | None:
        if self._leave_open:
            return None
        return {"result": selected(params, "allow_once")}

    # --- the kill ---

    def _turn_and_kill(self, provider: Provider, agent: Watched, session: Session, session_id: str, point: str) -> None:
        chance = self._chance
        self._planner.steps = chance.randint(1, 3)
        self._planner.may_block = point in ("barrier", "body", "any", "permission")
        self._leave_open = point == "permission" and chance.random() < 0.5
        turn = Turn("" if chance.random() < 0.15 and self._is_interrupted(session_id) else f"Do {fresh_token()}.")
        session.turns.append(turn)
        pieces, finished, asked = provider.pieces, provider.finished, len(provider.asked)
        mark, tokens = agent.mark, set(session.tokens)
        agent.counts.clear()
        prompt_id = agent.prompt(session_id, turn.prompt or "/continue")
        nth = chance.randint(1, 3)
        reached, delay_s = {
            "prompt": (lambda: True, 0.03),
            "streaming": (_at_least(lambda: provider.pieces - pieces, chance.randint(1, 25)), 0.01),
            "permission": (_at_least(lambda: agent.counts["session/request_permission"], 1), 0.05),
            "barrier": (_at_least(lambda: agent.counts["session/request_permission"], nth), 0.012),
            "body": (_at_least(lambda: agent.counts["in_progress"], nth), 0.15),
            "result": (_at_least(lambda: agent.counts["completed"] + agent.counts["failed"], nth), 0.02),
            "end": (_at_least(lambda: provider.finished - finished, self._planner.steps + 1), 0.04),
            "answered": (lambda: False, 0.02),
            "any": (lambda: True, 0.5),
        }[point]
        _wait(reached, unless=lambda: agent.counts["response"] > 0)
        time.sleep(chance.uniform(0, delay_s))
        agent.kill()
        self._verdicts.killed(point)
        turn.asked = len(provider.asked) - asked
        turn.take(agent.received[mark:], prompt_id)
        for fault in agent.faults:
            if not fault.startswith("the output ended in half a line"):
                session.found("surprises", fault)
        self._leftovers.killed(session, set(session.tokens) - tokens)

    def _is_interrupted(self, session_id: str) -> bool:
        ends = [event for event in read_log(self._log(session_id)) if event["type"] == "turn/end"]
        return bool(ends) and ends[-1]["data"]["reason"] == "interrupted"

    def _kill_while_loading(self, session: Session, session_id: str) -> None:
        agent = self._agent()
        agent.request("session/load", {"sessionId": session_id, "cwd": str(session.folder), "mcpServers": []})
        time.sleep(self._chance.uniform(0, 0.05))
        agent.kill()
        self._verdicts.killed("load")

    def _loaded(self, session: Session, session_id: str) -> Watched | None:
        """Return an agent that has the session loaded; None if it would not load."""
        agent = self._agent()
        if load_and_judge(agent, session, session_id, self._log(session_id)):
            self._leftovers.look()
            return agent
        agent.kill()
        return None


def load_and_judge(agent: Client, session: Session, session_id: str, log: Path) -> bool:
    """Load a session whose agent was killed, judge it, and leave it loaded; whether it could be loaded."""
    load = {"sessionId": session_id, "cwd": str(session.folder), "mcpServers": []}
    try:
        agent.call("session/load", load)
        replayed = list(agent.received)
        first = read_log(log)
        agent.call("session/close", {"sessionId": session_id})
        agent.call("session/load", load)
        second = read_log(log)
    except (RpcFailure, AssertionError, OSError, ValueError) as exc:
        session.found("sessions that would not load", repr(exc)[:1000])
        return False
    if not same_log(first, second):
        session.found("repairs not stable", f"{json.dumps(second[len(first) :])[:500]} was added")
    session.judge_log(first)
    session.judge_replay(replayed)
    return True


def _at_least(count: Callable[[], int], wanted: int) -> Callable[[], bool]:
    return lambda: count() >= wanted


def _wait(reached: Callable[[], bool], *, unless: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LONGEST_TURN_S
    while not (reached() or unless()) and time.monotonic() < deadline:
        time.sleep(0.0005)


def killed(
    kills: int, folder: Path, *, seed: int, jobs: int, fault: str = "", points: Sequence[str] = POINTS
) -> Verdicts:
    """Make `kills` kills with `jobs` workers side by side and return what was found; `fault` is one to plant."""
    verdicts = Verdicts()

    def work(job: int, share: int) -> None:
        home = folder / f"worker{job}"
        home.mkdir(parents=True)
        try:
            Worker(home, verdicts, f"{seed}.{job}", fault=fault, points=points).run(share)
        except Exception as exc:  # noqa: BLE001  a worker that fails makes the table red
            verdicts.add("surprises", f"worker {job} failed: {str(exc)[-1000:]}")

    shares = [kills // jobs + (job < kills % jobs) for job in range(jobs)]
    threads = [threading.Thread(target=work, args=(job, share)) for job, share in enumerate(shares) if share]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return verdicts
