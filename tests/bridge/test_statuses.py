"""A tool card's status says what is on disk, and waits until it is."""

from typing import Any

import anyio
import pytest
from support.world import ToldTool, World, asks

from acp_bridge.bridge.updates import live, replay
from acp_bridge.content import Text, ToolRequest
from acp_bridge.session import AssistantMessage, Record, ToolCalled, ToolResult, UserMessage


def statuses(updates: list[dict[str, Any]], call_id: str = "call_1_1_1") -> list[str]:
    return [update["status"] for update in updates if update.get("toolCallId") == call_id and "status" in update]


async def test_a_call_is_in_progress_once_it_is_on_disk() -> None:
    tool = ToldTool("t")
    world = World.of([asks("t"), {"text": "done"}], tool)
    with anyio.fail_after(5):
        async with world.running():
            world.model.door.shut()
            job = world.agent.submit(())
            await world.model.door.reached.wait()
            world.store.door.shut()
            world.model.door.open()
            await world.store.door.reached.wait()
            assert world.of_type("tool/call")
            assert statuses(world.peer.updates) == ["pending"]
            before = len(world.peer.updates)
            await world.conversation.replay()
            assert statuses(world.peer.updates[before:]) == ["pending"]
            world.store.door.open()
            await world.agent.settled(job)
            assert statuses(world.peer.updates[before:]) == ["pending", "in_progress", "completed"]


async def test_a_write_shows_the_results_that_it_saved_and_none_beyond() -> None:
    world = World.of([])
    with anyio.fail_after(5):
        async with world.running():
            saved = world.journal.durable_seq
            for number in (1, 2):
                result = ToolResult(turn=1, step=1, call_id=f"call_1_1_{number}", content=())
                world.conversation.recorded(Record(saved + number, 0, result))
            world.journal.durable_seq = saved + 1
            world.conversation.durable(saved + 1)
            assert statuses(world.peer.updates, "call_1_1_1") == ["completed"]
            assert statuses(world.peer.updates, "call_1_1_2") == []
            world.journal.durable_seq = saved


async def test_the_output_so_far_follows_the_status() -> None:
    world = World.of([asks("t", "t"), {"text": "done"}], ToldTool("t", parallel=True))
    with anyio.fail_after(5):
        async with world.running():
            await world.prompt()
    shown = [update.get("status") for update in world.peer.updates if update.get("toolCallId") == "call_1_1_2"]
    assert shown == ["pending", "in_progress", None, "completed"]


def test_what_the_program_tells_the_model_is_shown_to_the_user_live_and_on_load() -> None:
    note = UserMessage(id="note_1_1", content=(Text(text="Commands may still be running."),), source="program")
    record = Record(0, 0, note)
    shown = [{"sessionUpdate": "agent_message_chunk", "messageId": "note_1_1", "content": {"type": "text", "text": "Commands may still be running."}}]  # fmt: skip  # noqa: E501
    assert list(live(record, {})) == shown
    assert list(replay([record], durable_seq=0, files={})) == shown


@pytest.mark.parametrize(("durable_seq", "status"), [(1, "in_progress"), (2, "completed")])
def test_a_result_that_is_the_last_one_on_disk_is_shown_on_load_and_one_beyond_is_not(
    durable_seq: int, status: str
) -> None:
    request = ToolRequest(call_id="c", name="t", arguments="{}", title="t")
    events = [
        AssistantMessage(turn=1, step=1, id="m", content=(request,)),
        ToolCalled(turn=1, step=1, call_id="c", name="t", arguments={}, effect="write"),
        ToolResult(turn=1, step=1, call_id="c", content=(Text(text="did"),)),
    ]
    records = [Record(seq, 0, event) for seq, event in enumerate(events)]
    [card] = replay(records, durable_seq=durable_seq, files={})
    assert card["status"] == status
