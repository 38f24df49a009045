"""Commands that would ask somebody fail at once, with words."""

import shutil
from pathlib import Path

import anyio
import pytest

from acp_bridge.tools import Ended, GuardedCommands

USUAL = {"PATH": "/usr/local/bin:/usr/bin:/bin", "SSH_AUTH_SOCK": "/run/agent", "EDITOR": "vim", "GIT_EDITOR": "vim"}


async def ran(command: str, cwd: Path, named: tuple[str, ...] = ()) -> Ended:
    commands = GuardedCommands({**USUAL, "HOME": str(cwd)}, named)
    try:
        with anyio.fail_after(20):
            return await commands.run(command, cwd=cwd, timeout_s=10, name="c", progress=lambda _output: None)
    finally:
        await commands.aclose()


@pytest.mark.skipif(shutil.which("git") is None, reason="it is about git")
@pytest.mark.parametrize("command", ["commit --allow-empty", "commit --amend --allow-empty", "rebase -i --root"])
async def test_git_finds_no_editor_and_is_told_what_to_do(tmp_path: Path, command: str) -> None:
    made = "git init -q . && git config user.email a@b && git config user.name a && git config core.editor vim"
    ended = await ran(f"{made} && git commit -q --allow-empty -m first && git {command}", tmp_path)
    assert ended.code not in (0, None)
    assert "git commit -m TEXT" in ended.output


async def test_whatever_starts_an_editor_gets_words(tmp_path: Path) -> None:
    ended = await ran('$EDITOR file || sh -c "$VISUAL file"', tmp_path)
    assert ended.code == 1
    assert ended.output.count("No editor can be opened here") == 2


@pytest.mark.parametrize("command", ["read answer < /dev/tty", "exec 3<>/dev/tty", "read answer"])
async def test_what_asks_on_a_terminal_or_its_input_fails_at_once(tmp_path: Path, command: str) -> None:
    ended = await ran(command, tmp_path)
    assert ended.code not in (0, None)


async def test_variables_say_that_nobody_is_there(tmp_path: Path) -> None:
    output = (await ran("env", tmp_path)).output.splitlines()
    for variable in (
        "GIT_TERMINAL_PROMPT=0",
        "PAGER=cat",
        "DEBIAN_FRONTEND=noninteractive",
        "SSH_ASKPASS_REQUIRE=never",
    ):
        assert variable in output
    assert not [line for line in output if line.startswith("SSH_AUTH_SOCK=")]
    assert not [line for line in output if line.endswith("=vim")]


async def test_what_the_configuration_names_stays_the_users(tmp_path: Path) -> None:
    output = (await ran("env", tmp_path, ("SSH_AUTH_SOCK", "EDITOR", "PAGER"))).output.splitlines()
    assert "SSH_AUTH_SOCK=/run/agent" in output
    assert "EDITOR=vim" in output
    assert "PAGER=cat" in output
