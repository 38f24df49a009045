"""What the barriers cost, what lies behind them when they fail, and who may leave while they wait."""

from typing import Any

import anyio
import pytest
from support.barriers import METHODS
from support.loops import TRIO_WHEN_SLOW
from support.world import ToldTool, World, asks

from acp_bridge.checkpoint import CheckpointPolicy, CoarsePolicy, Options, policy_named
from acp_bridge.checkpoint.policy import WITHOUT_BARRIERS
from acp_bridge.content import Text
from acp_bridge.errors import BarrierFailed, BarrierTimeout, ConfigError
from acp_bridge.session import BarrierKind


def writes(world: World) -> list[list[str]]:
    return [[record.event.type for record in batch] for batch in world.store.writes]


# --- counted ---


async def test_a_plain_turn_costs_one_sync_for_its_request_and_one_at_its_end() -> None:
    world = World.of([{"deltas": [{"text": "word ", "repeat": 500}]}])
    with anyio.fail_after(5):
        async with world.running():
            await world.prompt()
            assert [batch[-1] for batch in writes(world)] == ["request/header", "turn/end"]


async def test_each_group_of_calls_that_start_together_costs_one_sync() -> None:
    side, alone = ToldTool("side", parallel=True), ToldTool("alone")
    world = World.of([asks(*["side"] * 5, "alone"), {"text": "done"}], side, alone)
    with anyio.fail_after(5):
        async with world.running():
            await world.prompt()
            # request, five side by side, one alone, request, the end
            assert [batch[-1] for batch in writes(world)] == [
                "request/header",
                "tool/call",
                "tool/call",
                "step/start",
                "turn/end",
            ]


async def test_every_retry_has_its_own_sync_before_it() -> None:
    world = World.of([{"deltas": [{"fail": {"kind": "timeout"}}]}, {"text": "done"}])
    with anyio.fail_after(5):
        async with world.running():
            await world.prompt()
            assert [batch[-1] for batch in writes(world)] == ["request/header", "request/failed", "turn/end"]


async def test_a_barrier_with_nothing_new_costs_nothing() -> None:
    policy = CheckpointPolicy()
    world = World.of([{"text": "done"}], policy=policy)
    with anyio.fail_after(5):
        async with world.running():
            await world.prompt()
            before = len(world.store.writes)
            for barrier in (
                policy.before_request,
                policy.before_tool,
                policy.after_turn,
                policy.after_open,
                policy.before_answer,
            ):
                await barrier(world.journal)
            assert len(world.store.writes) == before
            assert [m.written for m in list(policy.measurements)[-5:]] == [0] * 5


async def test_every_barrier_leaves_a_measurement() -> None:
    policy = CheckpointPolicy()
    world = World.of([asks("t"), {"text": "done"}], ToldTool("t"), policy=policy)
    with anyio.fail_after(5):
        async with world.running():
            await world.prompt()
    kinds: list[BarrierKind] = [m.kind for m in policy.measurements]
    assert kinds == ["request", "tool", "request", "turn"]
    assert all(m.passed and m.written > 0 and m.seconds >= 0 for m in policy.measurements)
    assert [m.through for m in policy.measurements] == sorted(m.through for m in policy.measurements)


@TRIO_WHEN_SLOW
async def test_what_nobody_waits_for_is_written_at_most_five_times_a_second() -> None:
    world = World.of([{"deltas": [{"text": "a"}, {"hang": True}]}])
    with anyio.fail_after(5):
        async with world.running():
            world.agent.submit((Text(text="Do it."),))
            await world.model.door.reached.wait()
            before, began = len(world.store.writes), anyio.current_time()
            while anyio.current_time() < began + 0.5:
                world.journal.stream(1, 1, "msg_1_1", "text", "b")
                await anyio.lowlevel.checkpoint()
            assert 1 <= len(world.store.writes) - before <= 3


# --- failed ---


def fail_from(world: World, event_type: str) -> None:
    """Let the disk be full from the moment that an event of this type is logged."""

    class Filler:
        def recorded(self, record: Any) -> None:
            if record.event.type == event_type:
                world.store.memory.failing = True

        def streamed(self, message_id: str, kind: Any, text: str) -> None: ...
        def durable(self, seq: int) -> None: ...

    world.journal.observe(Filler())


async def test_behind_a_failed_request_barrier_no_request_is_sent() -> None:
    world = World.of([{"text": "never"}])
    with anyio.fail_after(5):
        async with world.running():
            fail_from(world, "step/start")
            outcome = await world.prompt()
            assert (outcome.reason, outcome.failure.kind) == ("error", "not_saved")
            assert world.model.requests == []
            assert [e.type for e in world.events][-2:] == ["step/end", "turn/end"]
            assert world.of_type("turn/end")[0].reason == "error"


async def test_behind_a_failed_tool_barrier_no_body_is_entered_and_the_turn_ends() -> None:
    side, alone = ToldTool("side", parallel=True), ToldTool("alone")
    world = World.of([asks("side", "side", "alone"), {"text": "never"}], side, alone)
    with anyio.fail_after(5):
        async with world.running():
            fail_from(world, "tool/call")
            outcome = await world.prompt()
            assert (outcome.reason, outcome.failure.kind) == ("error", "not_saved")
            assert (side.entered, alone.entered, len(world.model.requests)) == ([], [], 1)
            codes = [e.code for e in world.of_type("tool/result")]
            assert codes == ["NOT_SAVED", "NOT_SAVED", "ABORTED_BEFORE_DISPATCH"]
            assert world.of_type("turn/end")[0].reason == "error"


async def test_a_status_that_is_not_saved_is_shown_once_salvage_has_saved_it() -> None:
    world = World.of([asks("t"), {"text": "never"}, {"text": "next"}], ToldTool("t"))
    with anyio.fail_after(5):
        async with world.running():
            fail_from(world, "tool/result")
            outcome = await world.prompt()
            assert outcome.failure.kind == "not_saved"
            assert world.peer.status("call_1_1_1") == "in_progress"
            world.store.memory.failing = False
            await world.prompt("again")
            assert world.peer.status("call_1_1_1") == "completed"
            assert world.saved() == world.events


async def test_a_turn_whose_end_is_not_saved_is_answered_with_an_error() -> None:
    world = World.of([{"text": "done"}])
    with anyio.fail_after(5):
        async with world.running():
            fail_from(world, "turn/end")
            outcome = await world.prompt()
            assert (outcome.reason, outcome.failure.kind) == ("error", "not_saved")


async def test_after_a_failure_the_next_prompt_salvages_or_fails_at_its_first_barrier() -> None:
    world = World.of([{"text": "one"}, {"text": "two"}])
    with anyio.fail_after(5):
        async with world.running():
            fail_from(world, "turn/end")
            await world.prompt()
            assert (await world.prompt("still full")).failure.kind == "not_saved"
            assert (len(world.model.requests), world.store.salvages) == (1, 1)
            world.store.memory.failing = False
            # the observer fills the disk anew at this turn's end; salvage before it has saved all until then
            await world.prompt("healed")
            assert len(world.model.requests) == 2
            world.store.memory.failing = False
        assert world.saved() == world.events


async def test_a_failed_background_write_ends_the_stream_and_the_turn_in_error() -> None:
    world = World.of([{"deltas": [{"text": "on and on"}, {"hang": True}]}])
    with anyio.fail_after(5):
        async with world.running():
            job = world.agent.submit((Text(text="Do it."),))
            await world.model.door.reached.wait()
            world.store.memory.failing = True
            outcome = await world.agent.settled(job)
            assert outcome.failure is not None
            assert (outcome.reason, outcome.failure.kind) == ("error", "not_saved")
            assert [e.interrupted for e in world.of_type("assistant/message")] == [True]
            assert world.of_type("turn/end")[0].reason == "error"


async def test_a_failed_write_stops_a_running_body_which_is_told_as_aborted() -> None:
    tool = ToldTool("t")
    tool.door.shut()
    world = World.of([asks("t")], tool)
    with anyio.fail_after(5):
        async with world.running():
            job = world.agent.submit((Text(text="Do it."),))
            await tool.door.reached.wait()
            world.store.memory.failing = True
            world.journal.stream(1, 1, "m", "text", "x")  # something for the background to write
            assert (await world.agent.settled(job)).reason == "error"
            assert [e.code for e in world.of_type("tool/result")] == ["ABORTED"]


# --- deadlines ---


async def test_a_deadline_is_its_own_error_and_no_poison() -> None:
    policy = CheckpointPolicy(Options(deadline_s=0.02))
    world = World.of([{"text": "never"}, {"text": "done"}], policy=policy)
    with anyio.fail_after(5):
        async with world.running():
            world.store.door.shut()
            job = world.agent.submit((Text(text="Do it."),))
            outcome = await world.agent.settled(job)
            assert outcome.failure is not None
            assert outcome.failure.kind == "not_saved"
            assert (world.model.requests, world.journal.failure) == ([], None)
            with pytest.raises(BarrierTimeout):
                await policy.before_request(world.journal)
            world.store.door.open()
            policy.options = Options()
            assert (await world.prompt()).reason == "completed"
            assert (world.store.salvages, world.saved()) == (0, world.events)


async def test_a_tool_whose_barrier_outlasts_its_deadline_never_runs_not_even_later() -> None:
    policy = CheckpointPolicy(Options(deadline_s=0.02))
    tool = ToldTool("t")
    world = World.of([asks("t")], tool, policy=policy)
    world.model.on_request = lambda: world.store.door.shut()
    with anyio.fail_after(5):
        async with world.running():
            await world.prompt()
            assert [e.code for e in world.of_type("tool/result")] == ["NOT_SAVED"]
            world.store.door.open()
            await anyio.wait_all_tasks_blocked()
            assert tool.entered == []


# --- cancelled while waiting ---


@pytest.mark.parametrize("kind", ["request", "tool"])
async def test_whoever_waits_for_an_effect_may_leave_and_the_write_goes_on(kind: BarrierKind) -> None:
    policy = CheckpointPolicy()
    world = World.of([], policy=policy)
    with anyio.fail_after(5):
        async with world.running(), anyio.create_task_group() as tasks:
            world.store.door.shut()
            world.agent.submit((Text(text="Do it."),))
            world.agent.cancel("client")
            with anyio.CancelScope() as scope:
                tasks.start_soon(_cancelled, scope, world)
                await getattr(policy, METHODS[kind])(world.journal)
            assert scope.cancelled_caught
            assert world.journal.durable_seq < world.journal.last_seq
            world.store.door.open()
            await anyio.wait_all_tasks_blocked()
            assert world.journal.durable_seq == world.journal.last_seq


@pytest.mark.parametrize("kind", ["open", "answer"])
async def test_whoever_waits_for_a_settled_fact_waits_to_its_end(kind: BarrierKind) -> None:
    policy = CheckpointPolicy()
    world = World.of([], policy=policy)
    with anyio.fail_after(5):
        async with world.running(), anyio.create_task_group() as tasks:
            world.store.door.shut()
            world.agent.submit((Text(text="Do it."),))
            world.agent.cancel("client")
            passed = False
            with anyio.CancelScope() as scope:
                tasks.start_soon(_cancelled, scope, world, True)
                await getattr(policy, METHODS[kind])(world.journal)
                passed = world.journal.durable_seq == world.journal.last_seq
            assert passed


async def _cancelled(scope: anyio.CancelScope, world: World, then_open: bool = False) -> None:
    await world.store.door.reached.wait()
    scope.cancel()
    if then_open:
        await anyio.wait_all_tasks_blocked()
        world.store.door.open()


# --- left out ---


def test_the_policy_is_left_out_in_words_alone() -> None:
    assert type(policy_named(Options())) is CheckpointPolicy
    assert type(policy_named(Options(policy=WITHOUT_BARRIERS))) is CoarsePolicy
    for words in ("none", "off", "", "Default"):
        with pytest.raises(ConfigError, match="default"):
            policy_named(Options(policy=words))


async def test_without_the_policy_only_the_turns_end_waits_and_the_log_says_so() -> None:
    world = World.of([asks("t"), {"text": "done"}], ToldTool("t"), policy=CoarsePolicy())
    with anyio.fail_after(5):
        async with world.running():
            assert (await world.prompt()).reason == "completed"
            assert [batch[-1] for batch in writes(world)] == ["turn/end"]
            assert world.peer.status("call_1_1_1") == "completed"
            assert world.of_type("session/opened")[0].barriers == ("turn", "open", "answer")


@pytest.mark.parametrize("kind", ["request", "tool", "turn", "open", "answer"])
async def test_every_barrier_fails_closed(kind: BarrierKind) -> None:
    policy = CheckpointPolicy()
    world = World.of([], policy=policy)
    with anyio.fail_after(5):
        async with world.running():
            world.store.memory.failing = True
            world.agent.submit((Text(text="Do it."),))
            world.agent.cancel("client")
            with pytest.raises(BarrierFailed) as raised:
                await getattr(policy, METHODS[kind])(world.journal)
            assert (raised.value.barrier, type(raised.value)) == (kind, BarrierFailed)
            assert not policy.may_show_result(world.journal, world.journal.last_seq)
