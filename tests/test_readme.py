"""What the README, and the page beside the examples, say is what the program does."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from acp_bridge.cli.main import COMMANDS
from acp_bridge.cli.run import EXIT_CODES
from acp_bridge.config import KEYS, load
from acp_bridge.limits import TABLE
from acp_bridge.llm import PRESETS, parse_route
from acp_bridge.testing.items import refresh, replay
from acp_bridge.testing.scenario import read_scenario
from acp_bridge.tools import MODES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = (ROOT / "fixtures" / "examples" / "README.md").read_text(encoding="utf-8")


def block(name: str, page: str = README) -> str:
    """Return the fenced block that follows the comment `<!-- example: NAME -->`."""
    found = re.search(rf"<!-- example: {name} -->\n```\w+\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1]


def test_every_command_that_is_named_is_there() -> None:
    named = set(re.findall(r"acp-bridge (\w+)", README)) - {"is"}
    assert named <= set(COMMANDS)
    assert {"serve"} | named == set(COMMANDS)


def test_every_editor_that_is_named_can_be_set_up(capsys: pytest.CaptureFixture[str]) -> None:
    from acp_bridge.cli.setup import main

    for editor in re.findall(r"`acp-bridge setup ([a-z-]+)`", README):
        assert main([editor]) == 0
        assert capsys.readouterr().out


def test_every_variable_that_is_named_is_a_setting() -> None:
    known = {"ACP_BRIDGE_" + key.upper().replace(".", "_") for key in KEYS} | {"ACP_BRIDGE_CONFIG"}
    assert set(re.findall(r"ACP_BRIDGE_[A-Z_]*[A-Z]", README)) <= known
    keys = {preset.key_variable for preset in PRESETS.values() if preset.needs_key}
    assert keys <= set(re.findall(r"[A-Z]+_API_KEY", README))


def test_every_provider_is_named_and_every_route_that_is_named_can_be_parsed() -> None:
    table = README.split("## Models")[1].split("## Modes")[0]
    assert set(PRESETS) <= set(re.findall(r"`(\w+)`", table))
    for route in re.findall(r"`(\w+:[\w./-]+)`", table):
        if route != "provider:model":
            parse_route(route)


def test_the_limits_are_those_that_there_are() -> None:
    table = README.split("<!-- limits -->")[1].split("<!-- /limits -->")[0]
    assert [line for line in table.splitlines() if line.startswith("| ")][1:] == [str(limit) for limit in TABLE]


def test_the_modes_are_those_that_there_are() -> None:
    table = README.split("## Modes")[1].split("##")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == list(MODES)


def test_the_exit_codes_are_those_of_run() -> None:
    sentence = re.search(r"Its exit code tells\s+how it ended: (.*?)\.\n", README, re.DOTALL)
    assert sentence is not None
    said = {int(code) for code in re.findall(r"(\d+) (?!\+)[a-z]", sentence[1])}
    assert said == {0, 1, 2, 3, 4, 5, 6} == set(EXIT_CODES.values()) | {2}


def test_the_configuration_that_is_shown_is_valid_and_says_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(block("config"))
    config = load({"ACP_BRIDGE_CONFIG": str(path)})
    assert config.model == tomllib.loads(block("config"))["model"]


def test_the_program_that_is_shown_imports_names_that_there_are() -> None:
    tree = ast.parse(block("headless"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = __import__(node.module or "", fromlist=[alias.name for alias in node.names])
            assert all(hasattr(module, alias.name) for alias in node.names)


def test_nobody_is_told_to_install_the_name_that_is_somebody_elses() -> None:
    assert not re.search(r"(pip install|uvx|pipx install)\s+['\"]?acp-bridge\b", README)


def test_the_figures_are_those_that_the_tests_hold() -> None:
    """The counts that a run asserts stand in the tests; what was counted by hand is in the closing table of a run."""
    figures = README.split("<!-- figures -->")[1].split("<!-- /figures -->")[0]
    images = Path(__file__).parent / "crash" / "test_images.py"
    assert "10,000 at least" in figures
    assert "judged >= 10_000" in images.read_text()
    from crash.test_mutants import MUTANTS

    assert f"{len(MUTANTS)} of {len(MUTANTS)}" in figures


def test_the_scenario_that_is_shown_passes(shown_scenario: Path) -> None:
    command = (sys.executable, "-m", "acp_bridge", "serve")
    refresh(read_scenario(shown_scenario), command)
    replay(read_scenario(shown_scenario), command)


@pytest.mark.slow
def test_the_scenario_that_is_shown_passes_in_a_run_of_pytest(shown_scenario: Path, tmp_path: Path) -> None:
    assert shown_scenario.is_relative_to(tmp_path / "snapshots")
    pytest_ = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), str(tmp_path / "snapshots")]
    for mode in ("refresh", "replay"):
        shown = subprocess.run([*pytest_, f"--acp-snapshots={mode}"], capture_output=True, text=True, cwd=tmp_path)
        assert shown.returncode == 0, shown.stdout
    assert "1 passed" in shown.stdout


@pytest.fixture
def shown_scenario(tmp_path: Path) -> Path:
    """The scenario of the page on examples, with the model's answers beside it."""
    folder = tmp_path / "snapshots" / "greets"
    (folder / "model").mkdir(parents=True)
    (folder / "scenario.toml").write_text(block("scenario", EXAMPLES))
    answers = re.findall(
        r"`(\{.*?\})`", EXAMPLES.split("The model's answers lie beside it")[1].split("Name an agent")[0]
    )
    for place, answer in enumerate(answers, 1):
        (folder / "model" / f"{place:04}.json").write_text(answer)
    return folder / "scenario.toml"


def test_the_number_of_snapshots_is_right() -> None:
    said = re.search(r"<!-- scenarios -->(\d+)<!-- /scenarios -->", README)
    assert said is not None
    snapshots = Path(__file__).parent.parent / "fixtures" / "snapshots"
    assert int(said[1]) == len(list(snapshots.rglob("scenario.toml")))
