"""What was interrupted, by what, and what never ran: every load says it for as long as it is so, whoever repaired."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio
import pytest
from support.world import CountingStore, World

from acp_bridge.content import Text
from acp_bridge.session import closers, recovery_text

pytestmark = pytest.mark.anyio

HALF = [{"deltas": [{"text": "Half an ans"}, {"hang": True}]}]
Ending = Literal["killed", "ended"]


@asynccontextmanager
async def cut_short(how: Ending) -> AsyncGenerator[CountingStore]:
    """Have a turn cut short in its answer, with a second prompt in the queue."""
    world = World.of(HALF)
    with anyio.fail_after(10):
        async with world.killed() if how == "killed" else world.running():
            for word in ("First", "Second"):
                world.agent.submit((Text(text=word),))
            await world.model.door.reached.wait()
            await anyio.wait_all_tasks_blocked()
            await world.journal.flush(world.journal.last_seq)
        yield world.store


async def loaded(store: CountingStore, *, killed_on_the_way: bool = False) -> tuple[list[Any], str, int | None]:
    """Load in a process of its own; return what it shows, what it says is news, and what can be gone on with."""
    world = World.of([], store=store)
    async with world.killed(take=True) if killed_on_the_way else world.running(take=True):
        if not killed_on_the_way:
            await world.policy.after_open(world.journal)
            await world.conversation.replay()
        return world.peer.updates, recovery_text(world.recovery, way_on="/continue"), world.agent.continuable()


def texts(updates: list[Any]) -> list[str]:
    return [update["content"]["text"].strip() for update in updates if "content" in update]


@pytest.mark.parametrize("how", ["killed", "ended"])
async def test_every_load_says_what_was_cut_off_and_what_never_ran_and_offers_to_go_on(how: Ending) -> None:
    async with cut_short(how) as store:
        for _ in range(3):
            updates, news, continuable = await loaded(store)
            assert texts(updates) == [
                "First",
                *(["Half an ans", "[Cut off here.]"] if how == "killed" else []),
                "Second",
                "[Never ran: the program stopped before it began.]",
                *([] if how == "killed" else ["Half an ans", "[Cut off here.]"]),
            ]
            assert {"killed": "The program stopped", "ended": "The program was ended"}[how] in news
            assert "1 prompt had not been begun" in news
            assert "/continue" in news
            assert continuable == 1


async def test_a_process_that_is_killed_while_it_loads_takes_no_news_with_it() -> None:
    async with cut_short("killed") as store:
        await loaded(store, killed_on_the_way=True)
        updates, news, _ = await loaded(store)
        assert "[Cut off here.]" in texts(updates)
        assert "1 prompt had not been begun" in news


async def test_a_repair_by_hand_takes_no_news_with_it() -> None:
    async with cut_short("killed") as store:
        world = World.of([], store=store)
        async with world.running(take=True):
            assert not closers(world.journal.log)  # taking it has repaired it
        assert "/continue" in (await loaded(store))[1]


@pytest.mark.parametrize("way", ["going on", "a new prompt"])
async def test_once_a_turn_has_followed_it_is_told_in_its_place_and_not_as_news(way: str) -> None:
    async with cut_short("killed") as store:
        whole = {"text": "Whole."}
        world = World.of([whole] if way == "going on" else [HALF[0], whole], store=store)
        async with world.running(take=True):
            if way == "going on":
                job = world.agent.submit_continuation()
                assert job is not None
                await world.agent.settled(job)
            else:
                await world.prompt("Third")
        updates, news, continuable = await loaded(store)
        end = "[The program stopped here, in the middle of the turn."
        goes_on = " Turn 2 goes on with it.]" if way == "going on" else "]"
        assert texts(updates) == [
            "First",
            "Half an ans",
            "[Cut off here.]",
            "Second",
            "[Never ran: the program stopped before it began.]",
            end + goes_on,
            *([] if way == "going on" else ["Third"]),
            "Whole.",
        ]
        assert (news, continuable) == ("", None)
