"""Agents in the test's own folder."""

from collections.abc import Generator
from pathlib import Path

import pytest
from support.lives import Start, agents


@pytest.fixture
def start(tmp_path: Path) -> Generator[Start]:
    with agents(tmp_path) as start:
        yield start


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "seed.txt").write_text("seed\n")
    return folder
