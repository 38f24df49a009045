"""Every way to end the process, in every phase of a turn.

Each ending is brought about once, in a process whose sessions are all in another phase, and once in an idle one; the
tests then look at what was left.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support import log
from support.client import Client, clean_environment, selected
from support.processes import alive, eventually, gone, pids_in, writing_pids
from support.script import hang, pieces, say, use, written

Start = Callable[..., Client]

SIGNALS = {"SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT, "SIGHUP": signal.SIGHUP}
ENDINGS = ("end of input", *SIGNALS)
PHASES = ("streaming", "thinking", "command", "question", "retry")


@dataclass
class Ended:
    """What an ending left."""

    code: int
    seconds: float
    client: Client
    sessions: dict[str, str]
    prompts: dict[str, int]
    pids: list[int] = field(default_factory=list[int])

    def events(self, phase: str) -> list[dict[str, Any]]:
        return log.events(self.client.home, self.sessions[phase])


def end(client: Client, ending: str) -> tuple[int, float]:
    """Bring an ending about; return exit code and time."""
    began = time.monotonic()
    if ending in SIGNALS:
        client.signal(SIGNALS[ending])
    else:
        client.close_stdin()
    return client.wait(), time.monotonic() - began


def expected_code(ending: str) -> int:
    return 128 + SIGNALS[ending] if ending in SIGNALS else 0


@pytest.fixture(scope="module")
def ended_busy(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ended]:
    @cache
    def ended(ending: str) -> Ended:
        folder = tmp_path_factory.mktemp("busy")
        script = written(
            folder / "s.json",
            hang("I begin", when="streaming"),
            hang(when="thinking"),
            use("run_command", command=writing_pids(folder / "pids"), when="command"),
            use("run_command", command="touch ran", when="question"),
            pieces({"fail": {"kind": "rate_limit", "retry_after_s": 60.0}}, when="retry"),
        )
        client = Client(folder / "home", script)
        client.initialize()
        sessions = {phase: client.new_session(folder) for phase in PHASES}
        prompts = {phase: client.prompt(sessions[phase], phase) for phase in PHASES}
        asked = client.asked(session=sessions["command"])
        client.reply(asked, selected(asked["params"], "allow_once"))
        pids = pids_in(folder / "pids")
        client.asked(session=sessions["question"])
        client.update("agent_message_chunk", session=sessions["streaming"])
        log.wait_for_event(client.home, sessions["thinking"], "step/start")
        log.wait_for_event(client.home, sessions["retry"], "request/failed")
        code, seconds = end(client, ending)
        return Ended(code, seconds, client, sessions, prompts, pids)

    return ended


@pytest.mark.parametrize("ending", ENDINGS)
def test_in_a_turn_the_process_ends_within_five_seconds_with_the_code_that_tells(
    ended_busy: Callable[[str], Ended], ending: str
) -> None:
    """R90, R93: EOF → exit 0, a signal n → 128 + n, within 5 s mid-turn; quiet stderr."""
    ended = ended_busy(ending)
    assert ended.code == expected_code(ending)
    assert ended.seconds < 5
    assert "Traceback" not in ended.client.stderr
    ended.client.check()


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_the_turn_started_is_gone(ended_busy: Callable[[str], Ended], ending: str) -> None:
    """R90: children dead, the guard included."""
    gone(ended_busy(ending).pids, within_s=0.5)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_turn_under_way_is_closed_by_the_loop_itself_and_the_prompt_answered(
    ended_busy: Callable[[str], Ended], ending: str, phase: str
) -> None:
    """R90, R93: real step/end and turn/end, cancelled by shutdown; the prompt's response written."""
    ended = ended_busy(ending)
    events = ended.events(phase)
    assert [event["type"] for event in events[-2:]] == ["step/end", "turn/end"]
    assert (events[-1]["data"]["reason"], events[-1]["data"]["by"]) == ("cancelled", "shutdown")
    assert not [event for event in events if event.get("synthetic")]
    assert ended.client.result(ended.prompts[phase]) == {"stopReason": "cancelled"}


@pytest.mark.parametrize("ending", ENDINGS)
def test_calls_have_the_result_that_is_true(ended_busy: Callable[[str], Ended], ending: str) -> None:
    """The command that ran is ABORTED, the one that was asked about never ran."""
    ended = ended_busy(ending)
    codes = {
        phase: [e["data"]["code"] for e in ended.events(phase) if e["type"] == "tool/result"]
        for phase in ("command", "question")
    }
    assert codes == {"command": ["ABORTED"], "question": ["ABORTED_BEFORE_DISPATCH"]}


@pytest.mark.parametrize("ending", ENDINGS)
def test_idle_the_process_ends_within_two_seconds(start: Start, tmp_path: Path, ending: str) -> None:
    """R90, R93: idle, with a finished turn; exit code as ever, journal intact."""
    client = start(written(tmp_path / "s.json", say("Hello.")))
    client.initialize()
    session = client.new_session(tmp_path)
    client.prompted(session, "x")
    code, seconds = end(client, ending)
    assert (code, seconds < 2) == (expected_code(ending), True)
    assert client.stderr == ""
    assert log.kinds(client.home, session)[-1] == "turn/end"


@pytest.mark.cold_start
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("moment", ["before initialize", "while it warms up"])
def test_before_anything_is_asked_the_process_ends_at_once(
    start: Start, tmp_path: Path, ending: str, moment: str
) -> None:
    """R90, R93: also before initialize, and while the warm-up imports."""
    client = start(written(tmp_path / "s.json", say("Hello.")))
    if moment == "while it warms up":
        client.initialize()
    else:
        client.write(b'{"jsonrpc":"2.0","id":"x","method":"none"}\n')
        client.answer("x")
    code, seconds = end(client, ending)
    assert (code, seconds < 2) == (expected_code(ending), True)
    assert client.stderr == ""


@pytest.mark.cold_start
def test_a_second_signal_ends_the_process_at_once_and_loses_nothing_settled(start: Start, tmp_path: Path) -> None:
    """R93: a second signal ends at once, by the crash path; the log loads, and the call's outcome is unknown."""
    stubborn = "trap '' TERM INT HUP; while :; do sleep 0.1; done"
    script = written(tmp_path / "s.json", use("run_command", command=writing_pids(tmp_path / "pids", stubborn)))
    client = start(script)
    client.initialize()
    session = client.new_session(tmp_path)
    client.prompt(session, "x")
    asked = client.asked(session=session)
    client.reply(asked, selected(asked["params"], "allow_once"))
    pids = pids_in(tmp_path / "pids")
    began = time.monotonic()
    client.signal(signal.SIGTERM)
    client.signal(signal.SIGINT)
    assert client.wait() in (128 + signal.SIGTERM, 128 + signal.SIGINT)
    assert time.monotonic() - began < 1
    gone(pids, within_s=2)
    other = start(script)
    other.initialize()
    other.call("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
    assert other.update("tool_call", session=session)["status"] == "failed"


@pytest.mark.cold_start
def test_stdin_on_the_null_device_is_the_end_of_the_input(tmp_path: Path) -> None:
    """R91: stdin /dev/null → exit 0 (the registry's launch check), with nothing on stdout."""
    ran = subprocess.run(
        [sys.executable, "-m", "acp_bridge"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=5,
        env=clean_environment(tmp_path, ""),
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


@pytest.mark.cold_start
def test_a_missing_stderr_harms_nothing(tmp_path: Path) -> None:
    """R91: started without a stderr the process serves and ends as ever."""
    closing = "import os, sys; os.close(2); os.execv(sys.executable, [sys.executable, '-m', 'acp_bridge'])"
    ran = subprocess.run(
        [sys.executable, "-c", closing],
        input=b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n',
        capture_output=True,
        timeout=5,
        env=clean_environment(tmp_path, ""),
        check=False,
    )
    assert ran.returncode == 0
    assert ran.stdout.startswith(b'{"jsonrpc":"2.0","id":1,"result"')


def test_a_peer_that_closes_our_stdout_ends_the_process_quietly(start: Start, tmp_path: Path) -> None:
    """R92: stdout closed by the peer → quiet exit, no traceback storm; the turn is closed as by any end."""
    script = written(
        tmp_path / "s.json", pieces({"text": "word "}, {"wait_for": "go"}, {"text": "more ", "repeat": 50})
    )
    client = start(script)
    client.initialize()
    session = client.new_session(tmp_path)
    client.prompt(session, "x")
    client.update("agent_message_chunk", session=session)
    assert client.process.stdout is not None
    os.dup2(os.open(os.devnull, os.O_RDONLY), client.process.stdout.fileno())
    (tmp_path / "go").touch()
    assert client.wait() == 1
    assert "Traceback" not in client.stderr
    assert len(client.stderr.splitlines()) <= 3
    events = log.events(client.home, session)
    assert events[-1]["type"] == "turn/end"
    client.received.clear()
    client.faults.clear()  # the last line was cut by us


def test_half_a_line_and_the_end_in_a_turn_are_the_end(start: Start, tmp_path: Path) -> None:
    """R90: a client that dies while it writes."""
    client = start(written(tmp_path / "s.json", hang("I begin")))
    client.initialize()
    session = client.new_session(tmp_path)
    prompt = client.prompt(session, "x")
    client.update("agent_message_chunk", session=session)
    client.write(b'{"jsonrpc":"2.0","method":"session/can')
    client.close_stdin()
    assert client.wait() == 0
    assert client.result(prompt) == {"stopReason": "cancelled"}
    assert log.kinds(client.home, session)[-1] == "turn/end"


def test_a_client_that_stops_reading_fills_no_memory_and_can_still_cancel(start: Start, tmp_path: Path) -> None:
    """R94: client that stops reading stdout: memory bounded; cancel still processed."""
    script = written(tmp_path / "s.json", pieces({"text": "word "}, {"text": "x" * 100_000, "repeat": 3000}))
    client = start(script)
    client.initialize()
    session = client.new_session(tmp_path)
    before = _resident_mib(client.process.pid)
    with client.not_reading():
        prompt = client.prompt(session, "x")
        log.wait_for_event(client.home, session, "assistant/delta")

        def steady() -> float | None:
            memory = _resident_mib(client.process.pid)
            time.sleep(0.3)  # that nothing is taken for a while is what is waited for
            now = _resident_mib(client.process.pid)
            return now if now - memory < 1 else None

        memory = eventually(steady, "the model to be held up, or done")
        client.cancel(session)
        log.wait_for_event(client.home, session, "turn/end", reason="cancelled")
    assert client.result(prompt) == {"stopReason": "cancelled"}
    assert memory - before < 80


def _resident_mib(pid: int) -> float:
    out = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=True)
    return int(out.stdout) / 1024


@pytest.mark.slow
def test_a_client_that_neither_reads_nor_hangs_up_cannot_keep_the_process(start: Start, tmp_path: Path) -> None:
    """R94, R93: with a full pipe a signal still ends the process in time."""
    script = written(tmp_path / "s.json", pieces({"text": "x" * 1000, "repeat": 10_000_000}))
    client = start(script)
    client.initialize()
    session = client.new_session(tmp_path)
    client.prompt(session, "x")
    client.update("agent_message_chunk", session=session)
    with client.not_reading():
        log.wait_for_event(client.home, session, "assistant/delta")
        client.signal(signal.SIGTERM)
        eventually(lambda: not alive(client.process.pid), "the end of the process", timeout_s=6)
        assert client.process.wait(1) == 143
    assert log.kinds(client.home, session)[-1] == "turn/end"
    client.faults.clear()  # the last line was cut by its end


@pytest.mark.cold_start
def test_killing_the_agent_kills_what_it_started(start: Start, tmp_path: Path) -> None:
    """SIGKILL of the agent alone; its command and guard end within two seconds."""
    script = written(tmp_path / "s.json", use("run_command", command=writing_pids(tmp_path / "pids")))
    client = start(script)
    client.initialize()
    session = client.new_session(tmp_path)
    client.prompt(session, "x")
    asked = client.asked(session=session)
    client.reply(asked, selected(asked["params"], "allow_once"))
    pids = pids_in(tmp_path / "pids")
    client.process.kill()
    client.wait()
    gone(pids, within_s=2)


@pytest.mark.cold_start
def test_a_wrapper_that_is_killed_takes_the_agent_with_it(tmp_path: Path) -> None:
    """Started through a wrapper that is killed; the agent notices the end of its input and exits."""
    wrapper = f"exec 3<&0; {sys.executable} -m acp_bridge <&3 3<&- & exec 3<&-; echo $! > '{tmp_path}/agent'; wait"
    process = subprocess.Popen(
        ["sh", "-c", wrapper],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=clean_environment(tmp_path / "home", ""),
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n')
    process.stdin.flush()
    assert b'"id":1' in process.stdout.readline()
    [agent] = pids_in(tmp_path / "agent")
    process.kill()
    process.wait()
    assert alive(agent)
    process.stdin.close()
    process.stdout.close()
    gone([agent], within_s=3)


def test_a_hundred_sessions_leave_nothing_behind(start: Start, tmp_path: Path) -> None:
    """R95: 100 sessions open and close: no growth in descriptors or threads."""
    client = start(written(tmp_path / "s.json", say("Hello.")))
    client.initialize()

    def opened_and_closed(count: int) -> tuple[int, int]:
        for number in range(count):
            session = client.new_session(tmp_path)
            if number % 10 == 0:
                client.prompted(session, "x")
            client.call("session/close", {"sessionId": session})
        process = f"/proc/{client.process.pid}"
        return (
            (len(os.listdir(f"{process}/fd")), len(os.listdir(f"{process}/task"))) if os.path.isdir(process) else (0, 0)
        )

    before = opened_and_closed(10)
    assert opened_and_closed(100) == before


def test_stderr_tells_neither_prompts_nor_keys(start: Start, tmp_path: Path) -> None:
    """R96: stderr bounded; no prompt text or key at default level, also when turns fail and input is bad."""
    script = written(
        tmp_path / "s.json", pieces({"fail": {"kind": "auth", "message": "refused"}}, when="secret-prompt")
    )
    client = start(script, environment={"ANTHROPIC_API_KEY": "secret-key"})
    client.initialize()
    session = client.new_session(tmp_path)
    for _ in range(20):
        client.refused("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "secret-prompt"}]})
        client.write(b'{"secret-prompt\n')
        client.notify("session/cancel", {"sessionId": {"secret-prompt": 1}})
    client.settle()
    assert "secret" not in client.stderr
    assert len(client.stderr) < 2000
