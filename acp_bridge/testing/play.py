"""Plays a scenario against a real agent process, from a folder made for the run and removed after it.

Owns the run's folders, the agent's environment, which is made from nothing, and what each step does. Judges only what
the scenario itself expects, and what no run may do: leave a request unanswered, answer one twice, write something
else than messages, die.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from .editor import Editor
from .facts import Facts, counted, log_records, matches, served_requests
from .process import AgentProcess, Line, Stuck, parsed_or_text
from .scenario import CLIENTS, Scenario, ScenarioFault

Json: TypeAlias = dict[str, Any]

CONTINUE = "_acp_bridge/session/continue"


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of one run."""

    run: Path

    @property
    def workspace(self) -> Path:
        """Where the session works."""
        return self.run / "workspace"

    @property
    def home(self) -> Path:
        """The agent's home folder."""
        return self.run / "home"

    @property
    def model(self) -> Path:
        """The recording that the agent's model plays."""
        return self.run / "model"

    @property
    def sessions(self) -> Path:
        """Where the logs lie."""
        return self.home / "bridge" / "sessions"

    def tokens(self) -> dict[str, str]:
        """Return what the names in a scenario stand for."""
        return {"<workspace>": str(self.workspace), "<home>": str(self.home), "<run>": str(self.run)}


@contextmanager
def made_place(scenario: Scenario) -> Generator[Place]:
    """Make the folders of a run; they are removed at its end."""
    run = Path(tempfile.mkdtemp(prefix="acp-")).resolve()
    place = Place(run)
    try:
        for folder in (place.home, run / "tmp", place.model):
            folder.mkdir()
        source = scenario.folder / "workspace"
        if source.is_dir():
            shutil.copytree(source, place.workspace, symlinks=True)
        else:
            place.workspace.mkdir()
        for file in sorted((scenario.folder / "model").glob("*.json")):
            text = file.read_text(encoding="utf-8")
            for token, path in place.tokens().items():
                text = text.replace(token, json.dumps(path)[1:-1])
            (place.model / file.name).write_text(text, encoding="utf-8")
        (place.model / "served.jsonl").touch()
        yield place
    finally:
        shutil.rmtree(run, ignore_errors=True)


def environment(place: Place, route: str, settings: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Return the agent's environment: nothing of the surroundings but the way to programs."""
    made = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LANG": "C.UTF-8",
        "HOME": str(place.home),
        "TMPDIR": str(place.run / "tmp"),
        "XDG_CONFIG_HOME": str(place.home / "config"),
        "ACP_BRIDGE_HOME": str(place.home / "bridge"),
        "ACP_BRIDGE_LOG": "warning",
    }
    return {**made, **more, **settings, "ACP_BRIDGE_MODEL": route}


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What a run has left.

    Attributes:
        faults: what no run may do, and what the scenario expected otherwise.
        logs: each session's records, header first, by id, in the order in which the client learned of them.
        served: what the model was asked, in order.
    """

    lines: tuple[Line, ...]
    faults: tuple[str, ...]
    logs: Mapping[str, list[Json]]
    served: tuple[Json, ...]
    tokens: Mapping[str, str]


def play(
    scenario: Scenario, place: Place, command: Sequence[str], *, route: str = "", env: Mapping[str, str] | None = None
) -> Played:
    """Run a scenario from its first step to the agent's end."""
    route = route or scenario.agent.get("ACP_BRIDGE_MODEL", f"replay:{place.model}")
    run = _Run(scenario, place, command, route, env or {})
    try:
        run.play()
    except (Stuck, ScenarioFault) as exc:
        run.faults.append(f"{run.at}: {exc}")
    except Exception as exc:
        run.faults.append(f"{run.at}: {exc!r}; is the step written as it should be?")
        raise
    finally:
        run.clear()
    run.faults += run.editor.faults
    return Played(
        lines=tuple(run.lines),
        faults=tuple(dict.fromkeys(run.faults)),
        logs={session: records for session in run.sessions if (records := log_records(place.sessions, session))},
        served=tuple(served_requests(place.model)),
        tokens=run.tokens(),
    )


class _Run:
    """One run under way."""

    def __init__(
        self, scenario: Scenario, place: Place, command: Sequence[str], route: str, env: Mapping[str, str]
    ) -> None:
        self.scenario = scenario
        self.place = place
        self.lines: list[Line] = []
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
        return self.place.workspace / self.expanded(name)

    def tokens(self) -> dict[str, str]:
        """Return every name and what it stands for, sessions included."""
        sessions = {f"<session-{number}>": session for number, session in enumerate(self.sessions, 1)}
        return {**self.place.tokens(), **sessions}

    def expanded(self, value: Any) -> Any:
        """Return a scenario's value with its names replaced."""
        match value:
            case str():
                text = str(value)
                for token, stands_for in self.tokens().items():
                    text = text.replace(token, stands_for)
                return text
            case dict():
                return {key: self.expanded(item) for key, item in cast("Json", value).items()}
            case list():
                return [self.expanded(item) for item in cast("list[Any]", value)]
            case _:
                return cast("Any", value)

    # --- the whole ---

    def play(self) -> None:
        """Run every step, and then let the agent end."""
        self._start()
        for step in self.scenario.steps:
            self.at = str(step)
            args = cast("Json", self.expanded(dict(step.args)))
            getattr(self, f"_do_{step.do}")(args)
            self._hold(step.expect, str(step))
        self.at = "the end"
        if self._process is not None:
            self._require_answers()
            self._process.hang_up()
            self._end("end of input")
            if self._exit_code:
                self.faults.append(f"the agent ended with {self._exit_code} after the end of its input")
        self._hold(self.scenario.expect, "[expect]")
        if left := self.editor.left_over():
            self.faults.append(left)
        if "Traceback" in self._stderr and "stderr_contains" not in self.scenario.expect:
            self.faults.append(f"a traceback on stderr:\n{self._stderr}")

    def clear(self) -> None:
        """Leave no process behind, whatever happened."""
        if self._process is not None:
            self._process.kill()
            self._end("killed, because the run broke off")

    def _hold(self, expect: Mapping[str, Any], where: str) -> None:
        if expect:
            self.faults += [f"{where}: {fault}" for fault in self._facts().broken(self.expanded(dict(expect)))]

    def _facts(self) -> Facts:
        session = self.sessions[self._current - 1] if self.sessions else ""
        return Facts(
            lines=self.lines[self._since :],
            turn_ids=frozenset(self._turns),
            workspace=self.place.workspace,
            log=log_records(self.place.sessions, session) if session else [],
            requests=served_requests(self.place.model),
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
            env=environment(self.place, self._route, self._settings, self._env),
            cwd=self.place.home,
            answers=self.editor.answer,
            lines=self.lines,
        )

    def _end(self, how: str) -> None:
        process, self._process = self._agent, None
        try:
            self._exit_code = process.ended()
        finally:
            self._stderr += process.stderr
            self.faults += process.faults
            self.lines.append(Line("#", f"{how}, exit {self._exit_code}"))
        if how != "killed":
            self._note_answers()
            if self._pending:
                self.faults.append(f"ended with requests unanswered: {sorted(self._pending.values())}")
        self._pending.clear()
        self.editor.forget()

    # --- requests and answers ---

    def _send(self, method: str, params: Any, *, turn: bool = False) -> int:
        self._note_answers()
        if not self._pending:
            self._since = self._agent.mark()
        self._last_id += 1
        self._pending[self._last_id] = method
        if turn:
            self._turns.add(self._last_id)
        self._agent.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return self._last_id

    def _answered(self, request_id: Any) -> Line:
        line = self._agent.wait_for(
            lambda line: line.is_agents_answer and line.message["id"] == request_id,
            f"the answer of request {request_id} ({self._pending.get(request_id)})",
            since=self._since,
        )
        self._note_answers()
        return line

    def _note_answers(self) -> None:
        """Strike out what is answered; an answer that is not awaited is a fault."""
        answered: set[Any] = set()
        for line in self.lines:
            if line.is_agents_answer and (key := line.message["id"]) is not None:
                if key in answered:
                    self.faults.append(f"request {key!r} was answered twice")
                answered.add(key)
                self._pending.pop(key, None)

    def _require_answers(self) -> None:
        for request_id in list(self._pending):
            self._answered(request_id)

    def _call(self, method: str, params: Any, args: Json, *, turn: bool = False) -> Line:
        self.editor.prepare(args.get("answers", ()), args.get("forms", ()))
        request_id = self._send(method, params, turn=turn)
        return Line("#", "") if args.get("background") else self._answered(request_id)

    def _session(self, args: Json) -> str:
        named = args.get("session", self._current)
        if isinstance(named, str):
            return named
        if not 0 < named <= len(self.sessions):
            raise ScenarioFault(f"there is no session {named}")
        self._current = named
        return self.sessions[named - 1]

    # --- steps ---

    def _do_initialize(self, args: Json) -> None:
        self._client = args.get("client", self._client)
        client = CLIENTS[self._client] if isinstance(self._client, str) else self._client
        self._call(
            "initialize",
            {
                "protocolVersion": args.get("version", 1),
                "clientCapabilities": client,
                "clientInfo": {"name": "scenario", "version": "1"},
            },
            args,
        )

    def _place(self, args: Json) -> Json:
        place: Json = {"cwd": args.get("cwd", str(self.place.workspace)), "mcpServers": args.get("mcp", [])}
        return place | ({"additionalDirectories": args["additional"]} if "additional" in args else {})

    def _do_new(self, args: Json) -> None:
        answer = self._call("session/new", self._place(args), args)
        if session := answer.result.get("sessionId"):
            self.sessions.append(session)
            self._current = len(self.sessions)
            self._greeted(args, session)

    def _do_load(self, args: Json, method: str = "session/load") -> None:
        session = self._session(args)
        answer = self._call(method, {"sessionId": session, **self._place(args)}, args)
        if "result" in answer.message:
            self._greeted(args, session)

    def _do_resume(self, args: Json) -> None:
        self._do_load(args, "session/resume")

    def _greeted(self, args: Json, session: str) -> None:
        """Wait for the list of commands, which follows the answer, so that it stands before what comes next."""

        def greets(line: Line) -> bool:
            return line.session == session and line.update.get("sessionUpdate") == "available_commands_update"

        if args.get("greeted", True):
            self._agent.wait_for(greets, "the session's commands (greeted = false if none come)", since=self._since)

    def _do_list(self, args: Json) -> None:
        answer = self._call("session/list", dict(args), args)
        for entry in answer.result.get("sessions", ()):
            if entry["sessionId"] not in self.sessions:
                self.sessions.append(entry["sessionId"])

    def _do_close(self, args: Json) -> None:
        self._call("session/close", {"sessionId": self._session(args)}, args)

    def _do_delete(self, args: Json) -> None:
        self._call("session/delete", {"sessionId": self._session(args)}, args)

    def _do_prompt(self, args: Json) -> None:
        blocks = args["blocks"] if "blocks" in args else [{"type": "text", "text": args["text"]}]
        self._call("session/prompt", {"sessionId": self._session(args), "prompt": blocks}, args, turn=True)

    def _do_continue(self, args: Json) -> None:
        self._call(CONTINUE, {"sessionId": self._session(args)}, args, turn=True)

    def _do_cancel(self, args: Json) -> None:
        if args.get("request"):
            self._tell("$/cancel_request", {"requestId": self._last_id})
        else:
            self._tell("session/cancel", {"sessionId": self._session(args)})

    def _do_set_mode(self, args: Json) -> None:
        self._call("session/set_mode", {"sessionId": self._session(args), "modeId": args["mode"]}, args)

    def _do_set_config_option(self, args: Json) -> None:
        params = {"sessionId": self._session(args), "configId": args["config"], "value": args["value"]}
        self._call("session/set_config_option", params, args)

    def _do_request(self, args: Json) -> None:
        self._call(args["method"], args.get("params", {}), args)

    def _do_notify(self, args: Json) -> None:
        self._tell(args["method"], args.get("params", {}))

    def _tell(self, method: str, params: Any) -> None:
        self._agent.send({"jsonrpc": "2.0", "method": method, "params": params})

    def _do_raw(self, args: Json) -> None:
        """Send lines as they are, in one write, and wait for as many answers as the scenario says."""
        lines = args.get("lines", [args["line"]] if "line" in args else [])
        if not self._pending:
            self._since = self._agent.mark()
        since = self._agent.mark()
        for line in lines:
            said = Line(">", parsed_or_text(line))
            if said.method and isinstance(said.message.get("id"), int | str):
                self._pending[said.message["id"]] = said.method
        self._agent.send_raw(*lines)
        if count := args.get("responses", 0):
            self._agent.wait_for(lambda line: line.is_agents_answer, f"{count} answers", since=since, times=count)
            self._note_answers()

    def _do_answer(self, args: Json) -> None:
        """Answer the request that was left open first."""
        if not self.editor.open:
            raise ScenarioFault("no request of the agent's is open")
        request = self.editor.open.pop(0)
        if "content" in args:
            answer: Json | None = {"result": {"action": "accept", "content": args["content"]}}
        else:
            answer = self.editor.permission(request, args["with"])
        if answer is not None:
            self._agent.send({"jsonrpc": "2.0", "id": request["id"], **answer})

    def _do_write(self, args: Json) -> None:
        path = self.path_of(args["path"])
        if args.get("remove"):
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(args.get("text", ""), encoding="utf-8")

    def _do_wait(self, args: Json) -> None:
        times = args.get("times", 1)
        if "update" in args:
            pattern, _ = counted(args["update"], "sessionUpdate")
            self._agent.wait_for(
                lambda line: bool(line.update) and matches(pattern, line.update),
                f"an update {pattern}",
                since=self._since,
                times=times,
            )
        if "event" in args:
            pattern, _ = counted(args["event"])
            session = self._session(args)
            self._agent.watch(
                lambda: sum(matches(pattern, r) for r in log_records(self.place.sessions, session)) >= times,
                f"{pattern} in the log",
            )
        if "asked" in args:
            self._agent.watch(lambda: len(self.editor.open) >= args["asked"], f"{args['asked']} open questions")
        if "served" in args:
            self._agent.watch(
                lambda: len(served_requests(self.place.model)) >= args["served"], f"{args['served']} model requests"
            )
        if "file" in args:
            self._agent.watch(self.path_of(args["file"]).exists, f"the file {args['file']}")
        if args.get("response"):
            self._require_answers()

    def _do_expect(self, args: Json) -> None:
        """Nothing is done: the step is its `expect`."""

    def _do_kill(self, _args: Json) -> None:
        self._agent.kill()
        self._end("killed")

    def _do_eof(self, _args: Json) -> None:
        self._agent.hang_up()
        self._end("end of input")

    def _do_signal(self, args: Json) -> None:
        self._agent.signal(args["name"])
        self._end(f"signal {args['name']}")

    def _do_restart(self, args: Json) -> None:
        if self._process is not None:
            raise ScenarioFault("the agent is still running; 'kill' it, or send 'eof' or a 'signal'")
        self._settings |= {name: str(value) for name, value in args.get("agent", {}).items()}
        self.lines.append(Line("#", "started again"))
        self._start()
        self._do_initialize({"client": args["client"]} if "client" in args else {})
