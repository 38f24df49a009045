"""What a client sees on load is what it saw live, whatever happened in between."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st
from support.world import CountingStore, ToldTool, World

from acp_bridge.bridge.updates import replay
from acp_bridge.checkpoint import CoarsePolicy
from acp_bridge.content import Text
from acp_bridge.session import AssistantDelta, Record
from acp_bridge.tools import Access

End = Literal["", "cancel", "kill", "disk"]


@dataclass
class Seen:
    """What a person sees of a session: messages by id, tool cards by id as they stand last."""

    said: dict[tuple[str, str], str]
    cards: dict[str, dict[str, Any]]
    title: str | None

    @classmethod
    def in_(cls, updates: Iterable[dict[str, Any]]) -> "Seen":
        seen = cls({}, {}, None)
        for update in updates:
            match update["sessionUpdate"]:
                case "agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk" as kind:
                    key = (kind, update["messageId"])
                    seen.said[key] = seen.said.get(key, "") + update["content"]["text"]
                case "tool_call":
                    assert update["toolCallId"] not in seen.cards, "a card that is there already"
                    seen.cards[update["toolCallId"]] = dict(update) | {"content": update.get("content", [])}
                case "tool_call_update":
                    card = seen.cards[update["toolCallId"]]  # a card must be there before its update
                    card |= {key: value for key, value in update.items() if key != "sessionUpdate"}
                case "session_info_update":
                    seen.title = update.get("title", seen.title)
                case _:
                    pass
        return seen

    def of_agent(self) -> dict[tuple[str, str], str]:
        """What the agent said; how a turn failed is told by its answer, and on load by a line of its own."""
        return {key: text for key, text in self.said.items() if key[0] != "user_message_chunk" and key[1][:4] != "end_"}

    def of_user(self) -> list[str]:
        return [text for (kind, _), text in self.said.items() if kind == "user_message_chunk"]


pieces = st.lists(
    st.sampled_from(
        [
            {"text": "Tell "},
            {"text": "ü\n"},
            {"text": "x", "repeat": 70},
            {"thought": "Hm. "},
            {"thought": "", "signature": "sig"},
            {"text": ""},
            {"text": "ab" * 9_000, "repeat": 3},
        ]
    ),
    max_size=5,
)
tools = st.lists(st.sampled_from(["side", "side", "alone", "asking", "failing", "unknown"]), max_size=4)
ends = st.sampled_from([{"fail": {"kind": "timeout"}}, {"fail": {"kind": "auth"}}, {"hang": True}, None, None, None])


@st.composite
def answers(draw: st.DrawFn) -> dict[str, Any]:
    deltas: list[dict[str, Any]] = draw(pieces)
    names = draw(tools)
    arguments = draw(st.sampled_from(["{}", '{"a": 1}', "{broken"]))
    deltas += [{"tool": {"index": n, "name": name, "arguments": arguments}} for n, name in enumerate(names)]
    end = draw(ends)
    answer: dict[str, Any] = {"deltas": [*deltas, end] if end else deltas}
    if end is None and not names:
        answer["stop"] = draw(st.sampled_from(["end", "length", "refusal"]))
    return answer


def world_of(script: list[Any], store: CountingStore | None = None) -> World:
    failing = ToldTool("failing")
    failing.raises = ValueError("a defect")
    asking = ToldTool("asking", access=Access(kind="execute", scope="make"))
    return World.of(
        script, ToldTool("side", parallel=True), ToldTool("alone"), asking, failing, store=store, mode="ask"
    )


async def lived(world: World, prompts: int, permission: str | None, ticks: int, end: End) -> None:
    """Prompt, and end the last turn as `end` says after so many turns of the scheduler."""
    world.peer.answer = permission
    living = world.killed() if end == "kill" else world.running()
    async with living:
        jobs = [world.agent.submit((Text(text=f"Prompt {n}."),)) for n in range(prompts)]
        for _ in range(ticks):
            await anyio.lowlevel.checkpoint()
        match end:
            case "cancel":
                world.agent.cancel("client")
            case "disk":
                world.store.memory.failing = True
                await anyio.wait_all_tasks_blocked()
                world.store.memory.failing = False
            case "" | "kill":
                pass
        if end != "kill":
            await anyio.wait_all_tasks_blocked()
            world.agent.cancel("client")  # what hangs
            for job in jobs:
                await world.agent.settled(job)
            await world.journal.salvage()
        else:
            await world.journal.flush(world.journal.last_seq)  # that far it came to the disk


async def loaded(store: CountingStore) -> World:
    world = world_of([], store)
    async with world.running(take=True):
        await world.policy.after_open(world.journal)
        await world.conversation.replay()
    return world


scripts = st.lists(answers(), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None)
@given(
    scripts,
    st.integers(1, 3),
    st.sampled_from(["allow_once", "allow_always", "reject_once", "cancelled", None]),
    st.integers(0, 60),
    st.sampled_from(["", "", "cancel", "kill", "disk"]),
    st.sampled_from(["asyncio", "trio"]),
)
def test_a_load_shows_what_was_seen_live(
    script: list[Any], prompts: int, permission: str | None, ticks: int, end: End, backend: str
) -> None:
    async def scenario() -> None:
        with anyio.fail_after(20):
            world = world_of(script)
            await lived(world, prompts, permission, ticks, end)
            again = await loaded(world.store)
        compared(Seen.in_(world.peer.updates), Seen.in_(again.peer.updates), killed=end == "kill")
        assert Seen.in_(again.peer.updates).of_user() or not prompts
        assert again.model.requests == []

    anyio.run(scenario, backend=backend)


def compared(live: Seen, replayed: Seen, *, killed: bool) -> None:
    """A crash may lose what nobody was told as final: the end of an answer, and cards of calls that were not begun."""
    assert replayed.title == live.title or (killed and not replayed.title)
    assert replayed.cards.keys() == live.cards.keys() or (killed and replayed.cards.keys() < live.cards.keys())
    for call_id, card in live.cards.items():
        if card["status"] in ("completed", "failed"):
            assert replayed.cards[call_id] == card
            continue
        assert killed, "only a crash leaves a call without an end"
        if (again := replayed.cards.get(call_id)) is None:
            assert card["status"] == "pending", "a call that was begun is never lost"
            continue
        assert again["status"] in ("completed", "failed")
        unlike = ("status", "content", "rawOutput")
        assert {key: again[key] for key in again if key not in unlike} == {
            key: card[key] for key in card if key not in unlike
        }
    for key, text in live.of_agent().items():
        again = replayed.of_agent().get(key, "")
        assert text.startswith(again)
        assert killed or again == text
    assert replayed.of_agent().keys() <= live.of_agent().keys()


async def test_a_session_that_is_open_here_is_replayed_during_a_turn_and_goes_on_live() -> None:
    tool = ToldTool("alone")
    script = [
        {"deltas": [{"thought": "Hm."}, {"text": "One "}, {"tool": {"index": 0, "name": "alone", "arguments": "{}"}}]},
        {"deltas": [{"text": "two"}]},
        {"text": "three"},
    ]
    world = World.of(script, tool)
    tool.door.shut()
    before = 0
    with anyio.fail_after(5):
        async with world.running(), anyio.create_task_group() as tasks:
            jobs = [world.agent.submit((Text(text=word),)) for word in ("first", "second")]
            await tool.door.reached.wait()
            before = len(world.peer.updates)
            tasks.start_soon(world.conversation.replay)
            tool.door.open()
            for job in jobs:
                await world.agent.settled(job)
        again, live = Seen.in_(world.peer.updates[before:]), Seen.in_(await_updates(world, before))
        compared(live, again, killed=False)
        assert again.of_user() == ["first", "second"]
        whole = (await loaded(world.store)).peer.updates
        assert Seen.in_(whole).of_agent() == again.of_agent()


def await_updates(world: World, before: int) -> list[dict[str, Any]]:
    """What a client saw that was there all the time: the replay left out."""
    shown: list[dict[str, Any]] = world.peer.updates[:before]
    rest = world.peer.updates[before:]
    first_live = next(i for i, update in enumerate(rest) if update["sessionUpdate"] == "tool_call_update")
    return shown + rest[first_live:]


def test_a_log_that_holds_an_empty_piece_shows_no_message_for_it() -> None:
    empty = AssistantDelta(turn=1, step=1, message_id="m", kind="text", text="")
    assert list(replay([Record(0, 0, empty)], durable_seq=0, files={})) == []


async def test_a_replay_under_any_policy_ends_with_every_cards_last_state() -> None:
    world = World.of([{"deltas": [{"tool": {"index": 0, "name": "t", "arguments": "{}"}}]}, {"text": "done"}],
                     ToldTool("t"), policy=CoarsePolicy())  # fmt: skip
    with anyio.fail_after(5):
        async with world.running():
            world.model.on_request = lambda: world.model.door.shut() if len(world.model.requests) > 1 else None
            job = world.agent.submit((Text(text="Do it."),))
            while len(world.model.requests) < 2:
                await anyio.wait_all_tasks_blocked()
            before = len(world.peer.updates)
            await world.conversation.replay()
            world.model.door.open()
            await world.agent.settled(job)
            assert Seen.in_(world.peer.updates[before:]).cards["call_1_1_1"]["status"] == "completed"


async def test_a_load_whose_repair_is_not_saved_shows_the_calls_once_salvage_has_saved_it() -> None:
    tool = ToldTool("t")
    tool.door.shut()
    world = World.of([{"deltas": [{"tool": {"index": 0, "name": "t", "arguments": "{}"}}]}], tool)
    with anyio.fail_after(5):
        async with world.killed():
            world.agent.submit((Text(text="Do it."),))
            await tool.door.reached.wait()
        again = World.of([{"when": "again", "text": "fine"}], ToldTool("t"), store=world.store)
        async with again.running(take=True):
            again.store.memory.failing = True
            try:
                await again.policy.after_open(again.journal)
            except Exception:  # noqa: BLE001  it is shown all the same
                await again.conversation.replay()
            assert Seen.in_(again.peer.updates).cards["call_1_1_1"]["status"] == "in_progress"
            again.store.memory.failing = False
            assert (await again.prompt("again")).reason == "completed"
            assert again.peer.status("call_1_1_1") == "failed"
