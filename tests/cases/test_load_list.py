"""Cases from the field: load, list and replay mistakes. Each is told as the kind that it is one of.

What was *seen* is what agents did to their users. Servers here cannot be started: what a started one adds is MCP's
to show.
"""

import itertools
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.client import prompt_params
from support.lives import Json, Start, cards, events, load, mostly_slow, said, words
from support.script import pieces, say, use, use_all, written

from acp_bridge.content import Text
from acp_bridge.session import (
    AssistantMessage,
    Event,
    Header,
    Log,
    SessionOpened,
    StepEnded,
    StepStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from acp_bridge.storage import JsonlStore

UNKNOWN = ["AAAAAAAAAAAAAAAAAAAAAA", "", "..", "../../etc/passwd", "a/b", "%2e%2e", "C:\\x", "x" * 10_000, "nul\0"]


# --- what is not there ---


@pytest.mark.parametrize("session", mostly_slow(UNKNOWN, quick=UNKNOWN[:3]), ids=lambda text: repr(text)[:12])
def test_a_session_that_is_not_there_is_an_error_for_whoever_asks(start: Start, project: Path, session: str) -> None:
    """Seen: load, resume and prompt of an unknown session succeeded. Each is an error, and makes nothing."""
    client = start(written(project / "s.json"))
    place = {"cwd": str(project), "mcpServers": []}
    for method, params in {
        "session/load": {"sessionId": session, **place},
        "session/resume": {"sessionId": session, **place},
        "session/prompt": prompt_params(session, "x"),
        "session/set_mode": {"sessionId": session, "modeId": "ask"},
        "session/set_config_option": {"sessionId": session, "configId": "mode", "value": "ask"},
    }.items():
        assert client.refused(method, params).code in (-32002, -32602), method
    assert client.call("session/list", {})["sessions"] == []
    folder = client.home / "sessions"
    assert not folder.exists() or not [entry for entry in folder.iterdir() if entry.is_dir()]


# --- resume shows nothing ---


def test_resume_replays_nothing(start: Start, project: Path) -> None:
    """Seen: resume replayed the history. It answers without a word of it, also after a kill, also if it is open."""
    script, session, client = two_turns(start, project)
    mark = client.mark
    load(client, session, project, method="session/resume")
    assert not history(client.updates(session, since=mark, until=client.settle()))
    client.kill()
    other = start(script)
    load(other, session, project, method="session/resume")
    assert not history(other.updates(session, until=other.settle()))
    assert other.prompted(session, "again") == "end_turn"


def history(updates: list[Json]) -> list[Json]:
    return [update for update in updates if update["sessionUpdate"] != "available_commands_update"]


def two_turns(start: Start, project: Path) -> tuple[Path, str, Any]:
    script = written(
        project / "s.json",
        pieces({"thought": "Hm."}, {"text": "One, "}, {"text": "two."}, when="first"),
        use_all(("read_file", {"path": "seed.txt"}), ("run_command", {"command": "echo hello"}), when="second"),
    )
    client = start(script)
    session = client.new_session(project)
    assert client.prompted(session, "first") == "end_turn"
    assert client.prompted(session, "second") == "end_turn"
    return script, session, client


# --- the first prompt after a load ---


@pytest.mark.parametrize("servers", ["none", "one that is not there"])
@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_the_first_prompt_after_a_load_is_answered_from_its_context(
    start: Start, project: Path, method: str, servers: str
) -> None:
    """Seen: it ended with no text, or crashed. The model is called with what was said, and answers."""
    script, session, client = two_turns(start, project)
    client.kill()
    other = start(script)
    gone = {"name": "gone", "command": str(project / "no-such-server"), "args": [], "env": []}
    place = {"cwd": str(project), "mcpServers": [gone] if servers != "none" else []}
    other.call(method, {"sessionId": session, **place})
    mark = other.mark
    assert other.prompted(session, "third") == "end_turn"
    assert "Done." in said(other, session, since=mark).values()  # the script's answer to a third prompt, by its context


# --- options ---


def test_options_are_those_that_were_set_last(start: Start, project: Path) -> None:
    """Seen: a load returned the defaults. Mode and model are as they were set, however the process ended."""
    script = written(project / "s.json")
    other_script = written(project / "other.json")
    routes = f"scripted:{script},scripted:{other_script}"
    client = start(script, environment={"ACP_BRIDGE_MODELS": routes})
    session = client.new_session(project)
    client.call("session/set_mode", {"sessionId": session, "modeId": "plan"})
    wanted = {"sessionId": session, "configId": "model", "value": f"scripted:{other_script}"}
    set_options = client.call("session/set_config_option", wanted)["configOptions"]
    assert client.prompted(session, "x") == "end_turn"
    client.kill()
    other = start(script, environment={"ACP_BRIDGE_MODELS": routes})
    state = load(other, session, project)
    assert state["modes"]["currentModeId"] == "plan"
    assert state["configOptions"] == set_options


# --- loads that follow each other ---


def test_loading_again_and_again_keeps_the_history(start: Start, project: Path) -> None:
    """Seen: a load in the same minute wiped the session. Every load shows the same, open, closed or restarted."""
    script, session, client = two_turns(start, project)
    shown: list[list[Json]] = []
    for step in ("open", "open", "closed", "restarted"):
        if step == "closed":
            client.call("session/close", {"sessionId": session})
        if step == "restarted":
            client.kill()
            client = start(script)
        mark = client.mark
        load(client, session, project)
        shown.append(history(client.updates(session, since=mark, until=client.settle())))
    assert shown[0] == shown[1] == shown[2] == shown[3]
    assert len(shown[0]) >= 7


# --- large sessions ---


def long_session(home: Path, project: Path, turns: int, size: int = 20) -> str:
    """Store a session of many turns and return its id."""
    header = Header(
        session_id="long_session_0000000000", created=1, version="0", cwd=str(project), roots=(str(project),)
    )
    log = Log(header, clock=lambda: 1)
    happened: list[Event] = [SessionOpened(version="0", barriers=("tool",), cwd=str(project), roots=(str(project),))]
    for turn in range(1, turns + 1):
        happened += [
            TurnStarted(turn=turn),
            UserMessage(id=f"input_{turn}", content=(Text(text=f"ask {turn}"),), source="client"),
            StepStarted(turn=turn, step=1),
            AssistantMessage(turn=turn, step=1, id=f"msg_{turn}_1", content=(Text(text=f"say {turn} " + "x" * size),)),
            StepEnded(turn=turn, step=1),
            TurnEnded(turn=turn, reason="completed"),
        ]
    records = [log.append(event) for event in happened]

    async def store() -> None:
        await (await JsonlStore(home / "sessions").create(header, records)).close()

    anyio.run(store)
    return header.session_id


@pytest.mark.slow
@pytest.mark.parametrize(("turns", "size"), [(16_500, 20), (300, 100_000)])
def test_a_long_session_loads_whole_a_line_a_message(start: Start, project: Path, turns: int, size: int) -> None:
    """Seen: newest messages were missing, clients froze. One update a message, all there, memory bounded."""
    client = start(written(project / "s.json"))
    session = long_session(client.home, project, turns, size)
    client.result(
        client.request("session/load", {"sessionId": session, "cwd": str(project), "mcpServers": []}), timeout_s=120
    )
    shown = said(client, session)
    assert [shown[f"msg_{turn}_1"][:12] for turn in (1, turns)] == ["say 1 " + "x" * 6, f"say {turns} xxxxxxx"[:12]]
    assert len(shown) == turns
    assert len(client.updates(session)) <= 2 * turns + 5
    peak = next(line for line in Path(f"/proc/{client.process.pid}/status").read_text().splitlines() if "VmHWM" in line)
    assert int(peak.split()[1]) < 200_000 + 6 * turns * (size + 600) // 1024, peak


def test_pieces_of_an_answer_are_one_update_when_loaded(start: Start, project: Path) -> None:
    """Seen: a session of many small chunks. They were streamed one by one and come back as one."""
    script = written(project / "s.json", pieces({"text": "word ", "repeat": 3000}))
    client = start(script)
    session = client.new_session(project)
    assert client.prompted(session, "go") == "end_turn"
    mark = client.mark
    load(client, session, project)
    assert len(client.updates(session, since=mark, kind="agent_message_chunk")) == 1
    assert list(said(client, session, since=mark).values()) == ["word " * 3000]


@pytest.mark.slow
def test_no_line_is_longer_than_eight_mebibytes(start: Start, project: Path) -> None:
    """Seen: payloads that a client cannot take are clipped and marked, live and loaded alike."""
    content = "line of text\n" * 800_000
    script = written(project / "s.json", use("write_file", path="large.txt", content=content, when="write"))
    client = start(script)
    session = client.new_session(project)
    assert client.prompted(session, "write", timeout_s=60) == "end_turn"
    load(client, session, project)
    longest = max(len(str(message)) for message in client.received)
    assert longest < 8 << 20, longest


# --- ids ---


def test_ids_and_texts_are_the_same_live_and_loaded(start: Start, project: Path) -> None:
    """Seen: adjacent messages merged, calls had new ids. Every message and every card is as it was live."""
    script, session, client = two_turns(start, project)
    client.settle()
    live = said(client, session), said(client, session, "agent_thought_chunk"), cards(client, session)
    assert len(live[0]) == 2
    assert len(live[2]) == 2
    client.kill()
    other = start(script)
    load(other, session, project)
    loaded = said(other, session), said(other, session, "agent_thought_chunk"), cards(other, session)
    assert loaded == live
    ids = list(said(other, session, "user_message_chunk"))
    assert ids == [event["data"]["id"] for event in events(other, session, "user/message")]


def test_the_answer_to_a_load_and_the_next_turn_do_not_reuse_ids(start: Start, project: Path) -> None:
    """Seen: what comes after a load has ids of its own, so that nothing is glued to what was replayed."""
    script, session, client = two_turns(start, project)
    client.kill()
    other = start(script)
    load(other, session, project)
    mark = other.mark
    before = set(said(other, session)) | set(cards(other, session)) | set(said(other, session, "user_message_chunk"))
    assert other.prompted(session, "second") == "end_turn"
    other.settle()
    after = set(said(other, session, since=mark)) | set(cards(other, session, since=mark))
    assert after
    assert not before & after


# --- spellings ---


SPELLINGS = itertools.product(["real", "link", "dots", "slash"], repeat=2)


@pytest.mark.parametrize(
    ("made_with", "asked_with"), mostly_slow(SPELLINGS, quick=[("link", "real"), ("real", "dots"), ("slash", "link")])
)
def test_a_session_is_listed_by_any_spelling_of_its_folder(
    start: Start, tmp_path: Path, made_with: str, asked_with: str
) -> None:
    """Seen: new under a link, or in a folder of mixed case, and the list by its path did not have it."""
    real = tmp_path / "Mixed Case" / "Projekt ä"
    real.mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    spelled = {
        "real": str(real),
        "link": str(tmp_path / "link"),
        "dots": f"{tmp_path}/Mixed Case/../Mixed Case/./Projekt ä",
        "slash": f"{real}/",
    }
    client = start(written(tmp_path / "s.json"))
    session = client.call("session/new", {"cwd": spelled[made_with], "mcpServers": []})["sessionId"]
    assert client.prompted(session, "x") == "end_turn"
    elsewhere = client.new_session(tmp_path)
    assert client.prompted(elsewhere, "x") == "end_turn"
    listed = client.call("session/list", {"cwd": spelled[asked_with]})["sessions"]
    assert [entry["sessionId"] for entry in listed] == [session]


def test_a_failed_call_says_so_also_when_it_is_loaded(start: Start, project: Path) -> None:
    """A card's last state, words and all, is the one that was shown."""
    script = written(project / "s.json", use("run_command", command="echo so far; exit 3", when="fail"), say("Oh."))
    client = start(script)
    session = client.new_session(project)
    assert client.prompted(session, "fail") == "end_turn"
    client.settle()
    [live] = cards(client, session).values()
    mark = client.mark
    load(client, session, project)
    [loaded] = cards(client, session, since=mark).values()
    assert loaded == live
    assert live["status"] == "failed"
    assert "exit code 3" in words(live)
