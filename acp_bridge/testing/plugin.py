"""The pytest plugin: every folder with a `scenario.toml` is a test that replays it.

Owns the options. It is loaded into every run of pytest where this package is installed: it imports nothing but what
pytest has imported, and leaves every file alone that is no scenario. What a scenario is, `items` knows.

    pytest                                              replay: no key, no network, no clock
    pytest PATH --acp-snapshots=refresh                 replay, and make `expected/` what came out
    pytest PATH --acp-snapshots=record --acp-model=ROUTE    ask a live model, keep its answers, then refresh

Ini option `acp_snapshot_command`: the agent to start, as a shell would be told; default is this package's own.
"""

import re
from pathlib import Path

import pytest

_MODES = ("replay", "record", "refresh")
_STEP = re.compile(r"^\[\[step\]\]", re.MULTILINE)  # other tools have a `scenario.toml`, too


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("acp-bridge", "ACP snapshots")
    group.addoption(
        "--acp-snapshots",
        choices=_MODES,
        default="replay",
        help="what scenario.toml does: replay and compare (default), refresh what is expected, record a live model",
    )
    group.addoption("--acp-model", default="", metavar="ROUTE", help="the model to record, e.g. openai:gpt-5")
    parser.addini(
        "acp_snapshot_command", "the agent that scenarios are played against, as a shell would be told", default=""
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a scenario."""
    if file_path.name != "scenario.toml" or not _STEP.search(file_path.read_text(encoding="utf-8", errors="replace")):
        return None
    from .items import ScenarioFile  # here, since most runs of pytest have no scenario

    return ScenarioFile.from_parent(parent, path=file_path)  # pyright: ignore[reportUnknownMemberType]
