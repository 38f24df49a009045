"""This package's agent with one fault in it: `python faulty_agent.py FAULT`. Each is planted where it would be made."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from acp_bridge.agent import agent as agent_module
from acp_bridge.agent import loop
from acp_bridge.agent.inbox import Inbox
from acp_bridge.bridge import bridge as bridge_module
from acp_bridge.bridge import client_files, client_sessions, conversation, updates
from acp_bridge.checkpoint.policy import CheckpointPolicy
from acp_bridge.cli.serve import main
from acp_bridge.content import Text
from acp_bridge.rpc import peer as peer_module
from acp_bridge.session import TurnEnded, journal, repair, transcript
from acp_bridge.tools import guard, known_files, pipeline, run_command
from acp_bridge.tools.permission import Choice, decide

FAULTS: dict[str, Callable[[], None]] = {}


def fault(plant: Callable[[], None]) -> Callable[[], None]:
    FAULTS[plant.__name__] = plant
    return plant


# --- bridge ---


@fault
def an_update_behind_the_response() -> None:
    """The last update waits for whatever is sent next."""
    held: list[Any] = []
    send, answer = peer_module.Peer.send_notification, peer_module.Peer._answer

    def send_late(self: Any, method: str, params: Any) -> None:
        if params.get("update", {}).get("status") in ("completed", "failed"):
            held.append(params)
        else:
            send(self, method, params)

    def answer_first(self: Any, reply: Any) -> None:
        answer(self, reply)
        while held:
            send(self, "session/update", held.pop(0))

    peer_module.Peer.send_notification = send_late
    peer_module.Peer._answer = answer_first


@fault
def an_update_before_the_session_is_known() -> None:
    make = client_sessions.ClientSessions.new

    async def greet_first(self: Any, *args: Any, **more: Any) -> Any:
        session = await make(self, *args, **more)
        await self._greet(session)
        return session

    client_sessions.ClientSessions.new = greet_first


@fault
def a_request_answered_twice() -> None:
    answer = peer_module.Peer._answer

    def twice(self: Any, reply: Any) -> None:
        answer(self, reply)
        self._wire.send(peer_module.encode(reply))

    peer_module.Peer._answer = twice


@fault
def an_id_of_another_type() -> None:
    encode = peer_module.encode
    peer_module.encode = lambda m: encode(
        m._replace(id=str(m.id)) if isinstance(m, peer_module.Success) and m.id is not None else m
    )


@fault
def a_line_that_is_no_message() -> None:
    send = peer_module.Peer.send_notification

    def chatty(self: Any, method: str, params: Any) -> None:
        self._wire.send(b"a debugging aid\n")
        send(self, method, params)

    peer_module.Peer.send_notification = chatty


@fault
def a_wrong_stop_reason() -> None:
    bridge_module._STOP_REASONS["max_tokens"] = "end_turn"


@fault
def a_cancel_that_surfaces_as_an_error() -> None:
    del bridge_module._STOP_REASONS["cancelled"]


@fault
def an_editor_that_is_passed_over() -> None:
    client_files.ClientFiles.look = lambda self, path: self.disk.look(path)


@fault
def a_load_that_forgets_diffs() -> None:
    content = updates._content
    updates._content = lambda result, files: [c for c in content(result, files) if c["type"] != "diff"]


@fault
def a_recovery_that_is_not_told() -> None:
    client_sessions.ClientSessions.tell_recovery = lambda self, session, recovery: None


# --- loop ---


@fault
def a_lost_closing_event() -> None:
    append = journal.Journal.append

    def forgetful(self: Any, event: Any, *, synthetic: bool = False) -> Any:
        if isinstance(event, TurnEnded) and event.by == "shutdown":
            return None
        return append(self, event, synthetic=synthetic)

    journal.Journal.append = forgetful


@fault
def a_retry_glued_to_the_discarded_attempt() -> None:
    streamed = loop.Turn._streamed

    async def glued(self: Any, step: int, message_id: str) -> Any:
        return await streamed(self, step, "_".join(message_id.split("_")[:3]))

    loop.Turn._streamed = glued


@fault
def a_failure_that_is_not_retried() -> None:
    loop.Turn._wait_before_next = lambda self, failed, attempt: None


@fault
def a_queue_that_outlives_the_cancel() -> None:
    Inbox.drain = lambda self: []


@fault
def a_continuation_twice() -> None:
    agent_module.Agent.continuable = lambda self: 1


@fault
def a_half_answer_kept_on_continuation() -> None:
    def start(self: Any, event: Any) -> None:
        self._provisional = set()

    transcript.Transcript._start_turn = start


# --- policy ---


@fault
def the_tool_barrier_skipped() -> None:
    journal.BACKGROUND_S = 60

    async def skip(self: Any, journal: Any) -> None:
        pass

    CheckpointPolicy.before_tool = skip


@fault
def the_turn_barrier_skipped() -> None:
    journal.BACKGROUND_S = 60

    async def skip(self: Any, journal: Any) -> None:
        pass

    CheckpointPolicy.after_turn = skip


@fault
def the_request_barrier_skipped() -> None:
    journal.BACKGROUND_S = 60

    async def skip(self: Any, journal: Any) -> None:
        pass

    CheckpointPolicy.before_request = skip


@fault
def the_answer_barrier_skipped() -> None:
    journal.BACKGROUND_S = 60

    async def skip(self: Any, journal: Any) -> None:
        pass

    CheckpointPolicy.before_answer = skip


# --- repair ---


@fault
def an_unknown_outcome_told_as_never_started() -> None:
    repair._classify = lambda request, call, *, barred: ("TOOL_NOT_STARTED", repair.NOT_STARTED)


@fault
def everything_told_as_unknown() -> None:
    repair._classify = lambda request, call, *, barred: (
        "TOOL_OUTCOME_UNKNOWN",
        repair.outcome_unknown(request.name, "write"),
    )


@fault
def a_write_told_as_repeatable() -> None:
    told = repair.outcome_unknown
    repair.outcome_unknown = lambda name, effect: told(name, "idempotent")


@fault
def a_crash_told_as_the_users_cancel() -> None:
    note = transcript._closing_note
    transcript._closing_note = lambda event: note(
        replace(event, reason="cancelled", by="client") if event.reason == "interrupted" else event
    )


@fault
def a_queued_prompt_forgotten() -> None:
    closers = repair.closers

    def without_drops(*args: Any, **more: Any) -> Any:
        return tuple(event for event in closers(*args, **more) if event.type != "input/dropped")

    import acp_bridge.session.sessions as sessions

    sessions.closers = without_drops


# --- tools and permission ---


@fault
def a_result_at_the_wrong_call() -> None:
    settle = pipeline.Pipeline._log_result

    def swapped(self: Any, turn: int, step: int, request: Any, output: Any) -> None:
        others = {"call_1_1_1": "call_1_1_2", "call_1_1_2": "call_1_1_1"}
        settle(self, turn, step, replace(request, call_id=others.get(request.call_id, request.call_id)), output)

    pipeline.Pipeline._log_result = swapped


@fault
def a_permission_not_asked() -> None:
    pipeline.decide = lambda mode, access, *, tool, grants: (
        "allow"
        if decide(mode, access, tool=tool, grants=grants) == "ask"
        else decide(mode, access, tool=tool, grants=grants)
    )


@fault
def a_failed_question_taken_as_yes() -> None:
    ask = conversation.Conversation.ask

    async def trusting(self: Any, question: Any) -> Choice:
        choice = await ask(self, question)
        return choice if choice.option_id or choice.dismissed else Choice("allow_once")

    conversation.Conversation.ask = trusting


@fault
def a_mode_not_looked_at_again() -> None:
    once: list[Any] = []

    def first(mode: Any, access: Any, *, tool: str, grants: Iterable[Any]) -> Any:
        once.append(mode)
        return decide(once[0], access, tool=tool, grants=grants)

    pipeline.decide = first


@fault
def a_grant_that_covers_every_command() -> None:
    def loose(mode: Any, access: Any, *, tool: str, grants: Iterable[Any]) -> Any:
        grants = tuple(grants)
        return "allow" if any(g["tool"] == tool for g in grants) else decide(mode, access, tool=tool, grants=grants)

    pipeline.decide = loose


@fault
def a_renamed_tool() -> None:
    run_command.RunCommand.spec = replace(run_command.RunCommand.spec, name="bash")


@fault
def a_changed_file_overwritten() -> None:
    known_files.KnownFiles._refuse_if_changed = lambda self, path, state, *, whole: None


@fault
def a_command_that_sees_everything() -> None:
    guard.allowed = lambda env, extra_names=(): dict(env)


@fault
def a_command_run_again_on_load() -> None:
    take = client_sessions.ClientSessions.take

    async def helpful(self: Any, session_id: str, place: Any, servers: Any) -> Any:
        entry, recovery = await take(self, session_id, place, servers)
        for _ in recovery.unknown:
            entry.agent.submit((Text(text="Do it again"),))
        return entry, recovery

    client_sessions.ClientSessions.take = helpful


@fault
def a_mode_that_is_always_full() -> None:
    agent_module.Agent.mode = property(lambda self: "full")  # pyright: ignore[reportAttributeAccessIssue]


@fault
def none() -> None:
    """As it is: what is not caught here is what every scenario passes."""


if __name__ == "__main__":
    FAULTS[sys.argv[1]]()
    sys.exit(main([]))
