"""What a client hears while the disk hangs, fails, or is written by somebody else."""

import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from support.client import Client, RpcFailure
from support.script import use, written

AGENT = (sys.executable, str(Path(__file__).parent / "failing_disk.py"))


@pytest.fixture
def agent(start: Callable[..., Client], tmp_path: Path) -> Generator[Client]:
    script = written(tmp_path / "s.json", use("run_command", command="sleep 0.5", when="run"), otherwise="Hello.")
    client = start(script, command=AGENT, environment={"ACP_BRIDGE_MODE": "full"})
    client.initialize()
    yield client
    client.kill()  # its exit code tells of what was left unsaved, which is not the matter here


def test_a_close_during_a_write_that_hangs_is_answered_and_the_session_comes_back(
    agent: Client, tmp_path: Path
) -> None:
    session = agent.new_session(tmp_path)
    agent.prompted(session, "a")
    (agent.home / "hang").touch()
    prompt = agent.prompt(session, "b")
    time.sleep(0.3)
    params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
    close = agent.request("session/close", {"sessionId": session})
    load = agent.request("session/load", params)
    with pytest.raises(RpcFailure, match="-31002"):
        agent.result(prompt)
    for request in (close, load):
        with pytest.raises(RpcFailure, match="is being written"):
            agent.result(request, timeout_s=15)
    (agent.home / "hang").unlink()
    agent.call("session/load", params)
    assert agent.prompted(session, "c") == "end_turn"


def test_a_log_that_somebody_else_wrote_to_is_loaded_anew(agent: Client, tmp_path: Path) -> None:
    session = agent.new_session(tmp_path)
    agent.prompted(session, "a")
    log = agent.home / "sessions" / session / "log.jsonl"
    with log.open("ab") as file:
        file.write(b"# note\n")
    with pytest.raises(RpcFailure, match="-31002"):
        agent.prompted(session, "b")
    agent.call("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
    assert agent.prompted(session, "c") == "end_turn"


def test_a_session_that_cannot_be_saved_can_be_deleted(agent: Client, tmp_path: Path) -> None:
    session = agent.new_session(tmp_path)
    agent.prompted(session, "a")
    (agent.home / "eio").touch()
    with pytest.raises(RpcFailure, match="-31002"):
        agent.prompted(session, "b")
    (agent.home / "full").touch()
    assert agent.call("session/delete", {"sessionId": session}) == {}
    assert not (agent.home / "sessions" / session).exists()


@pytest.mark.parametrize("how", ["close", "load with other folders"])
def test_a_status_that_was_withheld_is_sent_when_the_close_has_saved_it(
    agent: Client, tmp_path: Path, how: str
) -> None:
    (tmp_path / "other").mkdir()
    session = agent.new_session(tmp_path)
    prompt = agent.prompt(session, "run")
    agent.update("tool_call_update", status="in_progress")
    (agent.home / "eio").touch()
    with pytest.raises(RpcFailure, match="-31002"):
        agent.result(prompt)
    (agent.home / "eio").unlink()
    mark = agent.mark
    if how == "close":
        agent.call("session/close", {"sessionId": session})
    else:
        agent.call("session/load", {"sessionId": session, "cwd": str(tmp_path / "other"), "mcpServers": []})
    updates = agent.updates(session, since=mark)
    assert [update["status"] for update in updates if update["sessionUpdate"] == "tool_call_update"] == ["completed"]


@pytest.mark.parametrize("method", ["session/load", "session/new"])
def test_the_end_of_the_input_does_not_wait_for_a_session_that_cannot_be_had_now(
    agent: Client, start: Callable[..., Client], tmp_path: Path, method: str
) -> None:
    session = agent.new_session(tmp_path)
    second = start(tmp_path / "s.json", command=AGENT)
    second.initialize()
    second.call("session/list", {})
    if method == "session/new":
        (agent.home / "hang").touch()
    params = {"cwd": str(tmp_path), "mcpServers": []}
    request = second.request(method, params | ({"sessionId": session} if method == "session/load" else {}))
    time.sleep(0.1)
    second.close_stdin()
    with pytest.raises(RpcFailure, match="-32600: the agent is ending"):
        second.result(request)
    assert second.wait() == 0
    (agent.home / "hang").unlink(missing_ok=True)
    assert agent.prompted(session, "the lock is where it was") == "end_turn"
