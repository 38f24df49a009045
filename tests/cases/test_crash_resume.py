"""Cases from the field: crash, resume, re-run. Each is told as the kind that it is one of.

What was *seen* is what agents did to their users. Kills at random have their own table, `tests/crash/kills/table.py`.
"""

import itertools
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from crash.kills.provider import Provider, Reply, Wanted
from support import log
from support.client import Client, clean_environment, prompt_params
from support.lives import Start, answering, cards, events, last_words, load, mostly_slow, said, words
from support.processes import eventually, gone, pids_in, writing_pids
from support.script import fail, hang, say, use, use_all, written

from acp_bridge.acp import CONTINUE, SESSION_IN_USE, UNSAVED

pytestmark = pytest.mark.slow  # the kill table, in small, stands for these in the quick run


def run(command: str) -> Wanted:
    return Wanted("run_command", {"command": command})


def slow(folder: Path) -> str:
    """Return a command that has its effect at once and takes long."""
    return writing_pids(folder / "pids", f"echo did >> {folder / 'effects.log'}; sleep 600")


def ran(folder: Path) -> str:
    """Wait until the slow command has had its effect; return the effects."""
    file = folder / "effects.log"
    return eventually(lambda: file.read_text() if file.exists() else "", "the effect")


# --- what ran is not run again ---


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_taking_a_session_runs_nothing(start: Start, project: Path, method: str) -> None:
    """Seen: a load ran a finished tool again. It runs nothing; the call is shown failed, its outcome unknown."""
    script = written(project / "s.json", use("run_command", command=slow(project), when="append"))
    client = start(script)
    session = client.new_session(project)
    client.prompt(session, "append")
    assert ran(project) == "did\n"
    client.kill()
    other = start(script)
    load(other, session, project, method=method)
    gone(pids_in(project / "pids"), within_s=5)
    before = events(other, session)
    time.sleep(0.5)  # nothing is to happen, and nothing tells of that
    assert events(other, session) == before
    assert (project / "effects.log").read_text() == "did\n"
    if method == "session/load":
        [card] = cards(other, session).values()
        assert card["status"] == "failed"
        assert "outcome unknown" in words(card).lower()
    assert other.prompted(session, "go on") == "end_turn"
    assert (project / "effects.log").read_text() == "did\n"


@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit_file"])
def test_whatever_tool_was_finished_keeps_its_result(start: Start, project: Path, tool: str) -> None:
    """The same for tools that had finished before the kill: their result is kept, and they do not run again."""
    arguments = {
        "read_file": {"path": "seed.txt"},
        "write_file": {"path": "made.txt", "content": "made\n"},
        "edit_file": {"path": "seed.txt", "old_text": "seed", "new_text": "seed seed"},
    }[tool]
    script = written(project / "s.json", use(tool, when="do it", **arguments), hang(when=""))
    client = start(script)
    session = client.new_session(project)
    client.prompt(session, "do it")
    live = client.update("tool_call_update", status="completed")
    client.kill()
    files = {file.name: file.read_text() for file in project.iterdir()}
    other = start(script)
    load(other, session, project)
    [card] = cards(other, session).values()
    assert (card["toolCallId"], card["status"], card["content"]) == (live["toolCallId"], "completed", live["content"])
    assert {file.name: file.read_text() for file in project.iterdir()} == files


# --- headless ---


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_headless_run_that_is_ended_keeps_its_round_and_says_how_it_ended(
    start: Start, project: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """Seen: the round was lost, and the exit code 0. It is on disk, the code is another, the reason is JSON."""
    script = written(project / "s.json", use("run_command", command=slow(project), when="do it"))
    command = [sys.executable, "-m", "acp_bridge", "run", "--json", "--mode", "full", "--cwd", str(project), "do it"]
    environment = clean_environment(tmp_path / "home", f"scripted:{script}")
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, start_new_session=True) as process:
        ran(project)
        process.send_signal(number)
        output, _ = process.communicate(timeout=10)
    lines = [json.loads(line) for line in output.splitlines()]
    assert process.returncode == 128 + number
    assert (lines[-1]["reason"], lines[-1]["exitCode"]) == ("cancelled", 128 + number)
    gone(pids_in(project / "pids"), within_s=1)
    client = start(script)
    session = next(line["sessionId"] for line in lines if "sessionId" in line)
    load(client, session, project)
    found = events(client, session)
    assert [event["type"] for event in found[-3:]] == ["tool/result", "step/end", "turn/end"]  # and a load adds nothing
    assert not any(event.get("synthetic") for event in found)


# --- going on without inventing a message ---


GOING_ON = itertools.product(["method", "command"], ["waiting", "streaming", "in tools"])


@pytest.mark.parametrize(
    ("way", "moment"), mostly_slow(GOING_ON, quick=[("method", "streaming"), ("command", "in tools")])
)
def test_going_on_makes_the_same_request_and_invents_no_message(
    start: Start, project: Path, way: str, moment: str
) -> None:
    """Seen: a finished tool, and no way to go on but by a new message. Going on makes the request that was lost."""
    with Provider(lambda _asked: Reply(["?"])) as provider:
        begins = Reply(["Half an ans"] if moment == "streaming" else [""], wait=lambda: time.sleep(20))
        command = slow(project) if moment == "in tools" else "echo did"
        provider.answer = answering(Reply(["I begin."], [run(command)]), begins)
        client = start(provider)
        session = client.new_session(project)
        client.prompt(session, "do it")
        match moment:
            case "in tools":
                ran(project)
            case "streaming":
                client.update("agent_message_chunk", messageId="msg_1_2")
                log.wait_for_event(client.home, session, "assistant/delta")
            case _:
                eventually(lambda: len(provider.asked) == 2, "the second request")
        client.kill()
        lost = provider.asked[-1].messages
        provider.answer = answering(Reply(["And so on."]))
        other = start(provider)
        load(other, session, project)
        if way == "method":
            ended = other.call(CONTINUE, {"sessionId": session})
        else:
            ended = other.result(other.prompt(session, "/continue"))
        assert ended == {"stopReason": "end_turn"}
        again = provider.asked[-1].messages
        if moment == "in tools":
            assert again[: len(lost)] == lost
            assert [message["role"] for message in again[len(lost) :]] == ["assistant", "tool"]
            assert "Outcome unknown" in last_words(again)
        else:
            assert again == lost
        assert [event["data"]["id"] for event in events(other, session, "user/message")] == ["input_1"]
        assert not provider.rejected
        refusal = other.refused(CONTINUE, {"sessionId": session})
        assert refusal.code == -32600  # once, and no more


# --- old work needs consent ---


def test_only_the_new_prompt_is_acted_on_after_a_kill(start: Start, project: Path) -> None:
    """Seen: after a crash the next message revived the dead task and all that was queued behind it."""
    with Provider(lambda _asked: Reply(["?"])) as provider:
        provider.answer = answering(Reply(["I begin."], [run(slow(project)), run("echo more >> effects.log")]))
        client = start(provider)
        session = client.new_session(project)
        client.prompt(session, "the long task")
        client.prompt(session, "the next task")
        client.prompt(session, "and one more")
        ran(project)
        log.wait_for_event(client.home, session, "tool/call")
        client.kill()
        other = start(provider)
        load(other, session, project)
        shown = said(other, session, "user_message_chunk")
        assert {"the long task", "the next task", "and one more"} >= set(shown.values())
        assert "the long task" in shown.values()
        mark = other.mark
        assert other.prompted(session, "stop") == "end_turn"
        assert len(provider.asked) == 2
        assert last_words(provider.asked[-1].messages).endswith("stop")
        assert "the next task" not in provider.asked[-1].text
        assert not cards(other, session, since=mark)
        assert (project / "effects.log").read_text() == "did\n"


# --- what a strict provider takes ---


MOMENTS = ("before the request", "streaming", "thinking", "question", "tools", "one of three")


@pytest.mark.parametrize("moment", mostly_slow(MOMENTS, quick=["one of three"]))
def test_after_a_kill_at_any_moment_a_strict_provider_takes_the_next_prompt(
    start: Start, project: Path, moment: str
) -> None:
    """Seen: unpaired calls bricked sessions. Repair is stored once; a second load adds nothing to it."""
    with Provider(lambda _asked: Reply(["?"])) as provider:
        late = [run("echo one"), run(slow(project)), run("echo three")]
        provider.answer = answering(
            {
                "streaming": Reply(["Half "], wait=lambda: time.sleep(20)),
                "thinking": Reply([" "], wait=lambda: time.sleep(20)),
                "question": Reply(["I ask."], [run("echo asked >> effects.log")]),
                "tools": Reply([], [run(slow(project))]),
                "one of three": Reply(["Three."], late),
            }.get(moment, Reply(["?"]))
        )
        client = start(provider, environment={"ACP_BRIDGE_MODE": "ask" if moment == "question" else "full"})
        session = client.new_session(project)
        client.prompt(session, "do it")
        match moment:
            case "streaming":
                log.wait_for_event(client.home, session, "assistant/delta")
            case "thinking":
                eventually(lambda: bool(provider.asked), "the request")
            case "question":
                client.asked()
            case "tools" | "one of three":
                ran(project)
            case _:
                pass
        client.kill()
        provider.answer = answering()
        other = start(provider)
        load(other, session, project)
        repaired = events(other, session)
        other.close_stdin()
        assert other.wait() == 0
        third = start(provider)
        load(third, session, project)
        assert events(third, session) == repaired
        assert third.prompted(session, "and now?") == "end_turn"
        assert not provider.rejected, provider.rejected
        assert "user cancelled" not in provider.asked[-1].text


# --- what is torn ---


def test_a_disk_that_fills_up_leaves_whole_lines_and_a_session_that_goes_on(
    start: Start, project: Path, tmp_path: Path
) -> None:
    """Seen: a torn line, and the next append fused two records. Here the limit is one on the size of files."""
    script = written(project / "s.json", say("x" * 30_000, when="fill"), say("Hello."))
    limited = ("/bin/bash", "-c", 'ulimit -f 20 && exec "$0" "$@"', sys.executable, "-m", "acp_bridge")
    client = Client(tmp_path / "home", script, command=limited)
    client.initialize()
    session = client.new_session(project)
    assert client.prompted(session, "small") == "end_turn"
    refusal = client.refused("session/prompt", prompt_params(session, "fill"))
    assert refusal.code == UNSAVED
    assert client.refused("session/prompt", prompt_params(session, "small")).code == UNSAVED
    client.close_stdin()
    assert client.wait() == 1  # something could not be saved
    other = start(script)
    load(other, session, project)
    assert "x" * 30_000 not in said(other, session).values()
    assert other.prompted(session, "small") == "end_turn"
    sequence = [event["seq"] for event in events(other, session)]
    assert sequence == list(range(len(sequence)))


@pytest.mark.parametrize("lost", [1, 7, 40])
def test_a_torn_last_line_costs_that_line_alone(start: Start, project: Path, lost: int) -> None:
    """Seen: a partial last line, and the session never opened again. As after a power cut: the mark is gone too."""
    script, session, file = finished_session(start, project)
    whole = file.read_bytes()
    file.write_bytes(whole[:-lost])
    lock = file.parent.with_suffix(".lock")
    lock.write_bytes(b"\0" * lock.stat().st_size)
    client = start(script)
    load(client, session, project)
    notice = " ".join(said(client, session).values())
    assert f"{len(whole.splitlines()[-1]) + 1 - lost} bytes" in notice
    assert len(events(client, session)) >= len(whole.splitlines()) - 1
    assert client.prompted(session, "go on") == "end_turn"


def test_half_a_line_behind_the_last_is_left_out_and_told(start: Start, project: Path) -> None:
    """What a kill leaves of it: all that was known durable is there, and half a record behind it."""
    script, session, file = finished_session(start, project)
    with file.open("ab") as log_file:
        log_file.write(b'{"type":"turn/start","seq":')
    client = start(script)
    load(client, session, project)
    assert "27 bytes" in " ".join(said(client, session).values())
    assert client.prompted(session, "go on") == "end_turn"


def test_a_line_lost_below_what_was_durable_is_damage_and_changes_nothing(start: Start, project: Path) -> None:
    """The other side of it: what was known durable and is not there is no torn tail, and is never cut silently."""
    script, session, file = finished_session(start, project)
    file.write_bytes(file.read_bytes()[:-7])
    before = file.read_bytes()
    client = start(script)
    refusal = client.refused("session/load", {"sessionId": session, "cwd": str(project), "mcpServers": []})
    assert str(file) in refusal.data["details"]
    assert "offset" in refusal.data["details"]
    assert file.read_bytes() == before


def finished_session(start: Start, project: Path) -> tuple[Path, str, Path]:
    """Return the script, the id and the log of a session that was closed in order."""
    script = written(project / "s.json", say("Hello."))
    client = start(script)
    session = client.new_session(project)
    assert client.prompted(session, "hi") == "end_turn"
    client.close_stdin()
    assert client.wait() == 0
    return script, session, log.log_file(client.home, session)


# --- the end of input in a tool ---


def test_a_tool_that_runs_when_the_input_ends_has_its_result_stored(start: Start, project: Path) -> None:
    """Seen: the process exited before the result was recorded. Calls behind it get one too, and none is made up."""
    answer = use_all(
        ("read_file", {"path": "seed.txt"}),
        ("run_command", {"command": slow(project)}),
        ("run_command", {"command": "echo never >> effects.log"}),
        when="do it",
    )
    client = start(written(project / "s.json", answer))
    session = client.new_session(project)
    prompt = client.prompt(session, "do it")
    ran(project)
    began = time.monotonic()
    client.close_stdin()
    assert client.wait() == 0
    assert time.monotonic() - began < 5
    assert client.result(prompt) == {"stopReason": "cancelled"}
    gone(pids_in(project / "pids"), within_s=0.5)
    codes = [event["data"].get("code") for event in events(client, session, "tool/result")]
    assert codes == [None, "ABORTED", "ABORTED_BEFORE_DISPATCH"]
    assert [event["type"] for event in events(client, session)[-2:]] == ["step/end", "turn/end"]
    assert not [event for event in events(client, session) if event.get("synthetic")]
    assert ran(project) == "did\n"


# --- failed turns ---

FAILURES = ["bad_request", "auth", "overloaded", "broken_stream", "context_overflow"]


@pytest.mark.parametrize("kind", mostly_slow(FAILURES, quick=["overloaded"]))
def test_a_failed_turn_is_shown_again_whole(start: Start, project: Path, kind: str) -> None:
    """Seen: a failed turn vanished. Its prompt, its tools and its error are there when it is loaded elsewhere."""
    script = written(
        project / "s.json",
        use_all(("read_file", {"path": "seed.txt"}), ("run_command", {"command": "echo two"}), when="do it"),
        fail(kind, message="the provider is ill"),
        otherwise="",
    )
    client = start(script, environment={"ACP_BRIDGE_AGENT_MAX_ATTEMPTS": "1"})
    session = client.new_session(project)
    client.refused("session/prompt", prompt_params(session, "do it"))
    live = cards(client, session)
    other = start(script)
    client.call("session/close", {"sessionId": session})
    load(other, session, project)
    assert list(said(other, session, "user_message_chunk").values()) == ["do it"]
    again = cards(other, session)
    assert {key: (card["status"], card["content"]) for key, card in again.items()} == {
        key: (card["status"], card["content"]) for key, card in live.items()
    }
    assert len(again) == 2
    assert "the provider is ill" in " ".join(said(other, session).values())


FAILED = itertools.product([400, 401, 500], [False, True])


@pytest.mark.parametrize(("status", "restart"), mostly_slow(FAILED, quick=[(500, True)]))
def test_a_failed_turn_is_closed_for_the_model(start: Start, project: Path, status: int, restart: bool) -> None:
    """Seen: a failed turn was left open, so that the next request did it again. It is closed, and marked failed."""
    with Provider(answering(Reply(["I look."], [run("echo one")]), Reply(status=status))) as provider:
        client = start(provider, environment={"ACP_BRIDGE_AGENT_MAX_ATTEMPTS": "1"})
        session = client.new_session(project)
        client.refused("session/prompt", prompt_params(session, "do it"))
        if restart:
            client.kill()
            client = start(provider)
            load(client, session, project)
        assert client.prompted(session, "hello") == "end_turn"
        told = last_words(provider.asked[-1].messages)
        assert "ended with an error" in told
        assert told.endswith("hello")
        assert not provider.rejected
        ends = events(client, session, "turn/end")
        assert [event["data"]["reason"] for event in ends] == ["error", "completed"]


# --- one writer ---


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_a_second_process_is_told_who_has_the_session(start: Start, project: Path, method: str) -> None:
    """Seen: two processes wrote one log. The second is refused, with who holds it; the lock dies with its owner."""
    script = written(project / "s.json")
    owner, other = start(script), start(script)
    session = owner.new_session(project)
    assert owner.prompted(session, "one") == "end_turn"
    refusal = other.refused(method, {"sessionId": session, "cwd": str(project), "mcpServers": []})
    assert refusal.code == SESSION_IN_USE
    assert str(owner.process.pid) in json.dumps(refusal.data)
    assert other.refused("session/prompt", prompt_params(session, "x")).code == -32002
    assert owner.prompted(session, "two") == "end_turn"
    owner.kill()
    load(other, session, project, method=method)
    assert other.prompted(session, "three") == "end_turn"
    texts = [event["data"]["content"][0]["text"] for event in events(other, session, "user/message")]
    assert texts == ["one", "two", "three"]


@pytest.mark.parametrize("moment", ["idle", "in a tool"])
def test_a_session_whose_owner_was_killed_loads_at_once(start: Start, project: Path, moment: str) -> None:
    """Seen: a stale lock said "already open". The lock is the kernel's, and no child inherits it."""
    script = written(project / "s.json", use("run_command", command=slow(project), when="append"))
    owner = start(script)
    session = owner.new_session(project)
    if moment == "idle":
        assert owner.prompted(session, "hello") == "end_turn"
    else:
        owner.prompt(session, "append")
        ran(project)
    other: Client = start(script)
    owner.process.kill()  # not waited for
    load(other, session, project)
    owner.kill()
