"""A turn is cancelled at its n-th await, for every n: it closes itself, once, and nothing begins afterwards."""

from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from support.strict_provider import accept
from support.world import ToldTool, World, asks

from acp_bridge.content import Text
from acp_bridge.session import TurnEnded, closers
from acp_bridge.tools import Access

ANSWERS: list[Any] = [
    {"when": "again", "text": "fine"},
    {"deltas": [{"text": "half"}, {"fail": {"kind": "timeout"}}]},
    {"deltas": [{"thought": "hm"}, {"text": "I look"}, *({"tool": {"index": n, "name": name, "arguments": "{}"}}
     for n, name in enumerate(("side", "side", "asking", "unknown", "alone")))]},
    asks("alone"),
    {"text": "done"},
]  # fmt: skip


@dataclass
class Begun:
    """What has begun so far."""

    requests: int
    bodies: int
    calls: int
    questions: int

    @classmethod
    def in_(cls, world: World) -> "Begun":
        return cls(
            len(world.model.requests),
            sum(len(tool.entered) for tool in world.tools.values()),
            len(world.of_type("tool/call")),
            len(world.peer.questions),
        )


def made() -> World:
    asking = ToldTool("asking", access=Access(kind="execute", scope="make"))
    return World.of(ANSWERS, ToldTool("side", parallel=True), ToldTool("alone"), asking, mode="ask")


async def cancelled_after(awaits: int, *, stop: bool) -> bool:
    """Cancel a turn after so many turns of the scheduler and judge it; whether there was anything to cancel."""
    world = made()
    with anyio.fail_after(5):
        async with world.running():
            job = world.agent.submit((Text(text="Do it."),))
            for _ in range(awaits):
                await checkpoint()
            before, was_busy = Begun.in_(world), world.agent.busy
            if stop:
                world.agent.stop("shutdown")
            else:
                world.agent.cancel("client")
            outcome = await world.agent.settled(job)
            assert Begun.in_(world) == before or not was_busy
            judged(world, outcome.reason, job.dropped, stop=stop)
            if not stop:
                assert (await world.prompt("again")).reason == "completed"
                accept(world.model.requests[-1].messages)
        assert world.saved() == world.events
    return was_busy


def judged(world: World, reason: str, dropped: bool, *, stop: bool = False) -> None:
    log = world.journal.log
    assert closers(log) == ()
    assert not any(record.synthetic for record in log.records)
    ends: list[TurnEnded] = world.of_type("turn/end")
    if dropped:
        why = "interrupted" if stop else "cancelled"  # nobody took the prompt back
        assert (reason, ends, [e.reason for e in world.of_type("input/dropped")]) == ("cancelled", [], [why])
        return
    [end] = ends
    assert end.reason == reason
    assert world.saved()[-1] == end
    asked = [b.call_id for m in world.of_type("assistant/message") for b in m.content if hasattr(b, "call_id")]
    results = {e.call_id: e.code for e in world.of_type("tool/result")}
    assert sorted(results) == sorted(asked)
    called = {e.call_id for e in world.of_type("tool/call")}
    for call_id, code in results.items():
        if code in ("DENIED", "INVALID_ARGUMENTS", "UNKNOWN_TOOL"):
            assert call_id not in called
        if code in ("ABORTED", None):
            assert call_id in called
    aborted = sum(code == "ABORTED_BEFORE_DISPATCH" and call_id in called for call_id, code in results.items())
    ran = sum(len(tool.entered) for tool in world.tools.values())
    assert ran + aborted == len(called)


@pytest.mark.parametrize("stop", [False, True], ids=["cancelled by the client", "ended with the program"])
async def test_a_turn_cancelled_at_any_await_closes_itself_and_begins_nothing_more(stop: bool) -> None:
    awaits = 0
    while await cancelled_after(awaits, stop=stop):
        awaits += 1
    assert awaits > 40


async def test_a_cancel_while_the_request_waits_for_the_disk_sends_none() -> None:
    world = made()
    world.store.door.shut()
    with anyio.fail_after(5):
        async with world.running():
            job = world.agent.submit((Text(text="Do it."),))
            await world.store.door.reached.wait()
            world.agent.cancel("client")
            await anyio.wait_all_tasks_blocked()
            assert job.outcome is None  # turn/end is not on disk yet
            world.store.door.open()
            assert (await world.agent.settled(job)).reason == "cancelled"
            assert world.model.requests == []
            judged(world, "cancelled", dropped=False)


async def test_a_call_cancelled_while_it_waits_for_the_disk_keeps_its_call_and_never_ran() -> None:
    tool = ToldTool("t")
    world = World.of([asks("t")], tool)
    world.model.on_request = lambda: world.store.door.shut()
    with anyio.fail_after(5):
        async with world.running():
            job = world.agent.submit((Text(text="Do it."),))
            while not world.of_type("tool/call"):
                await anyio.wait_all_tasks_blocked()
            await world.store.door.reached.wait()
            world.agent.cancel("client")
            await anyio.wait_all_tasks_blocked()
            assert [e.code for e in world.of_type("tool/result")] == ["ABORTED_BEFORE_DISPATCH"]
            assert job.outcome is None
            world.store.door.open()
            assert (await world.agent.settled(job)).reason == "cancelled"
            assert (tool.entered, len(world.of_type("tool/call"))) == ([], 1)


async def test_a_cancel_does_not_cut_short_what_waits_at_the_turns_end() -> None:
    world = World.of([{"text": "done"}])
    world.model.on_request = lambda: world.store.door.shut()
    with anyio.fail_after(5):
        async with world.running():
            job = world.agent.submit((Text(text="Do it."),))
            while not world.of_type("turn/end"):
                await anyio.wait_all_tasks_blocked()
            world.agent.cancel("client")
            await anyio.wait_all_tasks_blocked()
            assert (job.outcome, world.agent.busy) == (None, True)
            world.store.door.open()
            assert (await world.agent.settled(job)).reason == "completed"


async def test_a_dismissed_question_cancels_the_turn_and_grants_nothing() -> None:
    world = made()
    world.peer.answer = "cancelled"
    with anyio.fail_after(5):
        async with world.running():
            assert (await world.prompt()).reason == "cancelled"
            assert [e.outcome for e in world.of_type("permission/decided")] == ["cancelled"]
            assert world.journal.log.state.grants == {}
            judged(world, "cancelled", dropped=False)
