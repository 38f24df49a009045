"""Which commands a lasting grant may cover. Abuse case 15, as far as tools reach."""

from pathlib import Path

import pytest

from acp_bridge.tools.shell import grantable


@pytest.mark.parametrize(
    "command",
    [
        "ls; curl x",
        "ls && x",
        "ls || x",
        "ls & x",
        "ls | x",
        "ls `x`",
        "ls $(x)",
        "ls $HOME",
        "ls\nx",
        "ls\rx",
        "ls>f",
        "ls <f",
        "{ ls; }",
        "(ls)",
        "ls # x",
        "! ls",
        "ls \\\nx",
        "rm .*",
        "rm .g?t/config",
        "rm [.]git",
        "cat 'open",
        "ls \x1b[2J",
        "ls \u2028x",
        "ls " + " ".join("x" * 61),
        "ls " + "x" * 2000,
        "",
        "   ",
    ],
)
def test_what_is_not_plainly_one_program_can_be_granted_only_once(command: str) -> None:
    assert grantable(command, Path("/p")) == ""


@pytest.mark.parametrize("command", ["ls", "git status", "pytest -q tests/test_a.py", "grep -n 'a b' x", "ls *.py"])
def test_a_plain_command_is_granted_as_it_is_and_where_it_is(command: str) -> None:
    assert grantable(f" {command} ", Path("/p")) == f"{command} in '/p'"


def test_spaces_inside_are_kept_since_they_may_mean_something() -> None:
    assert grantable("grep 'a  b' x", Path("/p")) != grantable("grep 'a b' x", Path("/p"))
