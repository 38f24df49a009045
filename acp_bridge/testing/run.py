"""One run of a scenario under way: its agent process, its requests and their answers, and what may be expected of it.

Owns what no run may do: leave a request unanswered, answer one twice, die. Knows no step.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from .artifacts import log_records, model_requests
from .editor import Editor
from .expectations import RunState
from .frame import Frame
from .process import AgentProcess
from .sandbox import Sandbox, environment
from .scenario import Scenario, ScenarioFault

Json: TypeAlias = dict[str, Any]


class Run:
    """One run under way."""

    def __init__(
        self, scenario: Scenario, sandbox: Sandbox, command: Sequence[str], route: str, env: Mapping[str, str]
    ) -> None:
        self.scenario = scenario
        self.sandbox = sandbox
        self.frames: list[Frame] = []
        self.faults: list[str] = []
        self.sessions: list[str] = []
        self.at = "the start"
        self._command = command
        self._route = route
        self._env = env
        self._settings = dict(scenario.agent)
        self._process: AgentProcess | None = None
        self._exit_code: int | None = None
        self._current = 0
        self._last_id = 0
        self._pending: dict[Any, str] = {}
        self._turns: set[Any] = set()
        self._since = 0
        self._client: Any = "bare"
        self._stderr = ""
        at = self.path_of
        self.editor = Editor(
            {str(at(path)): text for path, text in scenario.buffers.items()},
            [str(at(path)) for path in scenario.unreadable],
            [str(at(path)) for path in scenario.unwritable],
            [str(at(path)) for path in scenario.silent],
        )

    def path_of(self, name: str) -> Path:
        """Return a path of the scenario: relative ones lie in the workspace."""
        return self.sandbox.workspace / self.expand(name)

    def tokens(self) -> dict[str, str]:
        """Return every name and what it stands for, sessions included."""
        sessions = {f"<session-{number}>": session for number, session in enumerate(self.sessions, 1)}
        return {**self.sandbox.tokens(), **sessions}

    def expand(self, value: Any) -> Any:
        """Return a scenario's value with its names replaced."""
        match value:
            case str():
                text = str(value)
                for token, stands_for in self.tokens().items():
                    text = text.replace(token, stands_for)
                return text
            case dict():
                return {key: self.expand(item) for key, item in cast("Json", value).items()}
            case list():
                return [self.expand(item) for item in cast("list[Any]", value)]
            case _:
                return value

    def clear(self) -> None:
        """Leave no process behind, whatever happened."""
        if self._process is not None:
            self._process.kill()
            self._end("killed, because the run broke off")

    def _check(self, expect: Mapping[str, Any], where: str) -> None:
        if expect:
            self.faults += [f"{where}: {fault}" for fault in self._state().unmet(self.expand(dict(expect)))]

    def _state(self) -> RunState:
        session = self.sessions[self._current - 1] if self.sessions else ""
        return RunState(
            frames=self.frames[self._since :],
            turn_ids=frozenset(self._turns),
            workspace=self.sandbox.workspace,
            log=log_records(self.sandbox.sessions, session) if session else [],
            requests=model_requests(self.sandbox.model),
            stderr=self._process.stderr if self._process is not None else self._stderr,
            exit_code=self._exit_code,
        )

    # --- the process ---

    @property
    def _agent(self) -> AgentProcess:
        if self._process is None:
            raise ScenarioFault("there is no agent; 'restart' it first")
        return self._process

    def _start(self) -> None:
        self._process = AgentProcess(
            self._command,
            env=environment(self.sandbox, self._route, self._settings, self._env),
            cwd=self.sandbox.home,
            answers=self.editor.answer,
            frames=self.frames,
        )

    def _end(self, how: str) -> None:
        process, self._process = self._agent, None
        try:
            self._exit_code = process.wait_ended()
        finally:
            self._stderr += process.stderr
            self.faults += process.faults
            self.frames.append(Frame("#", f"{how}, exit {self._exit_code}"))
        if how != "killed":  # who is killed owes no answer
            self._note_answers()
            if self._pending:
                self.faults.append(f"ended with requests unanswered: {sorted(self._pending.values())}")
        self._pending.clear()
        self.editor.forget()

    # --- requests and answers ---

    def _send(self, method: str, params: Any, *, turn: bool = False) -> int:
        self._note_answers()
        if not self._pending:  # while a turn runs, what is expected is looked for from its beginning on
            self._since = self._agent.mark()
        self._last_id += 1
        self._pending[self._last_id] = method
        if turn:
            self._turns.add(self._last_id)
        self._agent.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return self._last_id

    def _await_answer(self, request_id: Any) -> Frame:
        frame = self._agent.wait_for(
            lambda frame: frame.is_agents_answer and frame.message["id"] == request_id,
            f"the answer of request {request_id} ({self._pending.get(request_id)})",
            since=self._since,
        )
        self._note_answers()
        return frame

    def _note_answers(self) -> None:
        """Strike out what is answered; an answer that is not awaited is a fault."""
        answered: set[Any] = set()
        for frame in self.frames:
            if frame.is_agents_answer and (key := frame.message["id"]) is not None:
                if key in answered:
                    self.faults.append(f"request {key!r} was answered twice")
                answered.add(key)
                self._pending.pop(key, None)

    def _require_answers(self) -> None:
        for request_id in list(self._pending):
            self._await_answer(request_id)

    def _call(self, method: str, params: Any, args: Json, *, turn: bool = False) -> Frame:
        self.editor.prepare(args.get("answers", ()), args.get("forms", ()))
        request_id = self._send(method, params, turn=turn)
        return Frame("#", "") if args.get("background") else self._await_answer(request_id)

    def _session(self, args: Json) -> str:
        named: Any = args.get("session", self._current)
        if isinstance(named, str):
            return named
        number = int(named)
        if not 0 < number <= len(self.sessions):
            raise ScenarioFault(f"there is no session {number}")
        self._current = number
        return self.sessions[number - 1]
