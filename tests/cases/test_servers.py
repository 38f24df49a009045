"""MCP servers that hang, die or come up late, as an editor and a model see them: over a real process."""

import json
import sys
import time
from pathlib import Path

import pytest
from support.client import prompt_params
from support.lives import Json, Start, cards, events, said
from support.processes import eventually
from support.script import say, use, written

ODD = Path(__file__).parents[1] / "tools" / "mcp" / "servers" / "odd.py"


def server(project: Path, how: str, name: str = "db") -> Json:
    args = [str(ODD), how, str(project.parent / f"{name}.journal")]
    return {"name": name, "command": sys.executable, "args": args, "env": [{"name": "IN", "value": str(project)}]}


def place(project: Path, *hows: str) -> Json:
    return {"cwd": str(project), "mcpServers": [server(project, how, how) for how in hows]}


def running(project: Path) -> list[str]:
    """Return the processes that have `IN` in their environment, guards and what servers started among them."""
    mark = f"IN={project}".encode()
    found: list[str] = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_bytes().decode())
        except OSError:
            continue
    return found


def offered(header: Json) -> dict[str, str]:
    tools: list[Json] = header["data"]["tools"]
    return {tool["name"]: tool["description"] for tool in tools if tool["name"].startswith("mcp__")}


def test_a_prompt_says_at_once_which_server_it_waits_for_and_a_cancel_ends_the_wait(
    start: Start, project: Path
) -> None:
    client = start(written(project / "s.json", say("Hello.")))
    session = client.call("session/new", place(project, "hang"))["sessionId"]
    for _ in range(2):  # a prompt that was taken back leaves the wait to the next
        mark, began = client.mark, time.monotonic()
        asked = client.request("session/prompt", prompt_params(session, "hi"))
        told = client.update("agent_message_chunk", since=mark, session=session)
        assert time.monotonic() - began < 4
        assert told["content"]["text"].startswith(
            "Waiting for MCP servers to start. hang. After 8.5 s the prompt goes on"
        )
        cancelled = time.monotonic()
        client.cancel(session)
        assert client.result(asked) == {"stopReason": "cancelled"}
        assert time.monotonic() - cancelled < 1
    assert "Waiting for MCP" not in json.dumps(events(client, session))  # passing, and not the model's business


@pytest.mark.slow
def test_a_server_that_comes_up_late_is_waited_for_no_longer_than_that_and_offered_from_then_on(
    start: Start, project: Path
) -> None:
    client = start(written(project / "s.json", say("One."), use("mcp__late__echo", text="hi"), say("Two.")))
    session = client.call("session/new", place(project, "late"))["sessionId"]
    assert client.prompted(session, "first", timeout_s=20) == "end_turn"
    (project.parent / "late.journal.go").touch()
    eventually(lambda: any("It is there now" in text for text in said(client, session).values()), "the server")
    assert client.prompted(session, "second") == "end_turn"
    first, second = events(client, session, "request/header")
    assert (offered(first), first["data"]["reason"]) == ({}, "initial")
    assert ("mcp__late__echo" in offered(second), second["data"]["reason"]) == (True, "change")
    assert [card["status"] for card in cards(client, session).values()] == ["completed"]


@pytest.mark.slow
def test_a_server_that_dies_is_back_once_and_then_shown_to_the_model_as_gone(start: Start, project: Path) -> None:
    client = start(
        written(
            project / "s.json",
            use("mcp__good__die"),
            use("mcp__good__echo", text="still there"),
            use("mcp__good__die"),
            use("mcp__good__echo", text="and now"),
        )
    )
    session = client.call("session/new", place(project, "good"))["sessionId"]
    assert client.prompted(session, "go") == "end_turn"
    codes = [result["data"].get("code") for result in events(client, session, "tool/result")]
    assert codes == ["ABORTED", None, "ABORTED", "UNKNOWN_TOOL"]
    assert len(events(client, session, "tool/call")) == 3  # what is gone is not begun
    first, second = events(client, session, "request/header")
    assert second["data"]["reason"] == "change"
    assert offered(first).keys() == offered(second).keys()
    assert set(offered(second).values()) == {
        "GONE, do not call it: the MCP server 'good' ended and is not started any more."
    }
    told = [text for text in said(client, session).values() if text.startswith("MCP server good.")]
    assert ["being started again" in text for text in told] == [True, False, False]
    assert "can be called" in told[1]
    assert "is not started any more" in told[2]
    assert (project.parent / "good.journal").read_text().count('"die"') == 2  # and never by itself


@pytest.mark.slow
def test_a_load_starts_the_servers_it_names_and_a_kill_leaves_none_of_them(start: Start, project: Path) -> None:
    script = written(
        project / "s.json", use("mcp__grandchild__die", when="die"), use("mcp__grandchild__echo", text="a")
    )
    client = start(script)
    session = client.call("session/new", {"cwd": str(project), "mcpServers": []})["sessionId"]
    client.kill()
    client = start(script)
    client.call("session/load", {"sessionId": session, **place(project, "grandchild")})
    assert client.prompted(session, "die") == "end_turn"
    [header] = events(client, session, "request/header")
    assert "mcp__grandchild__echo" in offered(header)
    eventually(lambda: any("can be called" in text for text in said(client, session).values()), "the restart")
    assert any("sleep" in argv for argv in running(project))
    client.kill()
    eventually(lambda: not running(project), "the end of all that the agent started")
