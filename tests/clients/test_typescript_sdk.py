"""The installed command, driven by the official TypeScript SDK, which holds all that it reads against its schema."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from clients.conftest import Desk
from support.installed import TYPESCRIPT_SDK, from_npm

pytestmark = pytest.mark.slow

EDITOR = Path(__file__).with_name("sdk.mjs")
FS = {"fs": {"readTextFile": True, "writeTextFile": True}}


@dataclass(frozen=True)
class Came:
    """What the SDK handed to its user."""

    initialized: Any
    results: list[Any]
    shown: list[Any]
    end: tuple[int | None, str | None]

    def kinds(self) -> list[str]:
        """Return the kinds of the updates, each as often as it came."""
        return [item["sessionUpdate"] for item in self.shown if "sessionUpdate" in item]

    def said(self, kind: str = "agent_message_chunk") -> str:
        """Return what was said, in one piece."""
        return "".join(item["content"]["text"] for item in self.shown if item.get("sessionUpdate") == kind)

    def card(self, call: str) -> list[str]:
        """Return what was shown of a call, by its place in the model's answer: statuses and the question."""
        found: list[str] = []
        for item in self.shown:
            if "asked" in item and item["asked"]["toolCall"]["toolCallId"].endswith(call):
                found.append("asked")
            elif item.get("toolCallId", "").endswith(call):
                found.append(item["status"])
        return found


@pytest.fixture(scope="session")
def sdk() -> Path:
    return from_npm(TYPESCRIPT_SDK)


@pytest.fixture
def drive(sdk: Path, desk: Desk, tmp_path: Path) -> Any:
    """Runs the small editor with its steps; the SDK must have found nothing to complain of."""
    (tmp_path / "node_modules").symlink_to(sdk / "node_modules")
    editor = shutil.copy(EDITOR, tmp_path)  # beside the modules, where Node looks for them

    def driving(*steps: dict[str, Any], choose: str = "allow_once", **capabilities: Any) -> Came:
        told = {
            "command": desk.command,
            "environment": desk.environment,
            "cwd": str(desk.folder),
            "capabilities": capabilities,
            "choose": choose,
            "steps": steps,
        }
        ran = subprocess.run(
            ["node", editor, json.dumps(told)], capture_output=True, text=True, timeout=30, check=False
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        came = json.loads(ran.stdout)
        first, *results = came["results"]
        return Came(first, results, came["shown"], (came["code"], came["signal"]))

    return driving


NEW = {"do": "new"}


def prompt(text: str, **more: str) -> dict[str, str]:
    return {"do": "prompt", "text": text, **more}


def test_tools_are_run_with_permission_and_shown(drive: Any, desk: Desk) -> None:
    """R55, R61, R64: plan, reading, an edit and a command, each card in its order; the process ends with 0."""
    came = drive(NEW, prompt("change and run"))
    assert came.initialized["protocolVersion"] == 1
    assert came.results[1] == {"stopReason": "end_turn"}
    assert (desk.greeting, desk.copied) == ("good day\n", True)
    assert came.card("_1") == []  # the plan's own: it is shown as a plan
    assert came.card("_2") == ["pending", "in_progress", "completed"]
    assert came.card("_3") == came.card("_4") == ["pending", "asked", "in_progress", "completed"]
    [plan] = [item for item in came.shown if item.get("sessionUpdate") == "plan"]
    assert plan["entries"] == [{"content": "Change the greeting", "status": "in_progress", "priority": "medium"}]
    [diff] = [block for item in came.shown for block in item.get("content") or () if "newText" in block]
    assert diff == {
        "type": "diff",
        "path": str(desk.folder / "greeting.txt"),
        "oldText": "hello\n",
        "newText": "good day\n",
    }
    assert came.said() == "I do both.One."
    assert came.end == (0, None)


def test_files_go_through_the_editor_that_offers_them(drive: Any, desk: Desk) -> None:
    """ACP, File System: the client, which has the unsaved text, reads and writes the file."""
    came = drive(NEW, prompt("change and run"), **FS)
    path = str(desk.folder / "greeting.txt")
    assert [item for item in came.shown if "read" in item or "written" in item] == [
        {"read": path},
        {"read": path},  # for the diff that the question shows
        {"read": path},
        {"written": path},
    ]
    assert desk.greeting == "good day\n"


def test_what_is_refused_is_not_done(drive: Any, desk: Desk) -> None:
    """R83: the call fails, nothing changes, the turn goes on to its end."""
    came = drive(NEW, prompt("change and run"), choose="reject_once")
    assert came.results[1] == {"stopReason": "end_turn"}
    assert came.card("_3") == came.card("_4") == ["pending", "asked", "failed"]
    assert (desk.greeting, desk.copied) == ("hello\n", False)
    assert came.said() == "I do both.One."


@pytest.mark.parametrize(("text", "moment"), [("sleep", "in_progress"), ("stream", "agent_message_chunk")])
def test_a_cancel_is_an_ordinary_answer(drive: Any, text: str, moment: str) -> None:
    """R71, R72: cancelled in a command and in the model's words; the next prompt is answered as ever."""
    came = drive(NEW, prompt(text, cancel=moment), prompt("go on"))
    assert came.results[1] == {"stopReason": "cancelled"}
    assert came.results[2] == {"stopReason": "end_turn"}
    assert came.end == (0, None)


def test_a_request_given_up_by_its_signal_is_answered(drive: Any) -> None:
    """R77: the SDK's AbortSignal sends $/cancel_request, and its promise settles with our answer."""
    came = drive(NEW, prompt("stream", abort="agent_message_chunk"), prompt("go on"))
    assert came.results[1] == {"stopReason": "cancelled"}
    assert came.results[2] == {"stopReason": "end_turn"}


def test_a_question_is_a_form_that_the_sdk_takes(drive: Any) -> None:
    """ACP, Elicitation: the choices of `ask_user` arrive, and the answer goes back to the model."""
    came = drive(NEW, prompt("ask me"), elicitation={"form": {}})
    assert came.results[1] == {"stopReason": "end_turn"}
    [form] = [item["form"] for item in came.shown if "form" in item]
    assert form["message"] == "Which colour?"
    assert form["requestedSchema"]["properties"]["answer"]["enum"] == ["red", "blue"]
    [card] = [item for item in came.shown if item.get("status") == "completed"]
    assert card["content"][0]["content"]["text"] == "The user answered: blue"


def test_a_mode_and_an_option_are_set(drive: Any, desk: Desk) -> None:
    """R86: `plan` changes nothing; the option's answer is the complete list."""
    mode = {"do": "mode", "id": "plan"}
    option = {"do": "option", "id": "mode", "value": "ask"}
    came = drive(NEW, mode, prompt("change and run"), option)
    assert (desk.greeting, desk.copied) == ("hello\n", False)
    assert came.card("_4") == ["pending", "failed"]
    assert came.results[1] == {}
    assert [each["id"] for each in came.results[3]["configOptions"]] == ["mode", "model"]


@pytest.mark.parametrize("how", ["load", "resume"])
def test_a_session_goes_on_after_its_agent_was_killed_in_a_command(drive: Any, desk: Desk, how: str) -> None:
    """R44, R46, R47: load tells the conversation again, resume does not; both go on where it was."""
    killed = drive(NEW, prompt("first"), {"do": "kill", "text": "sleep", "once": str(desk.folder / "begun")})
    assert killed.end == (None, "SIGKILL")
    session = killed.results[0]["sessionId"]
    came = drive({"do": "list"}, {"do": how, "session": session}, prompt("second"), {"do": "close"})
    [listed] = came.results[0]["sessions"]
    assert (listed["sessionId"], listed["title"]) == (session, "first")
    assert came.results[1]["modes"]["currentModeId"] == "ask"
    assert came.results[2] == {"stopReason": "end_turn"}
    assert came.said().endswith("Two.")
    assert came.said("user_message_chunk") == ("firstsleep" if how == "load" else "")
    assert came.results[3] == {}
    assert came.end == (0, None)


def test_an_error_arrives_with_what_to_show(drive: Any) -> None:
    """R36: the provider refuses the key: a code, a sentence, and the provider's own words."""
    came = drive(NEW, prompt("fail now"))
    error = came.results[1]["error"]
    assert error["code"] == -32000
    assert error["message"] == "authentication required: the model's provider refused the key"
    assert "bad key" in error["data"]["details"]
