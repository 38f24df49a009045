"""The manifest is complete and true."""

import ast
import json
import re
import runpy
from pathlib import Path

TESTS = Path(__file__).parents[1]
CITATION = re.compile(r"\bR(\d+)\b")

MANIFEST = runpy.run_path(str(Path(__file__).with_name("requirements.py")))


def cited() -> dict[int, set[str]]:
    """Return the tests that cite a requirement in their docstring, by its number."""
    found: dict[int, set[str]] = {}
    for file in sorted(TESTS.glob("*/**/test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for number in CITATION.findall(ast.get_docstring(node) or ""):
                    found.setdefault(int(number), set()).add(f"{file.relative_to(TESTS).as_posix()}::{node.name}")
    return found


def test_the_manifest_names_exactly_the_tests_that_cite_each_requirement() -> None:
    """So that a test which is renamed, moved or dropped cannot leave a requirement without one unnoticed."""
    assert {number: set(tests) for number, tests in MANIFEST["COVERED"].items()} == cited()


def test_every_requirement_has_a_test_or_a_reason() -> None:
    """And none has both."""
    covered, reasons = set(MANIFEST["COVERED"]), set(MANIFEST["NOT_COVERED"])
    assert covered | reasons == set(MANIFEST["REQUIREMENTS"]) == set(range(1, MANIFEST["LAST"] + 1))
    assert not covered & reasons
    assert set(MANIFEST["IN_PART"]) <= covered
    assert all(len(words) > 20 for words in (*MANIFEST["NOT_COVERED"].values(), *MANIFEST["IN_PART"].values()))


def test_every_requirement_is_a_sentence_of_its_own_with_its_source() -> None:
    rows = MANIFEST["REQUIREMENTS"]
    assert not [number for number, row in rows.items() if not re.fullmatch(r"[A-Z`].{20,}\.", row.says)]
    assert len({row.says for row in rows.values()}) == len(rows)
    assert [number for number, row in rows.items() if row.source == MANIFEST["OURS"]] == [
        number for number, row in rows.items() if row.binding == "ours"
    ]


def test_a_definition_that_is_given_as_a_source_is_one_of_the_schemas() -> None:
    schema = json.loads((TESTS.parent / "fixtures" / "acp" / "v1.json").read_text())
    named = [
        name
        for row in MANIFEST["REQUIREMENTS"].values()
        for list_ in re.findall(r"schema: ([\w, ]+)", row.source)
        for name in list_.split(", ")
    ]
    assert named
    assert not set(named) - set(schema["$defs"])
