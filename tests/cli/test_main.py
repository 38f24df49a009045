"""Which command was meant: help, greetings, wrong words, and ends."""

import importlib.util
import subprocess
import sys

import pytest
from cli.conftest import Run, Terminal
from support.conversations import Home, talked

from acp_bridge import __version__
from acp_bridge.cli.main import COMMANDS
from acp_bridge.cli.sessions import VERBS


def test_the_bare_command_greets_on_a_terminal_instead_of_waiting(terminal: Terminal) -> None:
    shown = terminal()
    assert shown.code == 0
    assert "On a terminal there is nobody to speak to it" in shown.out and "acp-bridge demo" in shown.out


def test_help_lists_every_command(run: Run) -> None:
    shown = run("--help")
    assert shown.code == 0
    assert [line.split()[0] for line in shown.out.split("\n\n")[1].splitlines()] == list(COMMANDS)


@pytest.mark.parametrize("command", [*COMMANDS, *(f"sessions {verb}" for verb in VERBS)])
def test_each_command_says_what_it_takes(run: Run, command: str) -> None:
    if command == "run" and importlib.util.find_spec("acp_bridge.cli.run") is None:
        pytest.skip("the command is not there yet")
    shown = run(*command.split(), "--help")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(f"usage: acp-bridge {command}")


def test_the_version_is_told(spawn: Run) -> None:
    assert spawn("--version").out == f"acp-bridge {__version__}\n"


def test_a_wrong_word_names_the_nearest(run: Run) -> None:
    for arguments, nearest in ((("doktor",), "doctor"), (("sessions", "verfy"), "verify"), (("setup", "zet"), "zed")):
        refused = run(*arguments)
        assert (refused.code, refused.out) == (2, "")
        assert f"did you mean {nearest!r}?" in refused.err and refused.err.count("\n") == 1


def test_a_wrong_option_is_one_line_and_says_where_help_is(run: Run) -> None:
    refused = run("sessions", "list", "--colour")
    assert refused.code == 2
    assert refused.err == (
        "acp-bridge: unrecognized arguments: --colour; `acp-bridge sessions list --help` says what it takes\n"
    )


def test_a_wrong_setting_is_told_before_anything_is_done(run: Run) -> None:
    refused = run("sessions", "list", ACP_BRIDGE_MODE="yolo")
    assert refused.code == 2 and "mode must be one of" in refused.err


def test_a_defect_is_told_without_a_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_bridge.cli.sessions.folder.load", lambda _environ: 1 / 0)
    refused = run("sessions", "list")
    assert refused.code == 1
    assert (
        "ZeroDivisionError" in refused.err and "Traceback" not in refused.err and "ACP_BRIDGE_LOG=debug" in refused.err
    )


def test_a_reader_that_leaves_is_no_trouble(home: Home, environ: dict[str, str]) -> None:
    for number in range(3):
        home.make(f"s{number}", talked())
    listing = subprocess.Popen(
        [sys.executable, "-m", "acp_bridge", "sessions", "list"],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert listing.stdout is not None and listing.stderr is not None
    listing.stdout.close()
    assert listing.stderr.read() == b""
    listing.stderr.close()
    assert listing.wait(timeout=60) == 141
