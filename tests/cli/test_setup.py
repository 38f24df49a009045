"""Editors' settings: printed with this installation's path, or merged in with a copy kept."""

import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cli.conftest import Run

from acp_bridge.cli.setup.editors import EDITORS, RUN_BY_TESTS
from acp_bridge.cli.setup.locations import serve_command

COMMAND = serve_command()
FILES = {
    "zed": ".config/zed/settings.json",
    "jetbrains": ".jetbrains/acp.json",
    "vscode": ".config/Code/User/settings.json",
    "acpx": ".acpx/config.json",
}

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="the folders are those of Linux")


def test_the_command_is_absolute_and_is_this_installation() -> None:
    assert os.path.isabs(COMMAND[0]) and os.access(COMMAND[0], os.X_OK)
    assert Path(COMMAND[0]).parent == Path(sys.executable).parent


@pytest.mark.parametrize("editor", list(EDITORS))
def test_each_block_names_the_absolute_command_and_alone_goes_to_a_pipe(run: Run, editor: str) -> None:
    shown = run("setup", editor)
    assert shown.code == 0
    assert COMMAND[0] in shown.out
    assert "put this into" in shown.err and "put this into" not in shown.out


@pytest.mark.parametrize("editor", list(EDITORS))
def test_model_and_mode_and_name_are_in_each_block(run: Run, editor: str) -> None:
    shown = run("setup", editor, "--model", "openai:gpt-5", "--mode", "edit", "--name", "Mine").out
    assert "openai:gpt-5" in shown and "edit" in shown
    if editor not in ("acpx", "avante", "marimo"):  # which call it by an identifier
        assert "Mine" in shown


def test_zed_is_told_as_its_settings_want_it(run: Run) -> None:
    shown = run("setup", "zed", "--model", "demo", "--mode", "plan").out
    assert json.loads(shown) == {
        "agent_servers": {
            "ACP Bridge": {
                "type": "custom",
                "command": COMMAND[0],
                "args": list(COMMAND[1:]),
                "env": {},
                "default_mode": "plan",
                "default_config_options": {"model": "demo"},
            }
        }
    }


def test_toad_is_started_with_the_command_and_not_told_by_a_file(run: Run) -> None:
    """Its files about agents lie in its own package, and one that lacks a key keeps it from starting."""
    found = shlex.split(run("setup", "toad", "--name", 'A "quoted" name').out)
    assert found == ["toad", "acp", shlex.join(COMMAND), ".", "--title", 'A "quoted" name']


@pytest.mark.parametrize("editor", list(EDITORS))
def test_a_form_that_no_test_ran_in_its_editor_says_so(run: Run, editor: str) -> None:
    assert ("the tests did not run it there" in run("setup", editor).err) is (editor not in RUN_BY_TESTS)


def test_marimo_is_told_in_the_order_in_which_a_person_clicks(run: Run) -> None:
    shown = run("setup", "marimo")
    steps = ("1. ", "External Agents", "2. ", "3017", "3. ", "Agents, then New session, then Claude")
    assert sorted(steps, key=shown.err.index) == list(steps)
    assert "--port 3017" in shown.out


def test_a_project_with_a_package_of_the_same_name_is_not_run_in_this_ones_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The form for an installation without its script, started in the project's folder as editors do."""
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    command = serve_command()
    monkeypatch.undo()
    assert command[0] == str(tmp_path / "python")
    (tmp_path / "acp_bridge").mkdir()
    (tmp_path / "acp_bridge" / "__init__.py").touch()
    (tmp_path / "acp_bridge" / "__main__.py").write_text("print('the project')")
    ran = subprocess.run(
        [sys.executable, *command[1:-1], "--version"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.stdout.startswith("acp-bridge ")


@pytest.mark.parametrize("editor", list(FILES))
def test_a_file_that_is_not_there_is_made_of_the_printed_block(run: Run, user: Path, editor: str) -> None:
    printed = json.loads(run("setup", editor, "--model", "demo").out)
    told = run("setup", editor, "--write", "--model", "demo")
    file = user / FILES[editor]
    assert told.code == 0 and f"{file}, which was made" in told.out
    assert json.loads(file.read_text()) == printed
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("editor", list(FILES))
def test_a_second_write_changes_nothing_and_keeps_no_second_copy(run: Run, user: Path, editor: str) -> None:
    file = user / FILES[editor]
    file.parent.mkdir(parents=True)
    file.write_text('{"mine": true}')
    file.chmod(0o640)
    first = run("setup", editor, "--write")
    after, copy = file.read_bytes(), file.with_name(f"{file.name}.before-acp-bridge")
    assert str(copy) in first.out
    assert (copy.read_text(), stat.S_IMODE(copy.stat().st_mode)) == ('{"mine": true}', 0o640)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert "nothing changed" in run("setup", editor, "--write").out
    assert file.read_bytes() == after
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name, copy.name]
    assert run("setup", editor, "--write", "--name", "Other", "--model", "demo").code == 0
    assert file.with_name(f"{copy.name}-1").read_bytes() == after


def test_what_the_user_has_set_for_the_agent_stays(run: Run, user: Path) -> None:
    file = user / FILES["zed"]
    file.parent.mkdir(parents=True)
    mine = {"type": "custom", "command": "/gone/acp-bridge", "env": {"OPENAI_API_KEY": "k"}, "default_mode": "full"}
    file.write_text(json.dumps({"agent_servers": {"ACP Bridge": mine}}))
    assert run("setup", "zed", "--write").code == 0
    now = json.loads(file.read_text())["agent_servers"]["ACP Bridge"]
    assert now == {**mine, "command": COMMAND[0], "args": list(COMMAND[1:])}


def test_settings_that_are_a_link_stay_one(run: Run, user: Path) -> None:
    real, file = user / "dotfiles.json", user / FILES["zed"]
    real.write_text("// mine\n{}\n")
    file.parent.mkdir(parents=True)
    file.symlink_to(real)
    assert run("setup", "zed", "--write").code == 0
    assert file.is_symlink() and real.read_text().startswith("// mine\n{\n")


@pytest.mark.parametrize("text", [b'{"a": ', b"[]", b'{"agent_servers": 1}', b"\xff\xfe{\x00}\x00", b'{"a": 1} x'])
def test_a_file_that_cannot_be_read_is_left_alone_and_said_so(run: Run, user: Path, text: bytes) -> None:
    file = user / FILES["zed"]
    file.parent.mkdir(parents=True)
    file.write_bytes(text)
    refused = run("setup", "zed", "--write")
    assert refused.code == 1
    assert f"{file} was left as it is: " in refused.err and "by hand" in refused.err
    assert file.read_bytes() == text
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_settings_that_are_no_json_are_only_printed(run: Run) -> None:
    refused = run("setup", "toad", "--write")
    assert refused.code == 2 and "`acp-bridge setup toad` prints them" in refused.err


def test_a_wrong_model_or_mode_is_refused_before_an_editor_learns_it(run: Run, user: Path) -> None:
    assert run("setup", "zed", "--write", "--model", "opanai:gpt-5").code == 2
    assert "modes are ask, edit, plan, full" in run("setup", "zed", "--write", "--mode", "yolo").err
    assert not (user / FILES["zed"]).exists()


def test_without_an_editor_they_are_listed(run: Run) -> None:
    shown = run("setup")
    assert shown.code == 0 and all(word in shown.out for word in EDITORS)


def test_setup_works_in_a_process_of_its_own(spawn: Run, user: Path) -> None:
    assert json.loads(spawn("setup", "jetbrains").out)["agent_servers"]["ACP Bridge"]["command"] == COMMAND[0]
    assert spawn("setup", "jetbrains", "--write").code == 0
    assert (user / FILES["jetbrains"]).exists()
