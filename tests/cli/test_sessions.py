"""Looking after stored sessions, without a key, a model or an agent."""

import json
import os
import stat
from pathlib import Path

import anyio
import pytest
from cli.conftest import Run, Terminal
from rich.cells import cell_len
from support.conversations import (
    OPENED,
    RECOVERED,
    START,
    Home,
    asked,
    cut_off,
    cut_off_streaming,
    recovered,
    talked,
    worked,
)

from acp_bridge.content import Text
from acp_bridge.session import (
    AssistantMessage,
    HeldSession,
    SessionOpened,
    SessionTitled,
    StepEnded,
    TurnEnded,
    TurnStarted,
)
from acp_bridge.storage import JsonlStore


def damage(log: Path, line: int = 6) -> int:
    """Change a byte of a line, as a bad sector does; return where the line begins."""
    lines = log.read_bytes().splitlines(keepends=True)
    offset = sum(map(len, lines[: line - 1]))
    data = bytearray(log.read_bytes())
    data[offset + 50] ^= 1
    log.write_bytes(data)
    return offset


def tear(log: Path) -> None:
    """Leave half a line at the end, as a kill in the middle of a write does."""
    with log.open("ab") as file:
        file.write(b'{"type":"half')


def make_newer(log: Path) -> None:
    """Make the log one of a later version."""
    log.write_bytes(log.read_bytes().replace(b'"version":1,', b'"version":9,', 1))


# --- list ---


def test_a_listing_is_newest_first_in_lines_of_seven_columns(home: Home, run: Run) -> None:
    home.make("older", talked(2), cwd="/a")
    home.make("newer", talked(1, title="New\tand\nodd"), cwd="/b", created=START + 60_000)
    shown = run("sessions", "list")
    assert (shown.code, shown.err) == (0, "")
    rows = [line.split("\t") for line in shown.out.splitlines()]
    size = str(home.log("newer").stat().st_size)
    assert rows[0] == ["newer", "idle", "2025-10-09T08:54:20Z", size, "1", "/b", "New and odd"]
    assert [row[0] for row in rows] == ["newer", "older"]


def test_a_listing_can_be_narrowed_to_a_folder_a_number_and_widened_to_empty_sessions(home: Home, run: Run) -> None:
    home.make("one", talked(), cwd="/a")
    home.make("two", talked(), cwd="/b", created=START + 1_000)
    home.make("empty", [OPENED], cwd="/a")
    assert run("sessions", "list", "--cwd", "/a").out.split("\t")[0] == "one"
    assert run("sessions", "list", "--limit", "1").out.count("\n") == 1
    assert {line.split("\t")[0] for line in run("sessions", "list", "--all").out.splitlines()} == {
        "one",
        "two",
        "empty",
    }


def test_a_listing_for_programs_is_an_array_of_objects(home: Home, run: Run) -> None:
    home.make("whole", talked())
    home.make("later", talked())
    make_newer(home.log("later"))
    found = {one["id"]: one for one in json.loads(run("sessions", "list", "--json").out)}
    assert found["whole"] == {
        "id": "whole",
        "title": "Say hello",
        "state": "idle",
        "cwd": "/w",
        "roots": ["/w"],
        "created": "2025-10-09T08:53:20Z",
        "updated": "2025-10-09T08:53:20Z",
        "turns": 1,
        "size": home.log("whole").stat().st_size,
    }
    assert found["later"] == {"id": "later", "state": "unreadable"}


def test_a_listing_pages_through_more_than_the_store_gives_at_once(
    home: Home, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_bridge.cli.sessions.list._PAGE", 2)
    names = [home.make(f"s{number}", talked(), created=START + number) for number in range(5)]
    assert [line.split("\t")[0] for line in run("sessions", "list").out.splitlines()] == names[::-1]


def test_no_sessions_are_no_trouble(run: Run) -> None:
    assert run("sessions", "list").code == 0
    assert run("sessions", "list", "--json").out == "[]\n"


def test_a_terminal_gets_columns_that_fit_and_a_word_on_how_to_go_on(home: Home, terminal: Terminal) -> None:
    home.make("abcdefghijklmnopqrstuv", talked(title="Überlänge " + "漢字" * 40))
    home.make("interruptedsession0000", cut_off())
    shown = terminal("sessions", "list").out.splitlines()
    assert shown[0].split() == ["Title", "State", "When", "Size", "Id", "Folder"]
    assert max(map(cell_len, shown[:3])) <= 80
    assert [shown[at].split()[-2] for at in (1, 2)] == ["interrupte", "abcdefghij"]
    assert shown[-1] == "The beginning of an id is enough: acp-bridge sessions show interrupte"


# --- show ---


def test_a_conversation_is_told_with_its_tools_and_what_went_wrong(home: Home, run: Run) -> None:
    home.make("work", worked())
    assert (
        run("sessions", "show", "work").out
        == """\
Make greeting.py more polite
work · /w · 2025-10-09 08:53 · 1 turn · demo

── turn 1 · 2025-10-09 08:53 ──

you
  Make greeting.py more polite, then try it.

! Request 1 failed (rate_limit): slow down; tried again after 2 s

~ The greeting is curt.

agent
  I **edit** it, then run it:

  - once

tool  Edit greeting.py  done
  /w/greeting.py  +1 -1
  @@ line 1 @@
   a
  -hello
  +good day
   b

tool  Run `make`  done
  allowed
  │ ok

plan
  [x] be polite
"""
    )


def test_recovered_facts_are_told_in_words(home: Home, run: Run) -> None:
    home.make("back", recovered(), synthetic=RECOVERED)
    shown = run("sessions", "show", "back").out
    assert "tool  Run `make`  outcome unknown: the program stopped after it began; it may have run" in shown
    assert "tool  Edit greeting.py  never started: the program stopped before it" in shown
    assert "And then rest.\n  ! never ran: the program stopped before it began" in shown
    assert "The program stopped here, in the middle of the turn." in shown
    assert "1 tool call never started. 1 tool call may have run, in part or whole: look before repeating." in shown
    assert "for the model" not in shown  # what a model is told is not what a person reads


def test_every_reading_says_that_a_turn_can_be_gone_on_with_until_one_does(home: Home, run: Run) -> None:
    cut = [*recovered(), SessionOpened(version="0.1.0", barriers=(), cwd="/w", roots=("/w",))]
    home.make("cut", cut, synthetic=RECOVERED)
    home.make("on", [*cut, TurnStarted(turn=2, continues=1), TurnEnded(turn=2, reason="completed")])
    home.make("done", talked())
    for arguments in (("show",), ("export", "--format", "markdown"), ("export", "--format", "html")):
        assert "say /continue" in run("sessions", *arguments, "cut").out, arguments
        told = run("sessions", *arguments, "on").out
        assert "Turn 2 goes on with it." in told and "say /continue" not in told, arguments
        assert "/continue" not in run("sessions", *arguments, "done").out, arguments
    news = json.loads(run("sessions", "export", "cut", "--format", "json").out)["recovery"]
    assert (news["continuable"], news["outcomeUnknown"], news["droppedInputs"]) == (1, ["1.1.2"], 1)
    for whole in ("on", "done"):
        assert "recovery" not in json.loads(run("sessions", "export", whole, "--format", "json").out)


def test_a_turn_without_an_end_says_so_and_shows_what_had_arrived(home: Home, run: Run) -> None:
    home.make("stream", cut_off_streaming())
    home.make("tools", cut_off())
    streamed, tools = run("sessions", "show", "stream").out, run("sessions", "show", "tools").out
    assert "~ Hm.\n\nagent\n  Once upon a time\n  ! cut off here" in streamed
    assert "This turn has no end" in streamed
    assert "tool  Run `make`  begun, no result yet" in tools
    assert "tool  Edit greeting.py  not begun" in tools


def test_long_outputs_are_bounded_unless_asked_for(home: Home, run: Run) -> None:
    home.make("long", worked(output="\n".join(f"line {number}" for number in range(100))))
    bounded, full = run("sessions", "show", "long").out, run("sessions", "show", "long", "--full").out
    assert "│ … 85 lines left out; --full shows them" in bounded
    assert "│ line 0" in bounded and "│ line 99" in bounded and "line 50" not in bounded
    assert all(f"│ line {number}\n" in full for number in range(100))
    assert '"old_text": "hello"' in full and '"old_text"' not in bounded


def test_nothing_in_a_log_can_lead_a_terminal_astray(home: Home, run: Run) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\x9b31m"
    home.make("evil", [*worked(output=evil, thought=evil), SessionTitled(title=evil)])
    for arguments in (("show", "evil"), ("show", "evil", "--full"), ("list",), ("export", "evil")):
        shown = run("sessions", *arguments).out
        assert not set("\x1b\x07\u202e\x9b") & set(shown), arguments
        assert "\\x1b" in shown


def test_the_beginning_of_an_id_is_enough_if_it_is_unique(home: Home, run: Run) -> None:
    home.make("abc1", talked(title="First"))
    home.make("abd2", talked(title="Second"))
    home.make("ab", talked(title="Exact"))
    assert run("sessions", "show", "abc").out.startswith("First")
    assert run("sessions", "show", "ab").out.startswith("Exact")
    unclear, unknown = run("sessions", "show", "a"), run("sessions", "show", "zz")
    assert unclear.code == unknown.code == 1
    assert "3 sessions begin with 'a': ab, abc1, abd2; write more of the id" in unclear.err
    assert "no session 'zz'" in unknown.err and "sessions list --all" in unknown.err


# --- export ---


def test_markdown_keeps_fences_whole_and_escapes_titles(home: Home, run: Run) -> None:
    home.make("md", [*worked(output="```\nnot the end\n```"), SessionTitled(title="# a *title* <b>")])
    shown = run("sessions", "export", "md").out
    assert shown.startswith("# \\# a \\*title\\* \\<b\\>\n")
    assert "````text\n```\nnot the end\n```\n````" in shown
    assert "```diff\n@@ line 1 @@\n a\n-hello\n+good day\n b\n```" in shown


def test_html_is_one_page_in_which_everything_is_escaped(home: Home, run: Run, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    events = [
        OPENED,
        *asked(1, evil),
        AssistantMessage(
            turn=1,
            step=1,
            id="a",
            content=(Text(text=f"{evil} ![x](http://elsewhere/x.png) [y](javascript:alert) **bold**"),),
        ),
        StepEnded(turn=1, step=1),
        TurnEnded(turn=1, reason="completed"),
        SessionTitled(title=evil),
    ]
    home.make("page", events)
    file = tmp_path / "page.html"
    told = run("sessions", "export", "page", "-o", str(file))
    page = file.read_text()
    assert (told.code, told.out) == (0, "")
    assert "<script" not in page and "<img" not in page and 'href="javascript' not in page and "src=" not in page
    assert page.count("&lt;script&gt;") >= 3
    assert "<strong>bold</strong>" in page
    assert "prefers-color-scheme: dark" in page and "default-src 'none'" in page


def test_json_is_the_header_and_the_records_as_data(home: Home, run: Run) -> None:
    home.make("data", talked(2))
    found = json.loads(run("sessions", "export", "data", "--format", "json").out)
    assert found["header"]["sessionId"] == "data"
    assert [record["seq"] for record in found["records"]] == list(range(len(talked(2))))
    assert found["records"][-1] == {
        "type": "session/title",
        "seq": 14,
        "time": START + 14,
        "data": {"title": "Say hello"},
    }


def test_an_export_that_cannot_be_written_names_the_file(home: Home, run: Run, tmp_path: Path) -> None:
    home.make("one", talked())
    refused = run("sessions", "export", "one", "-o", str(tmp_path / "missing" / "x.md"))
    assert refused.code == 1
    assert refused.err == f"acp-bridge: {tmp_path}/missing/x.md: no such file or directory\n"


# --- verify ---


def test_verify_says_of_each_session_how_it_stands(home: Home, run: Run) -> None:
    for name in ("bad", "sound", "torn", "young"):
        home.make(name, talked(2))
    offset = damage(home.log("bad"))
    tear(home.log("torn"))
    make_newer(home.log("young"))
    told = run("sessions", "verify")
    assert told.code == 1
    rows = {row[1]: row for row in (line.split("\t") for line in told.out.splitlines())}
    assert {name: row[0] for name, row in rows.items()} == {
        "bad": "corrupt",
        "sound": "sound",
        "torn": "torn tail",
        "young": "too new",
    }
    assert rows["bad"][2] == f"{home.log('bad')}, line 6, offset {offset}"
    assert "sessions repair --salvage bad" in rows["bad"][3]
    assert "13 bytes" in rows["torn"][3]
    assert "upgrade" in rows["young"][3]
    found = {one["id"]: one for one in json.loads(run("sessions", "verify", "--json").out)}
    assert (found["bad"]["line"], found["bad"]["offset"]) == (6, offset)


def test_verify_of_sound_sessions_ends_well_and_changes_nothing(home: Home, run: Run) -> None:
    home.make("one", talked())
    home.make("two", cut_off())  # a turn without an end is no damage
    before = home.log("two").read_bytes()
    assert run("sessions", "verify").code == 0
    assert run("sessions", "verify", "two").out.startswith("sound\ttwo\t")
    assert home.log("two").read_bytes() == before


# --- repair ---


def test_repair_closes_what_was_cut_off_and_a_second_one_changes_nothing(home: Home, run: Run) -> None:
    home.make("cut", cut_off())
    told = run("sessions", "repair", "cut")
    assert told.code == 0
    assert "1 tool call never started. 1 tool call may have run, in part or whole" in told.out
    assert "1 prompt had not been begun and will not run" in told.out
    records = [json.loads(line) for line in home.log("cut").read_text().splitlines()[1:]]
    assert [record["type"] for record in records[len(cut_off()) :]] == [
        "tool/result",
        "tool/result",
        "input/dropped",
        "step/end",
        "turn/end",
        "session/opened",
    ]
    after = home.log("cut").read_bytes()
    assert run("sessions", "repair", "cut").out == "cut is whole; nothing was changed.\n"
    assert home.log("cut").read_bytes() == after


def test_repair_cuts_a_torn_end(home: Home, run: Run) -> None:
    home.make("torn", talked())
    tear(home.log("torn"))
    assert "13 bytes at the end were incomplete" in run("sessions", "repair", "torn").out
    assert run("sessions", "verify", "torn").code == 0


def test_a_corrupt_session_is_left_alone_until_it_is_salvaged(home: Home, run: Run) -> None:
    home.make("bad", talked(2))
    damage(home.log("bad"))
    damaged = home.log("bad").read_bytes()
    refused = run("sessions", "repair", "bad")
    assert refused.code == 1 and "--salvage" in refused.err
    assert home.log("bad").read_bytes() == damaged

    told = run("sessions", "repair", "bad", "--salvage")
    assert told.code == 0
    [copy] = home.log("bad").parent.glob("cut-*.jsonl")
    assert copy.read_bytes() == damaged
    assert str(copy) in told.out and "kept   4 records" in told.out
    assert run("sessions", "verify", "bad").code == 0
    assert "The log was damaged here." in run("sessions", "show", "bad").out


# --- fork ---


def test_fork_prints_the_id_of_a_session_of_the_others_beginning(home: Home, run: Run) -> None:
    home.make("stem", talked(3))
    told = run("sessions", "fork", "stem", "--at", "2")
    new = told.out.strip()
    assert (told.code, told.out) == (0, f"{new}\n")
    shown = run("sessions", "show", new).out
    assert "Answer 2." in shown and "Answer 3." not in shown and "forked from stem" in shown


def test_fork_takes_the_last_turn_that_ended_and_names_what_there_is(home: Home, run: Run) -> None:
    home.make("cut", [*talked(1), *asked(2, "More?")])
    home.make("empty", [OPENED])
    assert "Answer 1." in run("sessions", "show", run("sessions", "fork", "cut").out.strip()).out
    assert "turn 2 of session cut has not ended" in run("sessions", "fork", "cut", "--at", "2").err
    assert "has no turn 7; its turns are 1 to 2" in run("sessions", "fork", "cut", "--at", "7").err
    assert "nothing to fork" in run("sessions", "fork", "empty").err


# --- delete ---


def test_delete_without_a_terminal_needs_a_yes(home: Home, run: Run) -> None:
    home.make("gone", talked())
    refused = run("sessions", "delete", "gone")
    assert refused.code == 2 and "add -y" in refused.err
    assert home.log("gone").exists()
    assert run("sessions", "delete", "gone", "-y").out == "gone is deleted.\n"
    assert not [path.name for path in home.sessions.iterdir() if path.is_dir()]


def test_delete_asks_on_a_terminal(home: Home, terminal: Terminal) -> None:
    home.make("gone", talked(2))
    kept = terminal("sessions", "delete", "gone", types="\n")
    assert kept.code == 0 and "Delete “Say hello” (gone, 2 turns) for good? [y/N]" in kept.out
    assert home.log("gone").exists()
    assert "gone is deleted." in terminal("sessions", "delete", "gone", types="y\n").out
    assert not home.log("gone").exists()


def test_delete_says_who_holds_a_session_and_goes_on_with_the_others(home: Home, run: Run) -> None:
    home.make("free", talked())
    home.make("held", talked())
    holder = anyio.run(JsonlStore(home.sessions).hold, "held")
    try:
        told = run("sessions", "delete", "held", "free", "-y")
    finally:
        anyio.run(_closed, holder)
    assert told.code == 1
    assert f"held was not deleted: it is in use by process {os.getpid()} on " in told.err
    assert told.out == "free is deleted.\n"
    assert home.log("held").exists()


async def _closed(held: HeldSession) -> None:
    await held.close()


def test_delete_says_so_if_something_is_left(home: Home, run: Run) -> None:
    home.make("spilled", talked())
    (home.sessions / "spilled" / "spill").mkdir()
    told = run("sessions", "delete", "spilled", "-y")
    left = home.sessions / "trash-spilled"
    assert (told.code, str(left) in told.err) == ((1, True) if left.exists() else (0, False))


def test_a_damaged_session_can_be_deleted(home: Home, run: Run) -> None:
    home.make("young", talked())
    make_newer(home.log("young"))
    assert run("sessions", "delete", "young", "--yes").code == 0
    assert not home.log("young").exists()


# --- all of them ---


def test_a_folder_that_others_may_write_to_is_refused_in_words(home: Home, run: Run) -> None:
    home.make("one", talked())
    home.sessions.chmod(0o777)
    refused = run("sessions", "show", "one")
    home.sessions.chmod(stat.S_IRWXU)
    assert refused.code == 1 and "chmod go-w" in refused.err


def test_sessions_of_another_storage_are_refused_in_words(run: Run) -> None:
    refused = run("sessions", "list", ACP_BRIDGE_STORAGE="memory")
    assert refused.code == 2 and "storage is 'memory'" in refused.err


def test_the_verbs_work_in_a_process_of_their_own(home: Home, spawn: Run, tmp_path: Path) -> None:
    home.make("life", [*talked(2)])
    assert spawn("sessions", "list").out.startswith("life\tidle\t")
    assert "Answer 2." in spawn("sessions", "show", "li").out
    assert spawn("sessions", "export", "life", "-o", str(tmp_path / "life.json")).code == 0
    assert json.loads((tmp_path / "life.json").read_text())["version"] == 1
    new = spawn("sessions", "fork", "life").out.strip()
    assert spawn("sessions", "repair", new).out == f"{new} is whole; nothing was changed.\n"
    assert spawn("sessions", "delete", "-y", new).code == 0
    verified = spawn("sessions", "verify")
    assert (verified.code, verified.out.split("\t")[:2]) == (0, ["sound", "life"])
