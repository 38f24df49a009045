"""A tool card's status says what is on disk, and waits until it is."""

from typing import Any

import anyio
from agent.world import ToldTool, World, asks


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


async def test_the_output_so_far_follows_the_status() -> None:
    world = World.of([asks("t", "t"), {"text": "done"}], ToldTool("t", parallel=True))
    with anyio.fail_after(5):
        async with world.running():
            await world.prompt()
    shown = [update.get("status") for update in world.peer.updates if update.get("toolCallId") == "call_1_1_2"]
    assert shown == ["pending", "in_progress", None, "completed"]
