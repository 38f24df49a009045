"""The installed command under PyPI's `acplint`, which speaks another dialect and so makes a hostile client.

Its verdict is no oracle: it sends the version as a string and a prompt's content under another name, answers questions
in a shape of its own, and waits for updates in spellings that the protocol does not have. What counts is that the
agent answers all of it in the protocol's words, is still there at the end, and ends when it is told to.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from clients.conftest import Desk
from support import schema
from support.installed import ACPLINT, from_pypi

pytestmark = pytest.mark.slow

RELAY = Path(__file__).with_name("relay.py")
QUICK = ("initialization", "session_lifecycle", "authentication", "session_modes", "config_options", "cancel", "stress")
"""Those of its categories that do not consist of waiting."""


@pytest.fixture(scope="session")
def acplint() -> Path:
    return from_pypi(ACPLINT) / "bin" / "python"


def survived(acplint: Path, desk: Desk, record: Path, way: str, *categories: str) -> dict[str, Any]:
    """Let acplint loose, fail unless the agent has come through it well, and return what the agent said."""
    relay = shlex.join((str(RELAY), str(record), way, *desk.command))
    command = (
        str(acplint),
        "-m",
        "acplint.cli",
        "--agent",
        sys.executable,
        f"--agent-args={relay}",
        "--cwd",
        str(desk.folder),
    )
    ran = subprocess.run(
        (*command, "--timeout", "2", "--output", "json", "--categories", *categories),
        env=desk.environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert "Traceback" not in ran.stderr, ran.stderr
    came = json.loads(record.read_text())
    assert came["answered"], "the agent no longer answered"
    assert came["code"] in (0, 143, -15)
    assert "Traceback" not in came["stderr"]
    messages = [json.loads(line) for line in came["lines"]]
    assert [fault for message in messages for fault in schema.faults(message)] == []
    return {"messages": messages, "report": json.loads(ran.stdout)}


def test_a_client_that_never_gets_past_the_handshake_is_told_why(acplint: Path, desk: Desk, tmp_path: Path) -> None:
    """R30: the version as a string is refused, and all that follows is answered: initialize comes first."""
    came = survived(acplint, desk, tmp_path / "record.json", "plain", *QUICK)
    codes = [message["error"]["code"] for message in came["messages"]]
    assert codes[0] == -32602
    assert set(codes[1:]) == {-32600}
    assert len(codes) > 10


def test_a_client_with_answers_of_its_own_shape_has_allowed_nothing(acplint: Path, desk: Desk, tmp_path: Path) -> None:
    """ACP, Tool Calls: with its handshake translated it gets to work; its yes, in a shape of its own, is nobody's."""
    came = survived(acplint, desk, tmp_path / "record.json", "mended", *QUICK)
    results = [message["result"] for message in came["messages"] if "result" in message]
    assert [result for result in results if result.get("stopReason") == "end_turn"]
    assert [result for result in results if "sessionId" in result]
    assert (desk.greeting, desk.copied) == ("hello\n", False)
