"""The kill table as a test, and the proof that it would be red."""

from pathlib import Path

import pytest
from crash.kills.faults import FAULTS
from crash.kills.judge import Verdicts
from crash.kills.killing import killed
from crash.kills.table import written


@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_nothing_is_lost_or_run_twice_however_often_the_agent_is_killed(tmp_path: Path, kills: int) -> None:
    verdicts = killed(kills, tmp_path, seed=kills, jobs=2)
    assert verdicts.clean, written(verdicts, "")
    assert sum(verdicts.kills.values()) == kills


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_the_table_is_red_for_a_planted_fault(tmp_path: Path, fault: str) -> None:
    """A fault shows by chance, so it gets a few tries."""
    points, columns = FAULTS[fault]
    verdicts = Verdicts()
    for attempt in range(3):
        verdicts = killed(8, tmp_path / str(attempt), seed=attempt, jobs=2, fault=fault, points=points)
        if any(verdicts.found[column] for column in columns):
            return
    raise AssertionError(f"{fault} was not seen in {columns}:\n{written(verdicts, '')}")
