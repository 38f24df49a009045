"""Where a model's path leads, and what it asks for. S3."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.errors import ToolError
from acp_bridge.tools import Access, Workspace
from acp_bridge.tools.paths import resolved

from .conftest import Desk


def access(desk: Desk, tool: str, **arguments: Any) -> Access:
    return desk.tool(tool).access(desk.tool(tool).check(arguments), desk.workspace)


def reading(desk: Desk, path: str) -> Access:
    return access(desk, "read_file", path=path)


def writing(desk: Desk, path: str) -> Access:
    return access(desk, "write_file", path=path, content="")


@pytest.mark.parametrize("path", ["a.txt", "./sub/../a.txt", "sub/new/a.txt", "..a", "a/..b", "weird ~name", "."])
def test_a_path_in_the_project_is_inside(desk: Desk, path: str) -> None:
    got = reading(desk, path)
    assert (got.inside, got.protected) == (True, False)


@pytest.mark.parametrize("path", ["../x", "sub/../../x", "/etc/passwd", "/", "..", "../project-2/a", "../outside/x"])
def test_a_path_outside_is_never_inside(desk: Desk, path: str) -> None:
    (desk.root / "sub").mkdir()
    assert not reading(desk, path).inside
    assert not writing(desk, path).inside


@pytest.mark.parametrize(
    "path",
    ["~", "~/.ssh/id_rsa", "~root/x", "file:///etc/passwd", "FILE:/etc/passwd", "https://x/y", "", "a\0b", "\ud800"],
)
def test_a_path_that_others_would_expand_is_refused_in_words(desk: Desk, path: str) -> None:
    with pytest.raises(ToolError) as refused:
        reading(desk, path)
    assert str(refused.value)


@pytest.mark.parametrize("goal", ["/etc", "/proc/self", "../../outside"])
def test_a_link_in_the_project_counts_as_where_it_leads(desk: Desk, goal: str) -> None:
    (desk.root / "sub").mkdir()
    (desk.root / "sub" / "link").symlink_to(goal)
    for path in ("sub/link", "sub/link/environ", "sub/link/not/there"):
        assert not reading(desk, path).inside
        assert not writing(desk, path).inside


def test_a_link_to_something_inside_is_inside(desk: Desk) -> None:
    (desk.root / "sub").mkdir()
    (desk.root / "link").symlink_to("sub")
    assert writing(desk, "link/new.txt") == Access(
        kind="edit", scope=str(desk.root / "sub/new.txt"), paths=(desk.root / "sub/new.txt",)
    )


def test_a_loop_of_links_ends(desk: Desk) -> None:
    (desk.root / "a").symlink_to("b")
    (desk.root / "b").symlink_to("a")
    reading(desk, "a/x")


@pytest.mark.parametrize(
    "path",
    [
        ".git",
        ".git/hooks/pre-commit",
        "sub/.git",
        "sub/.git/config",
        ".GIT/hooks/x",
        ".git./config",
        ".g\u200cit/config",
        "\uff0egit/config",
        "../sessions/s2/log.jsonl",
        "/proc/self/environ",
    ],
)
def test_a_protected_name_asks_always_present_or_not(desk: Desk, path: str) -> None:
    for got in (writing(desk, path), reading(desk, path)):
        assert got.protected
        assert got.scope == ""  # no lasting grant


@pytest.mark.parametrize("path", [".gitignore", ".github/labels.yml", "git/x", "x.git/y", "a.py"])
def test_names_that_only_look_alike_are_not_protected(desk: Desk, path: str) -> None:
    assert not writing(desk, path).protected


def test_a_link_to_a_protected_folder_is_protected(desk: Desk) -> None:
    (desk.root / "innocent").symlink_to(".git")
    assert writing(desk, "innocent/hooks/pre-commit").protected


def test_the_folder_that_a_git_file_points_to_is_protected(desk: Desk) -> None:
    store = desk.root / "store"
    (store / "objects").mkdir(parents=True)
    (store / "HEAD").write_text("ref: refs/heads/main\n")
    (desk.root / ".git").write_text("gitdir: store\n")
    assert writing(desk, ".git").protected
    assert writing(desk, "store/hooks/pre-commit").protected


def test_configuration_inside_the_project_is_protected_also_when_absent(desk: Desk) -> None:
    desk.workspace = replace(desk.workspace, protected=(desk.root / "conf",))
    assert writing(desk, "conf/config.toml").protected
    assert writing(desk, "conf").protected
    assert not writing(desk, "conf2").protected


def test_a_spilled_output_is_read_freely_and_never_written_so(desk: Desk) -> None:
    assert desk.workspace.spill is not None
    path = str(desk.workspace.spill / "c1.txt")
    assert reading(desk, path) == Access(kind="read", paths=(Path(path),))
    assert writing(desk, path).protected


def test_a_grant_is_shown_without_control_characters(desk: Desk) -> None:
    assert writing(desk, "a\u202e\x1b[2Jb").scope.isprintable()


def test_a_command_in_a_folder_outside_or_protected_is_judged_by_it(desk: Desk) -> None:
    assert not access(desk, "run_command", command="ls", cwd="..").inside
    assert access(desk, "run_command", command="ls", cwd=".git").protected
    assert access(desk, "run_command", command="ls").scope == f"ls in {str(desk.root)!r}"


def test_resolving_changes_nothing(desk: Desk) -> None:
    resolved("new/folder/file", desk.workspace)
    assert list(desk.root.iterdir()) == []


def test_a_link_that_goes_while_it_is_read_is_a_refusal_and_no_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    def gone(path: str) -> str:
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr(os, "readlink", gone)
    with pytest.raises(ToolError, match="changed while it was looked at"):
        resolved("link/x", Workspace(cwd=tmp_path, roots=(tmp_path,)))
