"""A provider's key is sent to its provider and is nowhere else: known by its value, wherever it turns up."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.client import Client, clean_environment
from support.dialects import KEY
from support.provider import Asked, Payloads, asked_of, calls, environment, provider, text
from support.script import say, use, use_all, written
from support.server import Reply, status

from .conftest import Start, TakeTurn

TOKEN = "ghp_0123456789abcdefghij"
OTHER = "sk-ant-another-0123456789"
ENVIRONMENT = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": OTHER, "GITHUB_TOKEN": TOKEN, "MY_OWN_SETTING": "visible"}
SECRETS = (KEY, OTHER, TOKEN)


def kept(client: Client) -> str:
    """Return all that is on the disk below the program's folder, but for whole outputs, which are kept as they came."""
    files = [path for path in client.home.rglob("*") if path.is_file() and "spill" not in path.parts]
    return "\n".join(path.read_bytes().decode(errors="replace") for path in files)


def shown(client: Client) -> str:
    return json.dumps(client.received, ensure_ascii=False) + client.stderr


def assert_hidden(text: str) -> None:
    for secret in SECRETS:
        assert secret not in text


def test_a_command_sees_no_key_no_token_and_no_unlisted_variable(take_turn: TakeTurn) -> None:
    """S7."""
    turn = take_turn(use("run_command", command="env; cat /proc/$$/environ"), mode="full", environment=ENVIRONMENT)
    [told] = turn.told()
    assert "PATH=" in told
    for name, value in ENVIRONMENT.items():
        assert name not in told
        assert value not in told
    assert "ACP_BRIDGE" not in told


@pytest.mark.cold_start  # the kernel shows the environment that a program was executed with
def test_the_agents_own_environment_read_by_a_command_shows_no_key(take_turn: TakeTurn) -> None:
    """S7, S8: a command runs as the user, so it can look; what it finds is taken out of what it says."""
    find = "for f in /proc/[0-9]*/environ; do tr '\\0' '\\n' < $f 2>/dev/null; done | grep -a -e KEY -e TOKEN; true"
    turn = take_turn(use("run_command", command=find), mode="full", environment=ENVIRONMENT)
    assert "OPENAI_API_KEY=[OPENAI_API_KEY]" in turn.told()[0]
    assert_hidden(shown(turn.client) + kept(turn.client))


def test_a_key_in_a_tools_output_is_taken_out_before_it_is_logged_or_shown(take_turn: TakeTurn, project: Path) -> None:
    """S8: by every tool, in results, diffs, passing output and errors."""
    (project / "leak.txt").write_text(f"a {KEY} b {OTHER}\n{TOKEN}")
    (project / "slow.sh").write_text(f"echo {KEY}; sleep 0.4; echo {TOKEN} >&2; exit 3")
    (project / f"{TOKEN}.txt").write_text("x")
    turn = take_turn(
        use_all(
            ("read_file", {"path": "leak.txt"}),
            ("search_files", {"pattern": "a .*"}),
            ("list_files", {}),
            ("run_command", {"command": "sh slow.sh"}),
            ("run_command", {"command": 'cat leak.txt; yes "$(cat leak.txt)" | head -n 20000'}),
            ("edit_file", {"path": "leak.txt", "old_text": "a ", "new_text": "the "}),
        ),
        mode="full",
        environment={**ENVIRONMENT, "ACP_BRIDGE_LOG": "debug"},
    )
    assert turn.reason == "end_turn"
    told = turn.told()
    assert "a [OPENAI_API_KEY] b [ANTHROPIC_API_KEY]" in told[0]
    assert "[OPENAI_API_KEY]" in told[3]
    assert "[GITHUB_TOKEN]" in told[3]
    assert_hidden(shown(turn.client))
    assert_hidden(kept(turn.client))
    assert (project / "leak.txt").read_text() == f"the {KEY} b {OTHER}\n{TOKEN}"  # the file itself is as it should be


@pytest.mark.parametrize("code", [400, 401, 500])
def test_a_providers_error_that_repeats_the_key_is_told_without_it(
    start: Start, tmp_path: Path, project: Path, code: int
) -> None:
    """S8: in the answer, the log and stderr, at the most talkative level."""
    body = {"error": {"message": f"Incorrect key provided: {KEY}. \x1b[2J{TOKEN}", "code": "invalid_api_key"}}

    def refuse(asked: Asked) -> Payloads | Reply:
        del asked
        return status(code, body)

    talkative = {"ACP_BRIDGE_LOG": "debug", "ACP_BRIDGE_AGENT_MAX_ATTEMPTS": "1"}
    with provider(refuse) as server:
        client = start(environment={**ENVIRONMENT, **environment(server, **talkative)})
        client.initialize()
        session = client.new_session(project)
        error = client.answer(client.prompt(session, "hi"))
        assert "Incorrect key provided" in str(error)
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        client.close_stdin()
        client.wait()
    assert KEY not in shown(client) + kept(client)
    assert "\x1b" not in error["error"]["message"] + str(error["error"].get("data", "")) + client.stderr


def test_no_key_is_in_any_argument_of_a_process(start: Start, tmp_path: Path, project: Path) -> None:
    """S8: argv of the agent, the guard and the command."""
    look = "cat /proc/$$/cmdline /proc/$PPID/cmdline | tr '\\0' ' '"

    def work(asked: Asked) -> Payloads:
        return text("done") if asked.step else calls(("run_command", {"command": look}))

    with provider(work) as server:
        mode = {"ACP_BRIDGE_MODE": "full"}
        client = start(environment={**ENVIRONMENT, **environment(server, **mode)})
        client.initialize()
        client.prompted(client.new_session(project), "go")
        [result] = asked_of(server)[1].results
        assert "_guardian.py" in result
        assert "API_KEY" not in result  # neither the value nor what stands in its place
        assert KEY.encode() not in Path(f"/proc/{client.process.pid}/cmdline").read_bytes()


def test_a_headless_run_shows_no_key(tmp_path: Path, project: Path) -> None:
    """S8: the same parts, the same promise."""
    (project / "leak.txt").write_text(KEY)
    script = written(tmp_path / "s.json", use("read_file", path="leak.txt"), say("done"))
    run = subprocess.run(
        [sys.executable, "-m", "acp_bridge", "run", "--json", "--cwd", str(project), "go"],
        env=clean_environment(tmp_path / "home", f"scripted:{script}", ENVIRONMENT),
        capture_output=True,
        cwd=tmp_path,
        timeout=30,
    )
    assert run.returncode == 0, run.stderr
    assert b"[OPENAI_API_KEY]" in run.stdout
    assert KEY.encode() not in run.stdout + run.stderr


def test_what_is_too_short_to_be_a_secret_is_left_alone(take_turn: TakeTurn, project: Path) -> None:
    (project / "a.txt").write_text("one true two\n")
    turn = take_turn(use("read_file", path="a.txt"), environment={"MY_TOKEN": "true", "X_PASSWORD": ""})
    assert "one true two" in turn.told()[0]
    assert os.environ.get("MY_TOKEN") is None
