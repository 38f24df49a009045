"""A change of a large file costs the log what changed, and never what nobody can be shown."""

import time
from pathlib import Path

import orjson
import pytest

from acp_bridge.bridge.updates import live, replay
from acp_bridge.content import Diff, Text, ToolRequest
from acp_bridge.limits import DRAWN
from acp_bridge.session import AssistantMessage, Record, ToolResult, encode_record
from acp_bridge.tools.asking import hidden_in
from acp_bridge.tools.changes import show_change

pytestmark = pytest.mark.anyio

PATH = Path("/w/a.txt")


def text_of(size: int) -> list[str]:
    line = "x" * 79 + "\n"
    return [line] * (size // len(line))


def result(shown: tuple[Text | Diff, ...]) -> ToolResult:
    return ToolResult(turn=1, step=1, call_id="c", content=(Text(text="Edited."),), shown=shown)


@pytest.mark.parametrize(("edits", "size"), [(40, 200_000), (5, 400_000)])
async def test_one_line_edits_of_a_large_file_cost_the_log_some_lines_each(edits: int, size: int) -> None:
    lines, logged = text_of(size), 0
    for edit in range(edits):
        before = "".join(lines)
        lines[edit * 50 + 7] = f"edit {edit}\n"
        shown = await show_change(PATH, before, "".join(lines))
        logged += len(orjson.dumps(encode_record(Record(0, 0, result(shown)))))
        assert [type(block) for block in shown] == [Diff]
    assert logged < edits * 2_000


@pytest.mark.parametrize("over", [0, 1])
async def test_a_change_is_drawn_up_to_the_bound_and_beyond_it_neither_logged_nor_shown(over: int) -> None:
    old = "a" * (DRAWN // 2)
    new = "b" * (DRAWN // 2 + over)
    [block] = await show_change(PATH, old, new)
    if over:
        assert isinstance(block, Text)
        assert f"changed from line 1 on; with {DRAWN + 1:,} characters" in block.text
        return
    assert block == Diff(path=str(PATH), old_text=old, new_text=new, line=1, old_line=1)


async def test_whatever_is_logged_of_a_change_can_be_shown() -> None:
    """No character takes more than six bytes in JSON, so nothing within the bound is refused by the line's."""
    half = "\x01" * (DRAWN // 2)
    shown = await show_change(PATH, half, half[:-1] + "\x02")
    [update] = live(Record(0, 0, result(shown)), {})
    assert [block["type"] for block in update["content"]] == ["diff"]


async def test_a_new_file_is_drawn_whole_up_to_the_same_bound() -> None:
    assert await show_change(PATH, None, "n" * DRAWN) == (Diff(path=str(PATH), new_text="n" * DRAWN),)
    [block] = await show_change(PATH, None, "n" * (DRAWN + 1))
    assert isinstance(block, Text)


async def test_an_editor_is_led_to_each_changed_place_live_and_on_load() -> None:
    lines = text_of(100_000)
    new = [*lines]
    new[99], new[999] = "one\n", "two\n"
    event = result(await show_change(PATH, "".join(lines), "".join(new)))
    request = ToolRequest(call_id="c", name="edit_file", arguments="{}", title="Edit")
    records = [Record(0, 0, AssistantMessage(turn=1, step=1, id="m", content=(request,))), Record(1, 0, event)]
    [settled] = live(records[1], {})
    [card] = replay(records, durable_seq=1, files={})
    for update in (settled, card):
        assert update["locations"] == [{"path": str(PATH), "line": 97}, {"path": str(PATH), "line": 997}]
        assert [block["newText"].count("\n") for block in update["content"]] == [7, 7]


async def test_a_diff_of_ten_megabytes_is_made_beside_the_loop() -> None:
    old = "line\n" * 2_000_000
    new = old[:-1] + "!\n"
    here, everywhere = time.thread_time(), time.process_time()
    shown = await show_change(PATH, old, new)
    here, everywhere = time.thread_time() - here, time.process_time() - everywhere
    assert [type(block) for block in shown] == [Diff]
    # Not how long it took, but in which thread: the loop's own has a small part of what the process worked.
    assert here < everywhere / 4


async def test_what_no_eye_sees_is_named_at_its_line_in_the_file() -> None:
    lines = text_of(100_000)
    new = [*lines]
    new[499] = "x\u200by\n"
    [block] = await show_change(PATH, "".join(lines), "".join(new))
    assert isinstance(block, Diff)
    assert "at line 500, column 2" in hidden_in(block)
