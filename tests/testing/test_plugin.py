"""The plugin as a user's suite has it: what passes, what fails and how it is said, and whom it leaves alone."""

import json
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.testing.items import Differs, agent_command, refresh, replay
from acp_bridge.testing.scenario import ScenarioFault, read_scenario

from .pytest_runs import run_pytest

pytestmark = pytest.mark.slow


LIBRARY = Path(__file__).parents[2] / "fixtures" / "snapshots"
AGENT = (sys.executable, "-m", "acp_bridge", "serve")

HELLO = """
about = "a greeting is answered"

[[step]]
do = "initialize"

[[step]]
do = "new"

[[step]]
do = "prompt"
text = "Hello"
expect = { stop_reason = "end_turn", text = "Hi." }
"""


def made(folder: Path, text: str = HELLO, *answers: dict[str, Any]) -> Path:
    """Write a scenario; its model says "Hi." if nothing else is given."""
    (folder / "model").mkdir(parents=True)
    (folder / "scenario.toml").write_text(textwrap.dedent(text))
    for place, answer in enumerate(answers or ({"text": "Hi."},), 1):
        (folder / "model" / f"{place:04}.json").write_text(json.dumps(answer))
    return folder / "scenario.toml"


def refused(path: Path, command: tuple[str, ...] = AGENT, *, fresh: bool = True) -> str:
    """Return what a scenario that must not pass is told."""
    with pytest.raises(Differs) as told:
        (refresh if fresh else replay)(read_scenario(path), command)
    return "\n".join(map(str, told.value.args))


# --- the three modes ---


def test_a_scenario_is_refreshed_and_then_passes_and_a_change_is_shown_as_a_diff(tmp_path: Path) -> None:
    path = made(tmp_path / "hello")
    first = run_pytest(tmp_path)
    assert "there is no expected/ yet" in first.stdout
    assert "--acp-snapshots=refresh" in first.stdout
    assert run_pytest(tmp_path, "--acp-snapshots=refresh").returncode == 0
    assert run_pytest(tmp_path).returncode == 0
    frames = path.parent / "expected" / "frames.txt"
    frames.write_text(frames.read_text().replace("Hi.", "Ho."))
    changed = run_pytest(tmp_path)
    assert changed.returncode == 1
    assert "a greeting is answered" in changed.stdout
    assert "frames.txt is not as expected" in changed.stdout
    assert "\n-< " in changed.stdout
    assert "\n+< " in changed.stdout


def test_a_refresh_accepts_no_broken_expectation_and_rewrites_nothing(tmp_path: Path) -> None:
    path = made(tmp_path, HELLO.replace('text = "Hi."', 'text = "Good evening"'))
    assert "the agent should say 'Good evening'" in refused(path)
    assert not (tmp_path / "expected").exists()


def test_a_recording_of_a_model_replays(tmp_path: Path) -> None:
    path = made(tmp_path / "suite" / "hello", HELLO.replace('text = "Hi."', 'text = "From the live one."'))
    (path.parent / "model" / "0001.json").unlink()
    script = tmp_path / "live.json"
    script.write_text(json.dumps({"answers": [{"text": "From the live one."}], "context_window": 4096}))
    run = run_pytest(path.parent, "--acp-snapshots=record", f"--acp-model=scripted:{script}")
    assert run.returncode == 0, run.stdout
    script.unlink()
    replay(read_scenario(path), AGENT)
    assert json.loads((path.parent / "model" / "model.json").read_text())["context_window"] == 4096
    answer = json.loads((path.parent / "model" / "0001.json").read_text())
    assert answer["request"] == {"messages": 1, "last_message": "Hello"}


def test_a_recording_needs_a_model_on_purpose(tmp_path: Path) -> None:
    made(tmp_path)
    assert "needs --acp-model" in run_pytest(tmp_path, "--acp-snapshots=record").stdout


def test_a_key_in_the_environment_reaches_no_agent(tmp_path: Path) -> None:
    made(
        tmp_path,
        """
        about = "the environment is made from nothing"

        [agent]
        ACP_BRIDGE_MODE = "full"
        ACP_BRIDGE_COMMANDS_ENV = "OPENAI_API_KEY,ACP_BRIDGE_MODEL"

        [[step]]
        do = "initialize"

        [[step]]
        do = "new"

        [[step]]
        do = "prompt"
        text = "env"
        expect = { request_contains = "key:none", no_request_contains = "sk-stray" }
        """,
        {"tools": [{"name": "run_command", "arguments": {"command": "echo key:${OPENAI_API_KEY:-none}"}}]},
        {"text": "None."},
    )
    stray = {"OPENAI_API_KEY": "sk-stray", "ACP_BRIDGE_MODEL": "openai:gpt-5", "ACP_BRIDGE_MODE": "plan"}
    run = run_pytest(tmp_path, "--acp-snapshots=refresh", environment=stray)
    assert run.returncode == 0, run.stdout


# --- what no run may do ---


def test_too_few_answers_fail(tmp_path: Path) -> None:
    path = made(tmp_path, HELLO, {"tools": [{"name": "list_files", "arguments": {}}], "text": "Hi."})
    assert "model request 2 has no answer in the recording" in refused(path)


def test_too_many_answers_fail(tmp_path: Path) -> None:
    assert "model/0002.json was never asked for" in refused(made(tmp_path, HELLO, {"text": "Hi."}, {"text": "More."}))


def test_an_unknown_tool_in_the_recording_fails(tmp_path: Path) -> None:
    answers = ({"text": "Hi.", "tools": [{"name": "fly", "arguments": {}}]}, {"text": "No."})
    assert "0001.json asks for 'fly', which is no tool of this agent" in refused(made(tmp_path, HELLO, *answers))


def test_a_request_that_is_not_the_recorded_one_fails(tmp_path: Path) -> None:
    path = made(tmp_path)
    refresh(read_scenario(path), AGENT)
    path.write_text(path.read_text().replace('"Hello"', '"Hullo"'))
    assert "answers a request with last_message 'Hello'; this one has 'Hullo'" in refused(path, fresh=False)


def test_an_orphan_in_the_folder_fails(tmp_path: Path) -> None:
    path = made(tmp_path)
    (tmp_path / "expected").mkdir()
    (tmp_path / "expected" / "frames.old").touch()
    with pytest.raises(ScenarioFault, match=r"'expected/frames\.old' belongs to nothing"):
        read_scenario(path)


def test_a_line_that_is_no_message_and_an_unanswered_request_fail(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text("import sys\nprint('hello', flush=True)\nsys.stdin.readline()\n")
    path = made(tmp_path / "one", HELLO)
    said = refused(path, (sys.executable, str(agent)))
    assert "a line on stdout is no JSON-RPC message: b'hello'" in said
    assert "waited for the answer of request 1 (initialize): the agent has ended" in said


def test_a_prepared_answer_that_nobody_asks_for_fails(tmp_path: Path) -> None:
    path = made(tmp_path, HELLO.replace('text = "Hello"', 'text = "Hello"\nanswers = ["allow_once"]'))
    assert "nobody asked for the prepared answers ['allow_once']" in refused(path)


def test_a_question_without_a_prepared_answer_fails(tmp_path: Path) -> None:
    path = made(tmp_path, HELLO, {"tools": [{"name": "run_command", "arguments": {"command": "ls"}}], "text": "Hi."})
    assert "a permission question has no prepared answer: 'ls'" in refused(path)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (('do = "new"', 'do = "mew"'), "did you mean 'new'"),
        (('text = "Hello"', 'txt = "Hello"'), "did you mean 'text'"),
        (("stop_reason =", "stop_raison ="), "did you mean 'stop_reason'"),
        (("expect =", 'note = ""\nexpect2 ='), "unknown key 'expect2'"),
        (('expect = { stop_reason = "end_turn", text = "Hi." }', ""), "nothing is expected"),
        (('about = "a greeting is answered"', ""), "'about' must say"),
        (("[[step]]", '[agent]\nOPENAI_API_KEY = "sk"\n[[step]]'), "no key belongs into a scenario"),
        (("[[step]]", '[agent]\nACP_BRIDGE_MODEL = "openai:gpt-5"\n[[step]]'), "the model is the recording"),
    ],
)  # fmt: skip
def test_a_malformed_scenario_is_told_with_the_nearest_word(tmp_path: Path, change: tuple[str, str], word: str) -> None:
    path = made(tmp_path, HELLO.replace(*change, 1))
    with pytest.raises(ScenarioFault) as told:
        read_scenario(path)
    assert word in str(told.value)


# --- whom it leaves alone ---


def test_a_file_of_that_name_that_is_no_scenario_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text('title = "of another program"\n')
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n")
    run = run_pytest(tmp_path, "-W", "error")
    assert "1 passed" in run.stdout
    assert run.returncode == 0


def test_loading_it_imports_nothing_that_pytest_has_not() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); "
        "import acp_bridge.testing.plugin; print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == ["acp_bridge", "acp_bridge.testing", "acp_bridge.testing.plugin"]


def test_all_that_the_package_offers_can_be_had() -> None:
    import acp_bridge.testing as offered

    assert all(getattr(offered, name).__name__ == name for name in offered.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = offered.no_such_name  # pyright: ignore[reportAttributeAccessIssue]


def test_the_command_is_found_as_a_shell_would_or_beside_this_python() -> None:
    assert agent_command("") == AGENT
    assert agent_command(shlex.join(["/bin/sh", "-c", "a b"])) == ("/bin/sh", "-c", "a b")
    assert Path(agent_command("acp-bridge serve")[0]).name == "acp-bridge"
    assert agent_command("no-such-program x") == ("no-such-program", "x")


# --- two runs ---


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "tools/side_by_side",
        "tools/large_output",
        "recovery/one_of_three",
        "recovery/interrupted_text",
        "stops/cancelled_in_a_command",
        "protocol/two_sessions",
        "editors/zed",
        "failures/retried",
    ],
)
def test_two_runs_of_one_scenario_are_equal_byte_for_byte(name: str) -> None:
    scenario = read_scenario(LIBRARY / name / "scenario.toml")
    for _ in range(2):
        replay(scenario, AGENT)
