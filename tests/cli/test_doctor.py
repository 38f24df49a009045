"""What the program needs is looked at, and what to do is said."""

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from cli.conftest import Ran, Run, Terminal
from support.conversations import Home, talked

from acp_bridge.cli.doctor.storage import storage


def checks(ran: Ran) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(ran.out)["checks"]}


def test_a_healthy_machine_has_no_problem_and_nothing_is_left_behind(home: Home, run: Run) -> None:
    home.make("one", talked())
    before = sorted(path.name for path in home.path.rglob("*"))
    told = run("doctor", "--json", ACP_BRIDGE_MODEL="demo")
    found = checks(told)
    assert told.code == 0 and json.loads(told.out)["ok"] is True
    assert {name: one["level"] for name, one in found.items() if name not in ("Program", "Editors", "File system")} == {
        "Python": "ok",
        "Configuration": "ok",
        "Model": "ok",
        "Storage": "ok",
        "Sync": "ok",
        "Lock": "ok",
        "Space": "ok",
        "Search": "ok",
        "Commands": "ok",
    } | {name: "ok" for name in found if name in ("Neovim", "Emacs", "VS Code", "Zed")}
    assert sorted(path.name for path in home.path.rglob("*")) in (before, sorted([*before, "index.cache"]))


def test_a_folder_that_is_not_there_yet_is_tried_above_and_not_made(home: Home, run: Run) -> None:
    found = checks(run("doctor", "--json"))
    assert found["Storage"]["detail"] == f"{home.path}, which the first session makes"
    assert found["Sync"]["level"] == "ok"
    assert not home.path.exists()


def test_a_missing_model_is_a_warning_with_what_to_set(run: Run) -> None:
    found = checks(run("doctor", "--json"))["Model"]
    assert found["level"] == "warning" and "ACP_BRIDGE_MODEL" in found["remedy"] and "OPENAI_API_KEY" in found["remedy"]


def test_a_missing_key_is_named(run: Run) -> None:
    found = checks(run("doctor", "--json", ACP_BRIDGE_MODEL="deepseek:deepseek-chat"))["Model"]
    assert found["level"] == "warning" and "DEEPSEEK_API_KEY" in found["remedy"]


def test_a_route_that_is_none_is_a_problem(run: Run) -> None:
    told = run("doctor", "--json", ACP_BRIDGE_MODEL="opanai:gpt-5")
    assert told.code == 1 and checks(told)["Model"]["level"] == "problem"


def test_a_wrong_setting_is_a_problem_and_the_rest_is_looked_at_all_the_same(run: Run, user: Path) -> None:
    file = user / "config.toml"
    file.write_text('modell = "demo"\n')
    told = run("doctor", "--json", ACP_BRIDGE_CONFIG=str(file))
    assert told.code == 1
    found = checks(told)
    assert "'modell'" in found["Configuration"]["detail"] and "'model'" in found["Configuration"]["detail"]
    assert found["Sync"]["level"] == "ok"


def test_a_folder_that_others_may_write_to_is_a_problem(home: Home, run: Run) -> None:
    home.make("one", talked())
    home.sessions.chmod(0o777)
    found = checks(run("doctor", "--json"))["Storage"]
    home.sessions.chmod(0o700)
    assert found["level"] == "problem" and "chmod go-w" in found["detail"]


def test_a_file_in_the_folders_place_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    [found] = anyio.run(storage, tmp_path / "home")
    assert found.level == "problem" and "is no folder" in found.detail


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_a_problem(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    [found] = anyio.run(storage, tmp_path / "home")
    tmp_path.chmod(0o700)
    assert found.level == "problem" and "ACP_BRIDGE_HOME" in found.remedy


def test_editors_are_found_and_whether_they_start_this_agent(run: Run, user: Path) -> None:
    (user / ".config" / "zed").mkdir(parents=True)
    found = checks(run("doctor", "--json"))["Zed"]
    assert (found["level"], found["remedy"]) == ("ok", "if you want it there: acp-bridge setup zed")
    run("setup", "zed", "--write")
    run("setup", "acpx", "--write", "--model", "demo")
    found = checks(run("doctor", "--json"))
    assert found["Zed"]["detail"] == "set up, ~/.config/zed/settings.json"
    assert found["acpx"]["detail"] == "set up, ~/.acpx/config.json"


def test_toad_is_said_to_be_started_with_the_command_whatever_its_folder_holds(run: Run, user: Path) -> None:
    programs = user / "bin"
    (user / ".config" / "toad").mkdir(parents=True)
    (user / ".config" / "toad" / "agent.toml").write_text('run_command = "acp-bridge serve"\n')  # it reads none
    programs.mkdir()
    (programs / "toad").write_text("#!/bin/sh\n")
    (programs / "toad").chmod(0o755)
    found = checks(run("doctor", "--json", PATH=str(programs)))["Toad"]
    assert found["detail"] == "found; it keeps no settings for agents"
    assert found["remedy"].endswith("acp-bridge setup toad")


def test_an_editor_that_starts_what_is_gone_is_a_problem(run: Run, user: Path) -> None:
    file = user / ".config" / "zed" / "settings.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"agent_servers": {"A": {"command": "/gone/acp-bridge", "args": ["serve"]}}} // mine')
    told = run("doctor", "--json")
    found = checks(told)["Zed"]
    assert told.code == 1 and found["level"] == "problem" and "/gone/acp-bridge" in found["detail"]


def test_a_terminal_gets_lines_and_a_sum(terminal: Terminal) -> None:
    shown = terminal("doctor").out
    assert "ok       Python" in shown and "works: a second holder is refused" in shown
    assert shown.rstrip().splitlines()[-1].endswith(("warnings.", "warning.", "there."))


@pytest.mark.cold_start
def test_doctor_works_in_a_process_of_its_own(spawn: Run) -> None:
    told = spawn("doctor", ACP_BRIDGE_MODEL="demo")
    assert told.code == 0 and told.err == ""
    assert {line.split("\t")[0] for line in told.out.splitlines()} <= {"ok", "warning"}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OPENAI_API_KEY", "sk-0123456789…"),
        ("OPENAI_API_KEY", "sk-01234\n56789"),
        ("OPENAI_BASE_URL", "localhost:8000/v1"),
        ("ALL_PROXY", "socks4://127.0.0.1:1"),
        ("SSL_CERT_FILE", "/nowhere.pem"),
    ],
)
def test_what_is_set_wrongly_is_told_alike_by_the_doctor_and_by_a_run(run: Run, variable: str, value: str) -> None:
    environ = {"ACP_BRIDGE_MODEL": "openai:m", "OPENAI_API_KEY": "sk-0123456789", variable: value}
    examined = run("doctor", "--json", **environ)
    found = checks(examined)["Model"]
    assert (examined.code, found["level"]) == (1, "problem")
    said = found["detail"].removeprefix("openai:m: ")
    assert f"{variable} in the environment of the agent" in said
    told = run("run", "hello", **environ)
    assert told.code != 0
    assert "defect" not in told.err + examined.err
    assert " ".join(said.split()) in " ".join(told.err.split())
