"""The pages beside the code say what is there: every path, name, command and rule on them, and every rule cited."""

import ast
import re
import runpy
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from acp_bridge.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
PAGES = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("ARCHITECTURE.md", "CONTRIBUTING.md")}
RULES = re.findall(r"^- \*\*([DS]\d+)\.\*\*", PAGES["ARCHITECTURE.md"], re.MULTILINE)
REQUIREMENTS = runpy.run_path(str(ROOT / "tests" / "acp" / "requirements.py"))["REQUIREMENTS"]

CITED = re.compile(r"\b([DSR]\d{1,2})\b")
SECTION = re.compile(
    r"(?<!JSON-RPC 2\.0 )(?<!RFC \d{4} )§|\b[Cc]ases? \d+[a-d]?\b|\b[Ss]ecurity \d|[\w-]+-sessions §|design §"
)
"""What points into a page by its number there, and not into the JSON-RPC specification or an RFC."""


@cache
def words() -> tuple[tuple[str, str], ...]:
    """Return what the files of package, tests and fixtures say in docstrings, comments and notes, by place."""
    return tuple(_words())


def _words() -> Iterator[tuple[str, str]]:
    for path in sorted([*ROOT.glob("acp_bridge/**/*.py"), *ROOT.glob("tests/**/*.py")]):
        text = path.read_text(encoding="utf-8")
        said = [line.partition("#")[2] for line in text.split("\n") if "# " in line]
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                said.append(ast.get_docstring(node) or "")
        yield path.relative_to(ROOT).as_posix(), "\n".join(said)
    for path in sorted(ROOT.glob("fixtures/snapshots/**/scenario.toml")):
        scenario = tomllib.loads(path.read_text(encoding="utf-8"))
        said = [str(part.get(key, "")) for part in (scenario, *scenario.get("step", ())) for key in ("about", "note")]
        yield path.relative_to(ROOT).as_posix(), "\n".join(said)


def test_the_rules_are_numbered_without_gaps_each_once() -> None:
    for letter in "DS":
        numbers = [int(rule[1:]) for rule in RULES if rule[0] == letter]
        assert numbers == list(range(1, len(numbers) + 1))
        assert numbers


def test_what_is_cited_is_a_rule_or_a_requirement_that_there_is() -> None:
    known = {*RULES, *(f"R{number}" for number in REQUIREMENTS)}
    cited = {(place, name) for place, said in (*words(), *PAGES.items()) for name in CITED.findall(said)}
    assert not sorted((place, name) for place, name in cited if name not in known)
    assert len({name for _, name in cited}) > 100


def test_nothing_points_into_a_page_that_a_reader_does_not_have() -> None:
    said_by = (*words(), *PAGES.items())
    assert not [(place, found[0]) for place, said in said_by if (found := SECTION.search(said))]


@pytest.mark.parametrize("said", ["§9.55 M: x", "Case 12: x", "of the log (x-sessions §5)", "Abuse cases 9 and 10."])
def test_a_planted_pointer_is_seen(said: str) -> None:
    assert SECTION.search(said)


@pytest.mark.parametrize("said", ["JSON-RPC 2.0 §5.1", "RFC 8259 §6", "in any case 3 are left"[:11]])
def test_a_public_specification_may_be_cited_by_section(said: str) -> None:
    assert not SECTION.search(said)


@pytest.mark.parametrize("page", PAGES)
def test_every_path_on_a_page_is_there(page: str) -> None:
    names = re.findall(
        r"[`(]((?:\.ci|acp_bridge|tests|fixtures)/[\w./-]*|[A-Z]+\.md|LICENSE|pyproject\.toml)", PAGES[page]
    )
    assert len(names) > 10
    assert not [name for name in names if not (ROOT / name).exists()]


def test_the_layers_are_drawn_as_they_are_checked() -> None:
    [contract] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    table = PAGES["ARCHITECTURE.md"].partition("| layer | owns |\n")[2].partition("\n\n")[0]
    drawn = [set(re.findall(r"`(\w+)`", row.split("|")[1])) for row in table.splitlines()[1:]]
    assert drawn == [set(re.findall(r"\w+", row)) for row in contract["layers"]]


@pytest.mark.parametrize("page", PAGES)
def test_every_name_on_a_page_is_in_the_code(page: str) -> None:
    """`Class.method`, `Class`, `CONSTANT` and `"CODE"`; what is written small is an event, a path or a command."""
    known = names_in_the_code()
    named = [name for name in re.findall(r"`([A-Z]\w+(?:\.\w+)?)`", PAGES[page]) if not (ROOT / name).exists()]
    assert len(named) > 5
    assert not [name for name in named if name not in known]


@cache
def names_in_the_code() -> frozenset[str]:
    """Return what package and manifest define or import, members as `Class.member`, and words in capitals."""
    return frozenset(_names())


def _names() -> Iterator[str]:
    for path in [*ROOT.glob("acp_bridge/**/*.py"), ROOT / "tests" / "acp" / "requirements.py"]:
        text = path.read_text(encoding="utf-8")
        yield from re.findall(r'"([A-Z_]+)"', text)
        for node in ast.parse(text).body:
            yield from _named(node)
            if isinstance(node, ast.ClassDef):
                yield from (f"{node.name}.{member}" for inner in node.body for member in _named(inner))


def _named(node: ast.stmt) -> list[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.ImportFrom(names=imported):
            return [alias.name for alias in imported]
        case _:
            return []


@pytest.mark.parametrize("page", PAGES)
def test_every_command_on_a_page_can_be_run(page: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    brought = " ".join(project["optional-dependencies"]["dev"] + project["optional-dependencies"]["test"])
    for block in re.findall(r"```sh\n(.*?)```", PAGES[page], re.DOTALL):
        for line in filter(None, block.splitlines()):
            program, *arguments = line.split("#")[0].split()
            if program == "acp-bridge":
                assert arguments[0] in COMMANDS
            elif program == "python":
                assert arguments[:2] == ["-m", "pytest"] or (ROOT / arguments[0]).exists(), line
            elif program not in ("python3", ".venv/bin/pip", "source"):
                linter = "import-linter" if program == "lint-imports" else program
                assert linter in brought or (ROOT / program).exists(), line
            for argument in arguments:
                path = argument.partition("::")[0]
                if path.startswith(("tests/", "fixtures/")):
                    assert (ROOT / path).exists(), line


def test_the_license_is_the_one_that_is_declared_and_goes_into_what_is_shipped() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "MIT"
    assert project["license-files"] == ["LICENSE"]
    assert (ROOT / "LICENSE").read_text().startswith("MIT License\n")


def test_the_newest_version_that_is_told_of_is_the_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    told = re.findall(r"^## \[?([\w.]+)\]?", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert told[0] == "Unreleased"
    assert told[1] == project["version"]
