"""The architecture as it shows: faces, sizes, and what start-up may import."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import acp_bridge

ROOT = Path(acp_bridge.__file__).parent
PACKAGES = sorted(path.name for path in ROOT.iterdir() if (path / "__init__.py").exists())
HEAVY = ("pydantic", "openai", "anthropic", "mcp", "httpx", "rich", "platformdirs", "argparse")

FACES_BY_PARTS = {
    "acp": {"inbound", "outbound"},  # `acp`'s face is what `initialize` needs; see its docstring
    "bridge": {"bridge"},  # imported by the warm-up; see its docstring
    "session": {"codec", "events", "store", "transcript", "journal", "log", "policy", "repair", "sessions"},
}
"""Submodules that others may name: those that may not be imported with their package's face, or that define a port."""


@cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    return tuple(
        (path.relative_to(ROOT.parent).with_suffix("").as_posix().replace("/", "."), ast.parse(path.read_text()))
        for path in sorted(ROOT.rglob("*.py"))
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_lists_names_that_it_has(package: str) -> None:
    module = importlib.import_module(f"acp_bridge.{package}")
    assert module.__doc__, f"{package} does not say what it owns"
    missing = [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)]
    assert not missing


def test_every_module_says_what_it_is() -> None:
    silent = [name for name, tree in modules() if not ast.get_docstring(tree)]
    assert not silent


def test_layers_import_only_what_a_face_shows() -> None:
    past_a_face: list[str] = []
    for name, tree in modules():
        own = name.split(".")[1] if "." in name else ""
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or node.level or not (node.module or "").startswith("acp_bridge."):
                continue
            _, package, *inner = (node.module or "").split(".")
            if inner and package != own and inner[0] not in FACES_BY_PARTS.get(package, set()):
                past_a_face.append(f"{name} imports {node.module}")
    assert not past_a_face


def test_start_up_imports_nothing_heavy() -> None:
    probe = f"import sys, acp_bridge.cli.serve; print([n for n in {HEAVY!r} if n in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=30)
    assert shown.stdout.strip() == "[]"


def test_sizes_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Modules over 300 lines and functions over 60 are listed, each worth a look for the second noun in it."""
    large: list[str] = []
    for name, tree in modules():
        lines = max((getattr(node, "end_lineno", 0) or 0 for node in tree.body), default=0)
        if lines > 300:
            large.append(f"{name}: {lines} lines")
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                length = node.end_lineno - node.lineno + 1
                if length > 60:
                    large.append(f"{name}.{node.name}: {length} lines")
    with capsys.disabled():
        print("\n" + "\n".join(f"  large: {line}" for line in large) if large else "")


def test_the_modules_that_are_run_can_be_imported() -> None:
    for info in pkgutil.walk_packages([str(ROOT)], "acp_bridge."):
        if not info.name.endswith(("__main__", "_guardian")):
            importlib.import_module(info.name)
