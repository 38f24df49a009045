"""The manifest is complete and true."""

import ast
import re
import runpy
from pathlib import Path

TESTS = Path(__file__).parents[1]
CITATION = re.compile(r"§9\.(\d+)")

MANIFEST = runpy.run_path(str(Path(__file__).with_name("requirements.py")))


def cited() -> dict[int, set[str]]:
    """Return the tests that cite a requirement in their docstring, by its number."""
    found: dict[int, set[str]] = {}
    for file in sorted([*TESTS.glob("acp/test_*.py"), *TESTS.glob("e2e/test_*.py")]):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for number in CITATION.findall(ast.get_docstring(node) or ""):
                    found.setdefault(int(number), set()).add(f"{file.parent.name}/{file.name}::{node.name}")
    return found


def test_the_manifest_names_exactly_the_tests_that_cite_each_requirement() -> None:
    """So that a test which is renamed, moved or dropped cannot leave a requirement without one unnoticed."""
    assert {number: set(tests) for number, tests in MANIFEST["COVERED"].items()} == cited()


def test_every_requirement_has_a_test_or_a_reason() -> None:
    """And none has both."""
    covered, reasons = set(MANIFEST["COVERED"]), set(MANIFEST["NOT_COVERED"])
    assert covered | reasons == set(range(1, MANIFEST["LAST"] + 1))
    assert not covered & reasons
    assert set(MANIFEST["IN_PART"]) <= covered
    assert all(len(words) > 20 for words in (*MANIFEST["NOT_COVERED"].values(), *MANIFEST["IN_PART"].values()))
