"""Which commands a lasting grant may cover. S5, as far as tools reach."""

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


@pytest.mark.parametrize(
    "blank", ["\u00a0", "\u2003", "\u3000", "\u1680", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\x0b", "\x0c", "\r"]
)
@pytest.mark.parametrize("form", ["sh t.sh{}", "{}sh t.sh", "sh{}t.sh"])
def test_only_what_a_shell_takes_for_a_blank_is_one(blank: str, form: str) -> None:
    """To a shell `t.sh` and `t.sh` with such a character behind it are two files."""
    assert grantable(form.format(blank), Path("/p")) == ""


def test_the_blanks_of_a_shell_are_no_part_of_a_grant() -> None:
    assert grantable(" \t\nsh t.sh\n\t ", Path("/p")) == "sh t.sh in '/p'"


@pytest.mark.parametrize("hidden", ["\ufe0f", "\u034f", "\u3164", "\u2800", "\u180b", "\U000e0041", "\u200b", " " * 10])
def test_what_a_person_would_not_see_can_be_granted_only_once(hidden: str) -> None:
    assert grantable(f"sh t{hidden}.sh", Path("/p")) == ""
