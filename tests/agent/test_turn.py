"""What the loop does with answers, failures, tools and queued prompts."""

from dataclasses import replace
from typing import Any

import anyio
import pytest
from support.strict_provider import accept
from support.world import Shut, ToldTool, World, asks

from acp_bridge.agent import Job, Options, Outcome
from acp_bridge.agent.offer import Offer
from acp_bridge.checkpoint import CheckpointPolicy
from acp_bridge.content import Failure, Location, Text, Thought, ToolRequest, Usage
from acp_bridge.errors import BarrierFailed, BarrierTimeout, ToolError
from acp_bridge.limits import MIB
from acp_bridge.session import Durable, FromTools, InputDropped, TurnEnded
from acp_bridge.tools import Presentation


def fail(kind: str = "rate_limit", **more: Any) -> dict[str, Any]:
    return {"deltas": [{"text": "half"}, {"fail": {"kind": kind, "message": "no", **more}}]}


async def test_retries_are_logged_and_shown_as_messages_of_their_own() -> None:
    world = World.of([fail(retry_after_s=0.0), fail("timeout"), {"text": "whole"}])
    with anyio.fail_after(5):
        async with world.running():
            assert (await world.prompt()).reason == "completed"
    failed = world.of_type("request/failed")
    assert [(e.attempt, e.message_id, e.failure.kind, e.retry_after_s) for e in failed] == [
        (1, "msg_1_1", "rate_limit", 0.0),
        (2, "msg_1_1_2", "timeout", 0.0),
    ]
    assert [e.id for e in world.of_type("assistant/message")] == ["msg_1_1_3"]
    assert len({repr(request.messages) for request in world.model.requests}) == 1


async def test_a_retry_waits_as_long_as_the_provider_says_and_no_longer_than_is_bearable() -> None:
    options = Options(max_attempts=3, retry_wait_s=9.0, max_retry_wait_s=60.0)
    world = World.of([fail(retry_after_s=61.0)], options=options)
    with anyio.fail_after(5):
        async with world.running():
            outcome = await world.prompt()
    assert (outcome.reason, outcome.failure.kind) == ("error", "rate_limit")
    assert [e.retry_after_s for e in world.of_type("request/failed")] == [None]


async def test_attempts_are_bounded_and_a_final_failure_is_not_retried() -> None:
    for answers, attempts in (([fail()], 3), ([fail("auth")], 1), ([fail(retryable=False)], 1)):
        world = World.of(answers)
        with anyio.fail_after(5):
            async with world.running():
                assert (await world.prompt()).reason == "error"
        assert len(world.model.requests) == attempts


async def test_requests_of_a_turn_are_bounded() -> None:
    world = World.of([asks("t")] * 9, ToldTool("t"))
    with anyio.fail_after(5):
        async with world.running():
            assert (await world.prompt()).reason == "max_requests"
            accept(world.model.requests[-1].messages)
    assert len(world.model.requests) == world.options.max_requests


async def test_an_empty_answer_is_tried_again() -> None:
    world = World.of([{"deltas": [{"text": "  \n"}]}, {"text": "after all"}])
    with anyio.fail_after(5):
        async with world.running():
            await world.prompt()
    assert [e.failure.kind for e in world.of_type("request/failed")][:1] == ["empty"]


@pytest.mark.parametrize(("stop", "reason"), [("length", "max_tokens"), ("refusal", "refused")])
async def test_requests_of_a_cut_off_answer_are_not_run(stop: str, reason: str) -> None:
    tool = ToldTool("t")
    world = World.of([asks("t", text="I will") | {"stop": stop}, {"text": "next"}], tool)
    with anyio.fail_after(5):
        async with world.running():
            assert (await world.prompt()).reason == reason
            assert (tool.entered, world.of_type("tool/result")) == ([], [])
            await world.prompt()
            accept(world.model.requests[-1].messages)


@pytest.mark.parametrize(
    ("stop", "forms"), [("end", ["thinking", "thinking"]), ("length", ["thinking", ""]), ("refusal", ["thinking", ""])]
)
async def test_of_a_cut_off_answer_signed_thoughts_alone_go_back(stop: str, forms: list[str]) -> None:
    """The last of them may be half a thought, which a provider that signs them refuses."""
    signed = {"thought": "hm", "signature": "s", "form": "thinking"}
    pieces = [signed, {"thought": "so", "form": "thinking"}, {"text": "a"}]
    world = World.of([{"deltas": pieces, "stop": stop, "kept": {"message": {"seal": 1}}}])
    with anyio.fail_after(5):
        async with world.running():
            await world.prompt()
    (message,) = world.of_type("assistant/message")
    assert [block.form for block in message.content if isinstance(block, Thought)] == forms
    assert message.extra == ({"seal": 1} if stop == "end" else None)


async def test_bad_arguments_and_unknown_tools_are_told_to_the_model() -> None:
    tool = ToldTool("t")
    requests = [{"name": "t", "arguments": "{broken"}, {"name": "t", "arguments": "[1]"}, {"name": "nope"}]
    world = World.of([{"tools": requests}, {"text": "I see"}], tool)
    with anyio.fail_after(5):
        async with world.running():
            assert (await world.prompt()).reason == "completed"
            accept(world.model.requests[-1].messages)
    assert [e.code for e in world.of_type("tool/result")] == [
        "INVALID_ARGUMENTS",
        "INVALID_ARGUMENTS",
        "UNKNOWN_TOOL",
    ]
    assert (tool.entered, world.of_type("tool/call")) == ([], [])


async def test_a_tool_that_fails_ends_no_turn() -> None:
    for error, code in ((ToolError("no such file"), "FAILED"), (ValueError("a defect"), "FAILED")):
        tool = ToldTool("t")
        tool.raises = error
        world = World.of([asks("t"), {"text": "I see"}], tool)
        with anyio.fail_after(5):
            async with world.running():
                assert (await world.prompt()).reason == "completed"
        assert [(e.code, e.is_error) for e in world.of_type("tool/result")] == [(code, True)]


async def test_calls_so_marked_run_side_by_side_ten_at_most_and_others_alone() -> None:
    side, alone = ToldTool("side", parallel=True), ToldTool("alone")
    side.door.shut()
    world = World.of([asks(*["side"] * 12, "alone", "side", "side"), {"text": "done"}], side, alone)
    seen: list[int] = []
    alone.on_enter = lambda: seen.append(side.running)
    with anyio.fail_after(5):
        async with world.running(), anyio.create_task_group() as tasks:
            tasks.start_soon(world.prompt)
            await side.door.reached.wait()
            await anyio.wait_all_tasks_blocked()
            assert side.running == 10
            side.door.open()
    assert (side.most_running, seen, alone.most_running) == (10, [0], 1)
    answers = world.model.requests[-1].messages[-1]
    assert isinstance(answers, FromTools)
    assert [answer.call_id for answer in answers.answers] == [f"call_1_1_{n}" for n in range(1, 16)]


async def test_results_are_logged_as_they_settle_and_told_as_they_were_asked_for() -> None:
    slow, quick = ToldTool("slow", parallel=True), ToldTool("quick", parallel=True)
    slow.door.shut()
    world = World.of([asks("slow", "quick"), {"text": "done"}], slow, quick)
    with anyio.fail_after(5):
        async with world.running(), anyio.create_task_group() as tasks:
            tasks.start_soon(world.prompt)
            await slow.door.reached.wait()
            await anyio.wait_all_tasks_blocked()
            slow.door.open()
    assert [e.call_id for e in world.of_type("tool/result")] == ["call_1_1_2", "call_1_1_1"]
    answers = world.model.requests[-1].messages[-1]
    assert isinstance(answers, FromTools)
    assert [answer.call_id for answer in answers.answers] == ["call_1_1_1", "call_1_1_2"]


async def test_prompts_run_one_after_another_and_a_cancel_drops_those_that_wait() -> None:
    world = World.of([{"deltas": [{"text": "I am at"}, {"hang": True}]}, {"text": "three"}])
    with anyio.fail_after(5):
        async with world.running():
            jobs = [world.agent.submit((Text(text=word),)) for word in ("one", "two")]
            await world.model.door.reached.wait()
            await anyio.wait_all_tasks_blocked()
            world.agent.cancel("client")
            assert [(await world.agent.settled(job)).reason for job in jobs] == ["cancelled", "cancelled"]
            assert (await world.prompt("three")).reason == "completed"
            accept(world.model.requests[-1].messages)
        assert InputDropped(id=jobs[1].input_id, reason="cancelled") in world.saved()
    assert [(e.reason, e.by) for e in world.of_type("turn/end")] == [("cancelled", "client"), ("completed", None)]


async def test_taking_one_prompt_back_leaves_the_others() -> None:
    world = World.of([{"text": "one"}, {"text": "three"}])
    world.model.door.shut()
    with anyio.fail_after(5):
        async with world.running():
            jobs = [world.agent.submit((Text(text=word),)) for word in ("one", "two", "three")]
            await world.model.door.reached.wait()
            world.agent.cancel_job(jobs[1], "client")
            world.model.door.open()
            reasons = [(await world.agent.settled(job)).reason for job in jobs]
    assert reasons == ["completed", "cancelled", "completed"]


async def test_a_prompt_that_was_taken_back_is_answered_as_not_saved_while_the_log_may_still_have_it_waiting() -> None:
    world = World.of([{"text": "one"}])
    world.model.door.shut()
    with anyio.fail_after(5):
        async with world.running():
            _, second = (world.agent.submit((Text(text=word),)) for word in ("one", "two"))
            await world.model.door.reached.wait()
            world.store.memory.failing = True
            world.agent.cancel_job(second, "client")
            outcome = await world.agent.settled(second)
            assert outcome.failure is not None
            assert outcome.failure.kind == "not_saved"


async def test_a_prompt_is_settled_by_its_own_turns_barrier_whatever_the_next_turn_meets() -> None:
    world = World.of([{"text": "one"}, {"text": "two"}])
    with anyio.fail_after(5):
        async with world.running():
            first, second = (world.agent.submit((Text(text=word),)) for word in ("one", "two"))
            first.then = lambda: setattr(world.store.memory, "failing", True)
            assert (await world.agent.settled(first)).reason == "completed"
            outcome = await world.agent.settled(second)
            assert outcome.failure is not None
            assert outcome.failure.kind == "not_saved"


async def test_an_interrupted_turn_is_gone_on_with_once_without_inventing_a_message() -> None:
    world = World.of([asks("t"), {"deltas": [{"text": "half an ans"}, {"hang": True}]}], ToldTool("t"))
    with anyio.fail_after(5):
        async with world.killed():
            world.agent.submit((Text(text="Do it."),))
            while len(world.model.requests) < 2:
                await anyio.wait_all_tasks_blocked()
            await anyio.wait_all_tasks_blocked()
            await world.journal.flush(world.journal.last_seq)
        again = World.of([{"text": "not this"}, {"text": "whole"}], ToldTool("t"), store=world.store)
        async with again.running(take=True):
            assert again.agent.continuable() == 1
            job = again.agent.submit_continuation()
            assert job is not None
            assert again.agent.submit_continuation() is None
            assert (await again.agent.settled(job)).reason == "completed"
            assert again.agent.continuable() is None
            assert again.agent.submit_continuation() is None  # idle, and nothing is due
    [request] = again.model.requests
    assert request.messages == world.model.requests[1].messages
    assert [e.continues for e in again.of_type("turn/start")] == [None, 1]
    assert len(again.of_type("user/message")) == 1


async def test_a_defect_in_the_loop_ends_the_turn_and_keeps_all_that_was_shown() -> None:
    world = World.of([{"deltas": [{"text": "shown"}, {"hang": True}]}, {"text": "next"}])

    class Broken(Exception):
        pass

    with anyio.fail_after(5):
        async with world.running():
            door = world.model.door
            door.shut()
            job = world.agent.submit((Text(text="Do it."),))
            await door.reached.wait()
            world.agent.journal.stream(1, 1, "msg_1_1", "text", "shown")

            async def broken() -> None:
                raise Broken

            door.pass_through = broken
            world.peer.congested = True
            world.peer.ready = broken
            door.open()
            outcome = await world.agent.settled(job)
            assert outcome.failure == Failure(kind="internal", message="the agent failed inside")
            [message] = world.of_type("assistant/message")
            assert "".join(block.text for block in message.content).startswith("shown")
            assert world.journal.log.state.turn is None
            assert world.saved()[-1] == TurnEnded(turn=1, reason="error", failure=outcome.failure)
            world.model.door, world.peer.congested = Shut(), False
            assert (await world.prompt()).reason == "completed"


async def test_the_agent_is_stopped_with_the_loops_own_last_events() -> None:
    tool = ToldTool("t")
    tool.door.shut()
    world = World.of([asks("t", "t")], tool)
    with anyio.fail_after(5):
        async with world.running():
            job = world.agent.submit((Text(text="Do it."),))
            await tool.door.reached.wait()
            world.agent.stop("shutdown")
            late = world.agent.submit((Text(text="Too late."),))
            await world.agent.quiet()
            assert (job.outcome, late.outcome) == (job.outcome, late.outcome)
            assert [(e.code) for e in world.of_type("tool/result")] == ["ABORTED", "ABORTED_BEFORE_DISPATCH"]
            assert world.of_type("turn/end") == [TurnEnded(turn=1, reason="cancelled", by="shutdown")]
            assert not any(record.synthetic for record in world.journal.log.records)
            assert world.saved() == world.events
            assert world.agent.continuable() == 1


async def test_what_a_tool_says_in_a_broken_encoding_is_mended_and_saved() -> None:
    tool = ToldTool("t")
    tool.present = lambda arguments, workspace: _presentation("\udcff")
    tool.raises = ToolError("cannot open '\udcff'")
    world = World.of([asks("t"), {"text": "done"}], tool)
    with anyio.fail_after(5):
        async with world.running():
            assert (await world.prompt()).reason == "completed"
            assert world.saved() == world.events
    [message, _] = world.of_type("assistant/message")
    [request] = message.content
    assert isinstance(request, ToolRequest)
    assert request.title == "\ufffd"
    assert request.locations[0].path == "/\ufffd"


def _presentation(name: str) -> Any:
    return Presentation(title=name, kind="edit", locations=(Location(path=f"/{name}"),))


async def test_counts_that_no_log_can_hold_are_cut_to_what_it_can() -> None:
    usage = {"input_tokens": 2**64 - 1, "output_tokens": -5, "thought_tokens": 3}
    world = World.of([{"text": "one", "usage": usage}, {"text": "two"}])
    with anyio.fail_after(5):
        async with world.running():
            assert (await world.prompt()).reason == "completed"
            assert (await world.prompt()).reason == "completed"
            assert world.saved() == world.events
    [message, _] = world.of_type("assistant/message")
    assert message.usage == Usage(input_tokens=2**53, thought_tokens=3)
    assert [event.used for event in world.of_type("usage")] == [2**53]


async def test_a_prompt_that_a_defect_kept_from_running_is_dropped_with_words_and_the_next_one_runs() -> None:
    world = World.of([{"text": "fine"}])

    async def broken() -> bool:
        raise ValueError("no")

    with anyio.fail_after(5):
        async with world.running():
            world.agent._earlier_ended = broken
            job = world.agent.submit((Text(text="Do it."),))
            later = world.agent.submit((Text(text="And this."),))
            outcome = await world.agent.settled(job)
            assert outcome.failure == Failure(kind="internal", message="the agent failed inside")
            world.agent._earlier_ended = None
            assert world.of_type("input/dropped") == [InputDropped(id=job.input_id, reason="interrupted")]
            assert (await world.agent.settled(later)).reason == "completed"
            assert world.saved() == world.events
    assert world.journal.log.state.queued == {}


async def test_a_defect_that_ends_the_agent_leaves_nobody_waiting() -> None:
    world = World.of([{"text": "never said"}])

    class Broken(Exception):
        pass

    async def broken(*args: object) -> None:
        raise Broken

    outcomes: list[Outcome] = []
    world.model.door.shut()
    with anyio.fail_after(5), pytest.raises(ExceptionGroup) as raised:
        async with world.running():
            jobs = [world.agent.submit((Text(text=text),)) for text in ("Do it.", "And this.")]
            await world.model.door.reached.wait()
            world.journal._write = broken
            world.journal._wanted.set()
            with anyio.move_on_after(5, shield=True):
                jobs.append(await _submitted_to_a_dead(world))
                outcomes = [await job.wait() for job in jobs]
    assert raised.group_contains(Broken)
    assert [outcome.reason for outcome in outcomes] == ["error"] * 3
    assert not world.agent.busy


async def _submitted_to_a_dead(world: World) -> Job:
    await world.agent.quiet()
    return world.agent.submit((Text(text="Too late."),))


async def test_a_turn_that_cannot_even_be_closed_by_force_is_answered() -> None:
    world = World.of([{"text": "never said"}])

    class Broken(Exception):
        pass

    async def broken(*args: object) -> None:
        raise Broken

    world.model.on_request = lambda: setattr(world.agent, "_close_by_force", broken)
    world.peer.congested, world.peer.ready = True, broken
    outcome: Outcome | None = None
    with anyio.fail_after(5), pytest.raises(ExceptionGroup) as raised:
        async with world.running():
            job = world.agent.submit((Text(text="Do it."),))
            with anyio.move_on_after(5, shield=True):
                outcome = await job.wait()
    assert raised.group_contains(Broken)
    assert outcome == Outcome(reason="error", failure=Failure(kind="internal", message="the agent failed inside"))


async def test_schemas_are_made_ready_for_the_log_once_and_anew_when_a_tool_is_another() -> None:
    tool, other = ToldTool("t"), ToldTool("u")
    offer = Offer()
    once = offer.of((tool, other))
    assert offer.of((tool, other)) is once
    assert [entry["name"] for entry in once] == ["t", "u"]
    tool.spec = replace(tool.spec, description="another")
    assert [entry["description"] for entry in offer.of((tool, other))] == ["another", "u"]
    assert offer.of((other,)) == once[1:]


async def test_a_body_that_fails_as_a_barrier_does_has_been_run_all_the_same() -> None:
    tool = ToldTool("t")
    tool.raises = BarrierFailed("of another journal", barrier="turn")
    world = World.of([asks("t"), {"text": "done"}], tool)
    with anyio.fail_after(5):
        async with world.running():
            assert (await world.prompt()).reason == "completed"
    [result] = world.of_type("tool/result")
    assert (result.code, len(tool.entered)) == ("FAILED", 1)


async def test_a_cancelled_first_turn_leaves_the_wait_for_earlier_commands_to_the_next() -> None:
    world = World.of([{"text": "fine"}] * 3)
    waits = anyio.Event()

    async def never() -> bool:
        waits.set()
        await anyio.sleep_forever()
        return True

    async def still_running() -> bool:
        return False

    with anyio.fail_after(5):
        async with world.running():
            world.agent._earlier_ended = never
            job = world.agent.submit((Text(text="Do it."),))
            await waits.wait()
            world.agent.cancel("client")
            assert (await world.agent.settled(job)).reason == "cancelled"
            assert world.agent._earlier_ended is never
            world.agent._earlier_ended = still_running
            assert [(await world.prompt()).reason for _ in range(2)] == ["completed", "completed"]
    notes = [event.content[0].text for event in world.of_type("user/message") if event.source == "program"]
    assert len(notes) == 1
    assert "may still be running" in notes[0]


async def test_a_tool_barrier_that_times_out_runs_nothing_more_and_asks_the_model_no_more() -> None:
    """After a deadline the log is sound and the next barrier may pass: the turn ends all the same."""

    class Late(CheckpointPolicy):
        async def before_tool(self, journal: Durable) -> None:
            raise BarrierTimeout("the disk did not confirm", barrier="tool")

    tools = [ToldTool("t"), ToldTool("u")]
    world = World.of([asks("t", "u"), {"text": "and on"}], *tools, policy=Late())
    with anyio.fail_after(5):
        async with world.running():
            outcome = await world.prompt()
    assert outcome.failure is not None
    assert (outcome.reason, outcome.failure.kind) == ("error", "not_saved")
    assert [e.code for e in world.of_type("tool/result")] == ["NOT_SAVED", "ABORTED_BEFORE_DISPATCH"]
    assert [len(tool.entered) for tool in tools] == [0, 0]
    assert len(world.model.requests) == 1


async def test_what_any_model_sends_without_end_breaks_its_answer_and_is_not_asked_for_again() -> None:
    world = World.of([{"deltas": [{"text": "x" * MIB}] * 17}, {"text": "whole"}])
    with anyio.fail_after(10):
        async with world.running():
            outcome = await world.prompt()
    assert (outcome.reason, outcome.failure.kind) == ("error", "broken_stream")
    assert "longer than 16 MiB" in outcome.failure.message
    assert len(world.model.requests) == 1


async def test_halves_of_a_character_from_any_model_are_joined() -> None:
    world = World.of([{"deltas": [{"text": "a \ud83d"}, {"text": "\ude00 b"}]}])
    with anyio.fail_after(5):
        async with world.running():
            await world.prompt()
    assert world.of_type("assistant/message")[0].content == (Text(text="a 😀 b"),)
