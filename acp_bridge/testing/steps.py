"""What each step of a scenario does.

Owns the words of the script: a method for each, called by name. Each request is awaited before the next step, unless it
is sent in the background; a wait watches for a fact and never sleeps.
"""

from typing import Any, TypeAlias, cast

from .artifacts import log_records, model_requests
from .expectations import matches, read_pattern
from .frame import Frame, parse_or_text
from .run import Run
from .scenario import CLIENTS, ScenarioFault

Json: TypeAlias = dict[str, Any]

CONTINUE = "_acp_bridge/session/continue"
TURNS = ("session/prompt", CONTINUE)


class Steps(Run):
    """A run that plays a script."""

    def play(self) -> None:
        """Run every step, and then let the agent end."""
        self._start()
        for step in self.scenario.steps:
            self.at = str(step)
            args = cast("Json", self.expand(dict(step.args)))
            getattr(self, f"_do_{step.do}")(args)
            self._check(step.expect, str(step))
        self.at = "the end"
        if self._process is not None:
            self._require_answers()
            self._process.hang_up()
            self._end("end of input")
            if self._exit_code:
                self.faults.append(f"the agent ended with {self._exit_code} after the end of its input")
        self._check(self.scenario.expect, "[expect]")
        if left := self.editor.list_unused():
            self.faults.append(left)
        # a defect that was caught is one all the same, unless the scenario is about it
        if "Traceback" in self._stderr and "stderr_contains" not in self.scenario.expect:
            self.faults.append(f"a traceback on stderr:\n{self._stderr}")

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

    def _session_params(self, args: Json) -> Json:
        params: Json = {"cwd": args.get("cwd", str(self.sandbox.workspace)), "mcpServers": args.get("mcp", [])}
        return params | ({"additionalDirectories": args["additional"]} if "additional" in args else {})

    def _do_new(self, args: Json) -> None:
        answer = self._call("session/new", self._session_params(args), args)
        if session := answer.result.get("sessionId"):
            self.sessions.append(session)
            self._current = len(self.sessions)
            self._await_greeting(args, session)

    def _do_load(self, args: Json, method: str = "session/load") -> None:
        session = self._session(args)
        answer = self._call(method, {"sessionId": session, **self._session_params(args)}, args)
        if "result" in answer.message:
            self._await_greeting(args, session)

    def _do_resume(self, args: Json) -> None:
        self._do_load(args, "session/resume")

    def _await_greeting(self, args: Json, session: str) -> None:
        """Wait for the list of commands, which follows the answer, so that it stands before what comes next."""

        def greets(frame: Frame) -> bool:
            return frame.session == session and frame.update.get("sessionUpdate") == "available_commands_update"

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
        method = args["method"]
        answer = self._call(method, args.get("params", {}), args, turn=method in TURNS)
        if method == "session/new" and (session := answer.result.get("sessionId")):
            self.sessions.append(session)
            self._current = len(self.sessions)
            self._await_greeting(args, session)

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
            said = Frame(">", parse_or_text(line))
            if said.method and isinstance(said.message.get("id"), int | str):
                self._pending[said.message["id"]] = said.method
                if said.method in TURNS:
                    self._turns.add(said.message["id"])
        self._agent.send_raw(*lines)
        if count := args.get("responses", 0):
            self._agent.wait_for(lambda frame: frame.is_agents_answer, f"{count} answers", since=since, times=count)
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
            pattern, _ = read_pattern(args["update"], "sessionUpdate")
            self._agent.wait_for(
                lambda frame: bool(frame.update) and matches(pattern, frame.update),
                f"an update {pattern}",
                since=self._since,
                times=times,
            )
        if "event" in args:
            pattern, _ = read_pattern(args["event"])
            session = self._session(args)
            self._agent.watch(
                lambda: sum(matches(pattern, r) for r in log_records(self.sandbox.sessions, session)) >= times,
                f"{pattern} in the log",
            )
        if "asked" in args:
            self._agent.watch(lambda: len(self.editor.open) >= args["asked"], f"{args['asked']} open questions")
        if "served" in args:
            self._agent.watch(
                lambda: len(model_requests(self.sandbox.model)) >= args["served"], f"{args['served']} model requests"
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
        self.frames.append(Frame("#", "started again"))
        self._start()
        self._do_initialize({"client": args["client"]} if "client" in args else {})
