"""Scenarios as pytest's items: played, compared or rewritten, and what a failure reads like.

Owns what a run of one is, and when it is wrong. Imported by the plugin once there is a scenario to collect.
"""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from .play import RunResult, play
from .sandbox import make_sandbox
from .scenario import Scenario, ScenarioFault, read_scenario
from .snapshot import (
    consumption,
    differences,
    gaps,
    render,
    take_recording,
    write_expected,
    write_summaries,
)

_FOR_A_MODEL = re.compile(
    r"[A-Z]+_(?:API_KEY|BASE_URL)|OLLAMA_HOST|(?:HTTPS?|ALL|NO)_PROXY|SSL_CERT_\w+", re.IGNORECASE
)
"""What a live model may need of the surroundings; only a recording is given it."""


class ScenarioFile(pytest.File):
    """A `scenario.toml`."""

    def collect(self) -> Iterable[pytest.Item]:
        """Yield the scenario, named after its folder."""
        yield ScenarioItem.from_parent(self, name=self.path.parent.name)  # pyright: ignore[reportUnknownMemberType]


class Differs(Exception):
    """A run of a scenario is not what it should be; each argument says one thing."""


class ScenarioItem(pytest.Item):
    """One scenario as a test."""

    def runtest(self) -> None:
        """Play it, and compare or rewrite.

        Raises:
            ScenarioFault: the scenario is malformed.
            Differs: the run is not as it should be.
        """
        scenario = read_scenario(self.path)
        command = agent_command(str(self.config.getini("acp_snapshot_command")))
        match self.config.getoption("--acp-snapshots"):
            case "record":
                record(scenario, command, str(self.config.getoption("--acp-model")), os.environ)
                refresh(scenario, command)
            case "refresh":
                refresh(scenario, command)
            case _:
                replay(scenario, command)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Say what differs, what the scenario pins, and how to accept it."""
        del style
        if not isinstance(excinfo.value, Differs | ScenarioFault):
            return super().repr_failure(excinfo)
        said = "\n\n".join(str(argument) for argument in excinfo.value.args)
        here = self.path.parent
        return (
            f"{here.name}: {_about(self.path)}\n\n{said}\n\n"
            f"If the change is meant: pytest {_relative(here)} --acp-snapshots=refresh, then review the diff. "
            "A refresh accepts no broken 'expect'. The rules of comparison: acp_bridge/testing/normalization.py"
        )

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Name it as pytest's reports do."""
        return self.path, None, f"scenario {self.name}"


def agent_command(text: str) -> tuple[str, ...]:
    """Return the command line of the agent; a bare name is looked up where this Python's own commands are, too."""
    if not text:
        return sys.executable, "-m", "acp_bridge", "serve"
    program, *arguments = shlex.split(text)
    # a test run in a virtual environment that nobody activated has none of its commands on PATH
    beside = Path(sys.executable).parent / program
    found = shutil.which(program) or (str(beside) if beside.exists() else program)
    return found, *arguments


def replay(scenario: Scenario, command: tuple[str, ...]) -> None:
    """Play a scenario and compare.

    Raises:
        Differs: it is not as expected.
    """
    with make_sandbox(scenario) as sandbox:
        result = play(scenario, sandbox, command)
    said = [*_wrong(result, scenario, summaries=True)]
    if not (scenario.folder / "expected").is_dir():
        said.append("there is no expected/ yet: make it with --acp-snapshots=refresh")
    else:
        said += differences(render(result, scenario), scenario)
    if said:
        raise Differs(*said)


def refresh(scenario: Scenario, command: tuple[str, ...]) -> None:
    """Play a scenario and make what is expected what came out, if it is sound.

    Raises:
        Differs: an `expect` does not hold, or the run did what none may.
    """
    with make_sandbox(scenario) as sandbox:
        result = play(scenario, sandbox, command)
    if said := [*_wrong(result, scenario, summaries=False)]:
        raise Differs(*said, "nothing was rewritten")
    write_expected(render(result, scenario), scenario.folder)
    write_summaries(result, scenario)


def record(scenario: Scenario, command: tuple[str, ...], route: str, environ: Mapping[str, str]) -> None:
    """Play a scenario with a live model and keep its answers.

    Raises:
        Differs: an `expect` does not hold, or the run did what none may.
    """
    if not route:
        raise ScenarioFault("--acp-snapshots=record needs --acp-model=ROUTE")
    with make_sandbox(scenario) as sandbox:
        for path in sandbox.model.iterdir():
            path.unlink()
        env = {name: value for name, value in environ.items() if _FOR_A_MODEL.fullmatch(name)}
        result = play(scenario, sandbox, command, route=f"record:{sandbox.model}={route}", env=env)
        if result.faults:
            raise Differs(*result.faults, "nothing was recorded")
        take_recording(result, sandbox.model, scenario)


def _wrong(result: RunResult, scenario: Scenario, *, summaries: bool) -> Iterable[str]:
    yield from result.faults
    yield from consumption(result, scenario, summaries=summaries)
    yield from gaps(result)


def _about(path: Path) -> str:
    try:
        return read_scenario(path).about
    except ScenarioFault:
        return "malformed"


def _relative(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
