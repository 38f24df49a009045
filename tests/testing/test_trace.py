"""A traced conversation is a scenario that replays, without the secrets that went through it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from acp_bridge.errors import ConfigError
from acp_bridge.testing import begin_trace
from acp_bridge.testing.items import replay
from acp_bridge.testing.play import play
from acp_bridge.testing.sandbox import make_sandbox
from acp_bridge.testing.scenario import read_scenario

pytestmark = pytest.mark.slow


LIBRARY = Path(__file__).parents[2] / "fixtures" / "snapshots"
AGENT = (sys.executable, "-m", "acp_bridge", "serve")


def traced(name: str, folder: Path, **env: str) -> None:
    """Play a scenario of the library against an agent that traces it."""
    scenario = read_scenario(LIBRARY / name / "scenario.toml")
    with make_sandbox(scenario) as sandbox:
        played = play(scenario, sandbox, (sys.executable, "-m", "acp_bridge", "serve", "--trace", str(folder)), env=env)
    faults = [fault for fault in played.faults if "never asked" not in fault]
    assert not faults, faults


@pytest.mark.parametrize(
    "name",
    [
        "tools/edit_file",
        "permissions/edit_mode",
        "stops/cancelled_in_text",
        "failures/broken_stream",
    ],
)
def test_a_traced_conversation_replays(name: str, tmp_path: Path) -> None:
    traced(name, tmp_path / "trace")
    replay(read_scenario(tmp_path / "trace" / "scenario.toml"), AGENT)


def test_no_secret_is_in_a_trace(tmp_path: Path) -> None:
    traced("tools/edit_file", tmp_path / "trace", OPENAI_API_KEY="Make it two")
    for path in (tmp_path / "trace").rglob("*"):
        assert not path.is_file() or "Make it two" not in path.read_text(), path
    assert "<secret>" in (tmp_path / "trace" / "trace.txt").read_text()


def test_a_trace_writes_into_no_folder_that_holds_something(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(ConfigError, match="is not empty"):
        begin_trace(tmp_path, home=tmp_path, route="demo", environ={})


@pytest.mark.cold_start
def test_a_killed_agents_trace_can_be_finished_later(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    scenario = read_scenario(LIBRARY / "recovery" / "killed_behind_the_answer" / "scenario.toml")
    first = replace(scenario, steps=scenario.steps[:4])
    with make_sandbox(first) as sandbox:
        play(first, sandbox, (sys.executable, "-m", "acp_bridge", "serve", "--trace", str(folder)))
        assert not (folder / "scenario.toml").exists()
        subprocess.run([sys.executable, "-m", "acp_bridge.testing", str(folder)], check=True, timeout=30)
    replay(read_scenario(folder / "scenario.toml"), AGENT)
