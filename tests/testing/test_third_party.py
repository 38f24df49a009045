"""An agent composed from public names, with a tool of its own, is tested by the same plugin."""

import ast
import importlib
import shlex
import sys
from pathlib import Path

from .pytest_runs import run_pytest

FOLDER = Path(__file__).with_name("third_party")


def test_an_agent_of_somebody_elses_is_pinned_by_scenarios() -> None:
    command = shlex.join([sys.executable, str(FOLDER / "agent.py")])
    run = run_pytest(FOLDER, "-o", f"acp_snapshot_command={command}", "--noconftest")
    assert run.returncode == 0, run.stdout
    assert "1 passed" in run.stdout


def test_it_is_composed_from_public_names_alone() -> None:
    tree = ast.parse((FOLDER / "agent.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("acp_bridge"):
            module = importlib.import_module(str(node.module))
            public = getattr(module, "__all__", None)
            for alias in node.names:
                assert not alias.name.startswith("_")
                assert public is None or alias.name in public


CONTRACT = """
import pytest
from acp_bridge.storage import MemoryStore
from acp_bridge.testing.store_contract import StoreContract

class TestMine(StoreContract):
    @pytest.fixture
    def anyio_backend(self):
        return "asyncio"

    @pytest.fixture
    def open_store(self):
        store = MemoryStore()
        return lambda: store
"""


def test_the_stores_contract_runs_in_a_project_that_configures_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(CONTRACT)
    run = run_pytest(tmp_path, "-q", "-W", "error")
    assert run.returncode == 0, run.stdout
    assert " passed" in run.stdout
