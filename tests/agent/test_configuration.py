"""What the user sets: a mode that narrows applies at once, one that widens only once it is on disk, whatever meets."""

import anyio
import pytest
from support.world import Shut, ToldTool, World, asks

from acp_bridge.checkpoint import CheckpointPolicy, Options
from acp_bridge.errors import BarrierFailed, BarrierTimeout
from acp_bridge.session import Durable, PermissionRevoked, SessionConfigured
from acp_bridge.tools import Access


def config(world: World) -> dict[str, object]:
    return world.journal.log.state.config


async def test_a_narrower_mode_applies_at_once_and_a_wider_one_once_it_is_saved() -> None:
    world = World.of([], mode="edit")
    with anyio.fail_after(5):
        async with world.running(), anyio.create_task_group() as tasks:
            world.store.door.shut()
            tasks.start_soon(world.agent.configure, "mode", "ask")
            await world.store.door.reached.wait()
            assert world.agent.mode == "ask"
            world.store.door.open()
            await anyio.wait_all_tasks_blocked()
            world.store.door.shut()
            tasks.start_soon(world.agent.configure, "mode", "full")
            await world.store.door.reached.wait()
            assert world.agent.mode == "ask"
            world.store.door.open()
            await anyio.wait_all_tasks_blocked()
            assert world.agent.mode == "full"
        assert isinstance(world.saved()[-1], SessionConfigured)


async def test_a_wider_mode_that_is_not_saved_is_taken_back() -> None:
    world = World.of([], mode="ask")
    with anyio.fail_after(5):
        async with world.running():
            world.store.memory.failing = True
            with pytest.raises(BarrierFailed):
                await world.agent.configure("mode", "full")
            assert world.agent.mode == "ask"
            world.store.memory.failing = False
            await world.journal.salvage()
            assert world.agent.mode == "ask"
            assert world.saved()[-1] == SessionConfigured(values={})


async def test_a_narrower_mode_that_is_not_saved_stays_in_force_and_the_log_ends_at_the_old_one() -> None:
    world = World.of([], mode="full")
    with anyio.fail_after(5):
        async with world.running():
            world.store.memory.failing = True
            with pytest.raises(BarrierFailed):
                await world.agent.configure("mode", "plan")
            assert (world.agent.mode, config(world)) == ("plan", {})


async def test_a_change_heals_a_log_that_could_not_be_written_before_as_a_prompt_does() -> None:
    world = World.of([], mode="ask")
    with anyio.fail_after(5):
        async with world.running():
            world.store.memory.failing = True
            with pytest.raises(BarrierFailed):
                await world.agent.configure("mode", "full")
            world.store.memory.failing = False
            await world.agent.configure("mode", "full")
            assert (world.agent.mode, world.store.salvages) == ("full", 1)
            assert world.saved()[-1] == SessionConfigured(values={"mode": "full"})
            await world.agent.configure("model", "m2")
            assert world.store.salvages == 1  # a sound log is not written anew


async def test_changes_that_meet_on_a_log_that_needs_healing_heal_it_once() -> None:
    world = World.of([], mode="ask")
    with anyio.fail_after(5):
        async with world.running():
            world.store.memory.failing = True
            with pytest.raises(BarrierFailed):
                await world.agent.configure("mode", "full")
            world.store.memory.failing = False
            door, salvages = Shut(), world.store.salvages
            door.shut()
            world.store.on_salvage = door.pass_through
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(world.agent.configure, "mode", "edit")
                tasks.start_soon(world.agent.revoke, "grant_1")
                tasks.start_soon(world.prompt)
                await door.reached.wait()
                await anyio.wait_all_tasks_blocked()
                door.open()
            assert (world.agent.mode, world.store.salvages) == ("edit", salvages + 1)


async def test_a_narrower_mode_that_is_not_saved_is_told_to_hold_all_the_same() -> None:
    world = World.of([], mode="full")
    with anyio.fail_after(5):
        async with world.running():
            world.store.memory.failing = True
            with pytest.raises(BarrierFailed, match=r"'plan' is in force here all the same.*mode 'full' is again"):
                await world.agent.configure("mode", "plan")
            with pytest.raises(BarrierFailed) as failed:
                await world.agent.configure("mode", "edit")
            assert "all the same" not in str(failed.value)  # nothing has changed by it


async def test_a_failed_change_never_widens_what_an_earlier_failure_left_narrow() -> None:
    world = World.of([], mode="full")
    with anyio.fail_after(5):
        async with world.running():
            world.store.memory.failing = True
            for mode in ("plan", "ask"):
                with pytest.raises(BarrierFailed):
                    await world.agent.configure("mode", mode)
                assert world.agent.mode == "plan"


async def test_changes_that_fail_together_all_fall_back_to_what_was_confirmed() -> None:
    world = World.of([], mode="ask")
    failed: list[str] = []

    async def configure(key: str, value: str) -> None:
        with pytest.raises(BarrierFailed):
            await world.agent.configure(key, value)
        failed.append(value)

    with anyio.fail_after(5):
        async with world.running():
            world.store.memory.failing = True
            async with anyio.create_task_group() as tasks:
                for key, value in (("mode", "edit"), ("model", "m2"), ("mode", "full")):
                    tasks.start_soon(configure, key, value)
            assert sorted(failed) == ["edit", "full", "m2"]
            assert (world.agent.mode, config(world)) == ("ask", {})


async def test_a_mode_waits_for_its_own_barrier_and_not_for_an_earlier_changes() -> None:
    world = World.of([], mode="ask")
    with anyio.fail_after(5):
        async with world.running(), anyio.create_task_group() as tasks:
            world.store.door.shut()
            tasks.start_soon(world.agent.configure, "mode", "edit")
            await world.store.door.reached.wait()
            tasks.start_soon(world.agent.configure, "mode", "full")
            await anyio.wait_all_tasks_blocked()
            first = world.store.door.opened
            world.store.door.shut()
            first.set()
            await world.store.door.reached.wait()
            assert world.agent.mode == "edit"
            world.store.door.open()
            await anyio.wait_all_tasks_blocked()
            assert world.agent.mode == "full"


async def test_another_option_confirmed_meanwhile_does_not_let_a_mode_through() -> None:
    world = World.of([], mode="ask")
    with anyio.fail_after(5):
        async with world.running(), anyio.create_task_group() as tasks:
            world.store.door.shut()
            tasks.start_soon(world.agent.configure, "model", "m2")
            await world.store.door.reached.wait()
            tasks.start_soon(world.agent.configure, "mode", "full")
            await anyio.wait_all_tasks_blocked()
            first = world.store.door.opened
            world.store.door.shut()
            first.set()
            await world.store.door.reached.wait()
            assert (world.agent.route, world.agent.mode) == ("m2", "ask")
            world.store.door.open()


async def test_a_narrower_mode_does_not_wait_for_a_wider_one_that_is_being_saved() -> None:
    world = World.of([], mode="ask")
    with anyio.fail_after(5):
        async with world.running():
            async with anyio.create_task_group() as tasks:
                world.store.door.shut()
                tasks.start_soon(world.agent.configure, "mode", "full")
                await world.store.door.reached.wait()
                tasks.start_soon(world.agent.configure, "mode", "plan")
                await anyio.wait_all_tasks_blocked()
                seen: list[str] = [world.agent.mode]
                first = world.store.door.opened
                world.store.door.shut()
                first.set()
                await world.store.door.reached.wait()  # the wider one is saved, the narrower one not yet
                seen.append(world.agent.mode)
                while world.journal.durable_seq < world.journal.last_seq:
                    world.store.door.open()
                    seen.append(world.agent.mode)
                    await anyio.lowlevel.checkpoint()
                assert set(seen) == {"plan"}
            assert (world.agent.mode, config(world)) == ("plan", {"mode": "plan"})


async def test_a_narrower_mode_holds_between_the_end_of_an_earlier_change_and_its_own_logging() -> None:
    world = World.of([], mode="ask")
    seen: list[str] = []

    async def widen() -> None:
        await world.agent.configure("mode", "full")
        seen.append(world.agent.mode)

    with anyio.fail_after(5):
        async with world.running(), anyio.create_task_group() as tasks:
            world.store.door.shut()
            tasks.start_soon(widen)
            await world.store.door.reached.wait()
            tasks.start_soon(world.agent.configure, "mode", "plan")
            await anyio.wait_all_tasks_blocked()
            world.store.door.open()
            await anyio.wait_all_tasks_blocked()
    assert seen == ["plan"]


async def test_a_change_that_is_taken_back_by_the_client_is_settled_all_the_same() -> None:
    world = World.of([], mode="ask")
    with anyio.fail_after(5):
        async with world.running(), anyio.create_task_group() as tasks:
            world.store.door.shut()
            with anyio.CancelScope() as scope:
                tasks.start_soon(_cancel_at, scope, world)
                await world.agent.configure("mode", "edit")
            assert world.agent.mode == "edit"
            assert world.saved()[-1] == SessionConfigured(values={"mode": "edit"})


async def _cancel_at(scope: anyio.CancelScope, world: World) -> None:
    await world.store.door.reached.wait()
    scope.cancel()
    await anyio.wait_all_tasks_blocked()
    world.store.door.open()


async def test_a_change_that_outlasts_its_deadline_falls_back_and_later_ones_work() -> None:
    world = World.of([], mode="ask", policy=CheckpointPolicy(Options(deadline_s=0.01)))
    with anyio.fail_after(5):
        async with world.running():
            world.store.door.shut()
            with pytest.raises(BarrierTimeout):
                await world.agent.configure("mode", "edit")
            assert (world.agent.mode, config(world)) == ("ask", {})
            world.store.door.open()
            await world.agent.configure("mode", "full")
            assert world.agent.mode == "full"
            assert world.saved()[-1] == SessionConfigured(values={"mode": "full"})


async def test_a_revoked_grant_is_gone_at_once_saved_or_not() -> None:
    tool = ToldTool("run", access=Access(kind="execute", scope="make"))
    world = World.of([asks("run"), {"text": "done"}], tool, mode="ask")
    world.peer.answer = "allow_always"
    with anyio.fail_after(5):
        async with world.running():
            await world.prompt()
            [grant_id] = world.journal.log.state.grants
            world.store.memory.failing = True
            with pytest.raises(BarrierFailed, match="taken back here all the same"):
                await world.agent.revoke(grant_id)
            assert world.journal.log.state.grants == {}
            world.store.memory.failing = False
            await world.journal.salvage()
        assert world.saved()[-1] == PermissionRevoked(grant_id=grant_id)


async def test_what_is_allowed_while_the_mode_is_narrowed_to_nothing_is_not_run() -> None:
    tool = ToldTool("run", access=Access(kind="execute"))
    world = World.of([asks("run"), {"text": "done"}], tool, mode="ask")
    world.peer.door.shut()
    with anyio.fail_after(5):
        async with world.running(), anyio.create_task_group() as tasks:
            tasks.start_soon(world.prompt)
            await world.peer.door.reached.wait()
            await world.agent.configure("mode", "plan")
            world.peer.door.open()
        [result] = world.of_type("tool/result")
        assert (result.code, tool.entered, world.of_type("tool/call")) == ("DENIED", [], [])


class WaitingPolicy(CheckpointPolicy):
    """Lets a call go on to its body only once a door is open."""

    door: Shut

    async def before_tool(self, journal: Durable) -> None:
        await super().before_tool(journal)
        await self.door.pass_through()


async def test_a_call_that_waits_for_the_disk_while_the_mode_is_narrowed_to_nothing_is_not_run() -> None:
    tool = ToldTool("run", access=Access(kind="execute"))
    policy = WaitingPolicy()
    policy.door = Shut()
    policy.door.shut()
    world = World.of([asks("run"), {"text": "done"}], tool, policy=policy)
    with anyio.fail_after(5):
        async with world.running(), anyio.create_task_group() as tasks:
            tasks.start_soon(world.prompt)
            await policy.door.reached.wait()
            await world.agent.configure("mode", "plan")
            policy.door.open()
        [result] = world.of_type("tool/result")
        assert (result.code, tool.entered, len(world.of_type("tool/call"))) == ("DENIED", [], 1)
        assert "It was not run" in result.content[0].text
        assert world.of_type("turn/end")[0].reason == "completed"
