"""A whole task in a folder of three hundred files, in every mode: search, read, edit three files, run the tests.

The real process over ACP, and a provider over HTTP that takes what it does next from what the tools told it.
"""

import re
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import log
from support.client import Client, Json, selected
from support.provider import Asked, Payloads, asked_of, calls, environment, provider, text
from support.server import Server

OLD, NEW = "fetch_price", "price_of"
TESTS = f"{sys.executable} check.py"
USERS = ("shop/part_007.py", "shop/part_123.py", "shop/part_288.py")
"""The modules that use the old name; none of the other 297 does."""


def module(number: int, name: str) -> str:
    if f"shop/part_{number:03}.py" not in USERS:
        return f'"""Part {number}."""\n\nNUMBER = {number}\n'
    return f'"""Part {number}."""\n\nfrom shop import prices\n\n\ndef cost():\n    return prices.{name}({number})\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder in which a function was renamed, and three of 300 files still use its old name."""
    folder = tmp_path / "project"
    (folder / "shop").mkdir(parents=True)
    (folder / "shop/__init__.py").write_text("")
    (folder / "shop/prices.py").write_text(f"def {NEW}(number):\n    return number * 2\n")
    for number in range(300):
        (folder / f"shop/part_{number:03}.py").write_text(module(number, OLD))
    (folder / "check.py").write_text(
        "from shop import part_007, part_123, part_288\n"
        "assert [m.cost() for m in (part_007, part_123, part_288)] == [14, 246, 576]\n"
        "print('3 tests passed')\n"
    )
    return folder


def work(asked: Asked) -> Payloads:
    """Do the task as a model would: each step follows from the results of the one before."""
    match asked.step:
        case 0:
            return calls(("search_files", {"pattern": rf"\b{OLD}\b"}))
        case 1:
            found = sorted(set(re.findall(r"shop/part_\d+\.py", asked.results[0])))
            return calls(*(("read_file", {"path": path}) for path in found))
        case 2:
            paths = [f"shop/part_{int(number):03}.py" for number in re.findall(r"Part (\d+)\.", str(asked.results))]
            edits = ({"path": path, "old_text": OLD, "new_text": NEW} for path in paths)
            return calls(*(("edit_file", edit) for edit in edits))
        case 3:
            return calls(("run_command", {"command": TESTS}))
        case _:
            return text(f"The tests say: {asked.results[0]}")


@dataclass
class Done:
    """What the task left, in one mode."""

    client: Client
    server: Server
    session: str
    project: Path
    reason: str

    @property
    def asked(self) -> list[Json]:
        return [m["params"] for m in self.client.received if m.get("method") == "session/request_permission"]

    def cards(self) -> dict[str, Json]:
        """Return each tool card with its updates folded in, as a client holds it."""
        cards: dict[str, Json] = {}
        for update in self.client.updates(self.session):
            if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
                cards.setdefault(update["toolCallId"], {}).update(update)
        return cards

    def outcomes(self) -> list[tuple[str, str]]:
        return [(card["name"], card["status"]) for card in self.cards().values()]

    def files(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.project)): path.read_text()
            for path in self.project.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }

    def said(self) -> str:
        chunks = self.client.updates(self.session, kind="agent_message_chunk")
        return "".join(chunk["content"]["text"] for chunk in chunks)


@pytest.fixture
def done(request: pytest.FixtureRequest, tmp_path: Path, project: Path) -> Generator[Done]:
    """Do the task in the mode that the test names; every question is answered with yes."""
    mode: str = request.param

    def permit(params: Json) -> Json:
        return {"result": selected(params, "allow_once")}

    with provider(work) as server:
        with Client(tmp_path / "home", environment=environment(server), permit=permit) as client:
            client.initialize()
            session = client.new_session(project)
            if mode != "ask":
                client.call("session/set_mode", {"sessionId": session, "modeId": mode})
            reason = client.prompted(session, f"Rename {OLD} to {NEW} where it is still used.", timeout_s=60)
            yield Done(client, server, session, project, reason)


def expected_files(name: str, before: dict[str, str]) -> dict[str, str]:
    return before | {path: module(int(path[10:13]), name) for path in USERS}


ALL_DONE = [
    ("search_files", "completed"),
    *[("read_file", "completed")] * 3,
    *[("edit_file", "completed")] * 3,
    ("run_command", "completed"),
]


@pytest.mark.parametrize(
    ("done", "questions"),
    [("ask", [*["edit"] * 3, "execute"]), ("edit", ["execute"]), ("full", [])],
    indirect=["done"],
    ids=["ask", "edit", "full"],
)
def test_the_task_is_done_with_just_the_questions_of_its_mode(done: Done, questions: list[str]) -> None:
    files = done.files()
    assert done.reason == "end_turn"
    assert [params["toolCall"]["kind"] for params in done.asked] == questions

    # on the disk: three files, in one place each, and nothing else
    assert files == expected_files(NEW, files)
    assert len(files) == 303
    assert not any(OLD in content for content in files.values())

    # to the client: every card at its end, each edit with its diff
    assert done.outcomes() == ALL_DONE
    diffs = [card["content"][0] for card in done.cards().values() if card["name"] == "edit_file"]
    assert [(diff["type"], Path(diff["path"])) for diff in diffs] == [("diff", done.project / path) for path in USERS]
    for diff, path in zip(diffs, USERS, strict=True):
        number = int(path[10:13])
        assert (diff["oldText"], diff["newText"]) == (module(number, OLD), module(number, NEW))
    assert "3 tests passed" in done.said()

    # in the log: every body has its intent, and the turn is closed
    kinds = log.kinds(done.client.home, done.session)
    assert kinds.count("tool/call") == kinds.count("tool/result") == 8
    assert kinds[-2:] == ["step/end", "turn/end"]
    assert len(asked_of(done.server)) == 5


@pytest.mark.parametrize("done", ["plan"], indirect=True)
def test_in_plan_mode_nothing_is_changed_or_asked_and_the_model_is_told(done: Done) -> None:
    files = done.files()
    assert done.reason == "end_turn"
    assert not done.asked
    assert files == expected_files(OLD, files)
    assert not (done.project / "shop/__pycache__").exists()  # nothing was run either
    assert [status for name, status in done.outcomes() if name in ("search_files", "read_file")] == ["completed"] * 4
    assert [status for name, status in done.outcomes() if name in ("edit_file", "run_command")] == ["failed"] * 4
    requests = asked_of(done.server)
    assert all("plan" in asked.system for asked in requests)
    for asked in requests[3:]:
        assert all(result.startswith("Denied: in plan mode") for result in asked.results)
    assert [event["type"] for event in changing(done)] == ["tool/result"] * 4  # and no call: no body was entered


def changing(done: Done) -> list[dict[str, Any]]:
    """Return the log's events of calls that would change something."""
    cards = {call_id for call_id, card in done.cards().items() if card["name"] in ("edit_file", "run_command")}
    return [event for event in log.events(done.client.home, done.session) if event["data"].get("callId") in cards]
