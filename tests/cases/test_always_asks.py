"""What asks always: what editors, shells, agents, build services and interpreters run or obey by themselves."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.agent import workspace_of
from acp_bridge.session import Place
from acp_bridge.tools import Access, Workspace, builtin_tools
from acp_bridge.tools import always_ask as always_ask_module
from acp_bridge.tools.always_ask import TABLE, UNREAD, own_code
from acp_bridge.tools.permission import decide, options_for

TOOLS = {tool.spec.name: tool for tool in builtin_tools()}
README = (Path(__file__).parents[2] / "README.md").read_text()


@pytest.fixture
def project(tmp_path: Path) -> Workspace:
    root = (tmp_path / "project").resolve()
    root.mkdir()
    return Workspace(cwd=root, roots=(root,))


def access(workspace: Workspace, name: str, path: str) -> Access:
    arguments: dict[str, Any] = {"path": path} | ({"content": ""} if name == "write_file" else {})
    return TOOLS[name].access(TOOLS[name].check(arguments), workspace)


def verdicts(workspace: Workspace, path: str) -> tuple[str, str]:
    """Of a reading and of a writing, where edits are free."""
    found = [access(workspace, name, path) for name in ("read_file", "write_file")]
    reading, writing = (decide("edit", asked, tool="t", grants=()) for asked in found)
    return reading, writing


def examples() -> list[tuple[str, bool]]:
    made = [(name.replace("*", "x"), rule.reading) for rule in TABLE for name in rule.names]
    assert len(made) > 100
    return made


@pytest.mark.parametrize("form", ["{0}", "deep/er/{0}", "{1}", "{2}", "{0}."])
def test_every_name_of_the_table_asks_absent_anywhere_and_in_any_case(project: Workspace, form: str) -> None:
    for name, reading in examples():
        path = form.format(name, name.upper(), name.swapcase())
        assert verdicts(project, path) == ("ask" if reading else "allow", "ask"), path


@pytest.mark.parametrize(
    "path",
    [
        ".vscode/tasks.json",
        ".zed/settings.json",
        ".idea/runConfigurations/x.xml",
        ".envrc",
        ".husky/pre-commit",
        ".devcontainer/devcontainer.json",
        ".github/workflows/ci.yml",
        ".github/actions/x/action.yml",
        ".mcp.json",
        ".claude/settings.local.json",
        ".cursor/mcp.json",
        "sub/AGENTS.md",
        "claude.md",
        ".trae/rules/project_rules.md",
        "crush.json",
        ".cargo/config.toml",
        "x/.bashrc",
        ".venv/lib/python3.12/site-packages/x.py",
        "venv/lib/python3.12/site-packages/sitecustomize.py",
        "node_modules/x/index.js",
        "evil.pth",
        ".vs\u200dcode/tasks.json",
        "\uff0evscode/tasks.json",
        ".VSCODE./tasks.json",
        "bare/HEAD",
    ],
)
def test_what_others_run_or_obey_asks_although_edits_are_free(project: Workspace, path: str) -> None:
    assert verdicts(project, path) == ("allow", "ask")
    options = options_for(access(project, "write_file", path))
    assert "allow_always" not in {option.kind for option in options}


@pytest.mark.parametrize(
    "path",
    [
        "src/hooks/useX.ts",
        "head/index.js",
        "vscode/x",
        ".github/labels.yml",
        "workflows/x.yml",
        "AGENTS.md.txt",
        "my.AGENTS.md",
        "config",
        ".gitignore",
        "x.pth.txt",
        "githooks/x",
    ],
)
def test_names_that_only_look_alike_are_free(project: Workspace, path: str) -> None:
    assert verdicts(project, path) == ("allow", "allow")


def test_a_link_to_what_asks_asks(project: Workspace) -> None:
    (project.cwd / "innocent").symlink_to(".vscode")
    assert verdicts(project, "innocent/tasks.json") == ("allow", "ask")


@pytest.mark.parametrize("member", ["objects", "refs", "commondir", "config", "hooks"])
@pytest.mark.parametrize("path", ["config", "HEAD", "hooks/post-checkout", "objects/x", "info/attributes"])
def test_a_repositorys_own_folder_asks_also_by_another_name_and_half_made(
    project: Workspace, member: str, path: str
) -> None:
    (project.cwd / "store").mkdir()
    (project.cwd / "store" / "HEAD").symlink_to("refs/heads/none")  # git takes it, although it leads nowhere
    (project.cwd / "store" / member).mkdir()
    assert verdicts(project, f"store/{path}") == ("ask", "ask")


def test_the_first_step_towards_a_repository_asks(project: Workspace) -> None:
    """Else `objects`, `refs` and a `config` that runs something could be put beside it, one by one."""
    (project.cwd / "store" / "refs").mkdir(parents=True)
    assert verdicts(project, "store/HEAD") == ("allow", "ask")


@pytest.mark.parametrize("name", ["conf/config.toml", "CONF/config.toml", "Conf"])
def test_this_programs_own_files_ask_whatever_the_case(project: Workspace, name: str) -> None:
    mine = replace(project, protected=(project.cwd / "conf",))
    assert verdicts(mine, name) == ("ask", "ask")
    assert verdicts(mine, "conf2/x") == ("allow", "allow")


@pytest.mark.parametrize("above", [".claude/worktrees/w", ".config/nvim", ".cursor/worktrees/r/w", "node_modules/x"])
def test_a_project_is_one_wherever_it_lies(project: Workspace, above: str) -> None:
    """Other agents keep worktrees in folders of theirs; a user who opens a folder means it."""
    inner = project.cwd / above
    opened = replace(project, cwd=inner, roots=(inner,))
    assert verdicts(opened, "a.py") == ("allow", "allow")
    assert verdicts(opened, ".vscode/tasks.json") == ("allow", "ask")
    both = replace(project, roots=(project.cwd, inner))
    assert verdicts(both, f"{above}/a.py") == ("allow", "allow")
    assert verdicts(both, f"{above}/../a.py") == ("allow", "ask")


@pytest.mark.parametrize("above", [".git/x", ".ssh", ".vscode"])
def test_a_project_that_is_what_asks_or_lies_among_keys_asks(project: Workspace, above: str) -> None:
    inner = project.cwd / above
    assert verdicts(replace(project, cwd=inner, roots=(inner,)), "a.py")[1] == "ask"


def test_a_worktree_in_its_bare_repository_is_a_project_and_the_repository_is_not(project: Workspace) -> None:
    bare = project.cwd
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    (bare / "objects").mkdir()
    (bare / "main").mkdir()
    tree = replace(project, cwd=bare / "main", roots=(bare / "main",))
    assert verdicts(tree, "a.py") == ("ask", "ask")  # a folder of the repository's, as far as can be seen
    (bare / "main" / ".git").write_text(f"gitdir: {bare}/worktrees/main\n")
    assert verdicts(tree, "a.py") == ("allow", "allow")
    assert verdicts(tree, "../config") == ("ask", "ask")
    assert verdicts(replace(tree, roots=(bare / "main", bare)), "../hooks/x") == ("ask", "ask")


def test_this_programs_own_code_asks_where_it_lies_in_the_project() -> None:
    package = Path(always_ask_module.__file__).parents[1]
    root = package.parent.resolve()
    inside = Workspace(cwd=root, roots=(root,))
    assert package in own_code()
    assert verdicts(inside, "acp_bridge/app.py") == ("allow", "ask")
    assert verdicts(inside, "tests/x.py") == ("allow", "allow")
    assert all(path.is_absolute() for path in own_code())


@pytest.mark.parametrize("root", ["/", "/home", "/home/ada"])
def test_a_home_folder_is_free_neither_as_a_root_nor_within_one(root: str) -> None:
    place = Place(cwd=root, roots=(root,))
    wide = workspace_of(place, homes=(Path("/home/ada"),))
    for path in ("/home/ada/notes.txt", "/home/ada/code/a.py"):
        assert verdicts(wide, path) == ("ask", "ask")
    both = replace(wide, roots=(*wide.roots, Path("/home/ada/code")))
    assert verdicts(both, "/home/ada/code/a.py") == ("allow", "allow")


def test_what_lies_beside_a_home_folder_within_a_root_is_the_projects() -> None:
    place = Place(cwd="/srv/p", roots=("/srv/p",))
    assert verdicts(workspace_of(place, homes=(Path("/srv/p/.home"),)), "a.py") == ("allow", "allow")


def test_a_project_in_a_home_folder_is_a_project() -> None:
    place = Place(cwd="/home/ada/code", roots=("/home/ada/code",))
    assert verdicts(workspace_of(place, homes=(Path("/home/ada"),)), "a.py") == ("allow", "allow")


def test_the_table_is_the_readmes() -> None:
    shown = README.split("<!-- always asks -->")[1].split("<!-- /always asks -->")[0]
    assert [line for line in shown.splitlines() if line.startswith("| ")][1:] == [str(rule) for rule in TABLE]


def test_no_search_looks_into_what_may_not_be_read() -> None:
    assert {".git", ".ssh"} <= set(UNREAD)
    assert not [name for name in UNREAD if re.search(r"[/*]", name)]
