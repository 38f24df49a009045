"""A checkpoint policy of somebody else that does not wait, fails or never returns: nothing behind it happens."""

from pathlib import Path

import anyio
import pytest
from support.barriers import METHODS
from support.world import ToldTool, World, asks

from acp_bridge.checkpoint import CheckpointPolicy, CoarsePolicy
from acp_bridge.config import load
from acp_bridge.content import Text
from acp_bridge.errors import BarrierFailed, BarrierTimeout, ConfigError
from acp_bridge.headless import open_runtime
from acp_bridge.session import BarrierKind, Durable, Policy, VerifiedPolicy


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


class Told(CheckpointPolicy):
    """The built-in policy, one barrier of which does as it is told."""

    at: str = ""
    how: str = ""

    def __init__(self, at: str, how: str) -> None:
        super().__init__()
        self.at, self.how = at, how

    async def _do(self, kind: BarrierKind, journal: Durable) -> None:
        if kind != self.at:
            await getattr(super(), METHODS[kind])(journal)
            return
        match self.how:
            case "returns early":
                return
            case "fails inside":
                raise KeyError("no such shard")
            case "exits":
                raise SystemExit(2)
            case "times out inside":
                raise TimeoutError
            case _:
                await anyio.sleep_forever()

    async def before_request(self, journal: Durable) -> None:
        await self._do("request", journal)

    async def before_tool(self, journal: Durable) -> None:
        await self._do("tool", journal)

    async def after_turn(self, journal: Durable) -> None:
        await self._do("turn", journal)

    async def after_open(self, journal: Durable) -> None:
        await self._do("open", journal)

    async def before_answer(self, journal: Durable) -> None:
        await self._do("answer", journal)


HOWS = ["returns early", "fails inside", "exits", "times out inside", "never returns"]


@pytest.mark.parametrize("how", HOWS)
async def test_no_request_is_sent_behind_a_request_barrier_that_was_not_passed(how: str) -> None:
    world = World.of([{"text": "done"}], policy=Told("request", how), deadline_s=0.01)
    with anyio.fail_after(5):
        async with world.running():
            outcome = await world.prompt()
            assert (outcome.reason, outcome.failure.kind) == ("error", "not_saved")
            assert world.model.requests == []


@pytest.mark.parametrize("how", HOWS)
async def test_no_body_is_entered_behind_a_tool_barrier_that_was_not_passed(how: str) -> None:
    tool = ToldTool("t")
    world = World.of([asks("t"), {"text": "done"}], tool, policy=Told("tool", how), deadline_s=0.01)
    with anyio.fail_after(5):
        async with world.running():
            outcome = await world.prompt()
            assert (outcome.reason, outcome.failure.kind) == ("error", "not_saved")
            [result] = world.of_type("tool/result")
            assert result.code == "NOT_SAVED"
            assert "was not run" in result.content[0].text
            assert tool.entered == []


@pytest.mark.parametrize("how", HOWS)
async def test_a_turn_whose_barrier_was_not_passed_is_answered_as_not_saved(how: str) -> None:
    world = World.of([{"text": "done"}], policy=Told("turn", how), deadline_s=0.01)
    with anyio.fail_after(5):
        async with world.running():
            outcome = await world.prompt()
            assert (outcome.reason, outcome.failure.kind) == ("error", "not_saved")


@pytest.mark.parametrize("how", HOWS)
async def test_a_change_whose_barrier_was_not_passed_is_not_confirmed(how: str) -> None:
    world = World.of([], policy=Told("answer", how), deadline_s=0.01, mode="ask")
    with anyio.fail_after(5):
        async with world.running():
            with pytest.raises(BarrierFailed):
                await world.agent.configure("mode", "full")
            assert world.agent.mode == "ask"


@pytest.mark.parametrize("kind", METHODS)
async def test_what_a_barrier_is_for_decides_what_is_looked_at(kind: BarrierKind) -> None:
    """A composition without the policy still waits where somebody is told that something is saved."""
    policy = VerifiedPolicy.of(CoarsePolicy(), 30)
    world = World.of([])
    with anyio.fail_after(5):
        async with world.running():
            world.agent.submit((Text(text="Do it."),))
            world.agent.cancel("client")
            await getattr(policy, METHODS[kind])(world.journal)
            waited = world.journal.durable_seq == world.journal.last_seq
            assert waited == (kind in ("turn", "open", "answer"))


@pytest.mark.parametrize("kind", ["turn", "open", "answer"])
async def test_what_is_told_to_be_saved_is_looked_at_though_a_policy_claims_nothing(kind: BarrierKind) -> None:
    class Silent(Told):
        @property
        def barriers(self) -> tuple[BarrierKind, ...]:
            return ()

    policy = VerifiedPolicy.of(Silent(kind, "returns early"), 30)
    world = World.of([])
    with anyio.fail_after(5):
        async with world.running():
            world.agent.submit((Text(text="Do it."),))
            world.agent.cancel("client")
            with pytest.raises(BarrierFailed, match=f"passed the {kind} barrier before its events were on disk"):
                await getattr(policy, METHODS[kind])(world.journal)


async def test_what_never_returns_meets_the_deadline_of_the_core() -> None:
    policy = VerifiedPolicy.of(Told("answer", "never returns"), 0.01)
    world = World.of([])
    with anyio.fail_after(5):
        async with world.running():
            with pytest.raises(BarrierTimeout, match=r"Told did not return from the answer barrier within 0\.512 s"):
                await policy.before_answer(world.journal)


async def test_a_policy_cannot_take_its_claim_back_later() -> None:
    class Moody(Told):
        claims: tuple[BarrierKind, ...] = CheckpointPolicy().barriers

        @property
        def barriers(self) -> tuple[BarrierKind, ...]:
            return self.claims

    moody = Moody("tool", "returns early")
    world = World.of([asks("t"), {"text": "done"}], ToldTool("t"), policy=moody)
    with anyio.fail_after(5):
        async with world.running():
            moody.claims = ()
            assert (await world.prompt()).reason == "error"


@pytest.mark.parametrize("durable", [True, False])
async def test_the_disk_decides_what_is_shown_where_a_policy_cannot_say(durable: bool) -> None:
    class Unsure(CheckpointPolicy):
        def may_show_result(self, journal: Durable, seq: int) -> bool:
            raise RuntimeError("not today")

    policy = VerifiedPolicy.of(Unsure(), 30)
    world = World.of([{"text": "done"}])
    with anyio.fail_after(5):
        async with world.running():
            await world.prompt()
            journal = world.journal
            assert (
                policy.may_show_result(journal, journal.durable_seq if durable else journal.durable_seq + 1) is durable
            )


async def test_no_status_is_shown_before_the_disk_has_it_whatever_a_policy_says() -> None:
    class Hasty(CheckpointPolicy):
        def may_show_result(self, journal: Durable, seq: int) -> bool:
            return True

    world = World.of([{"text": "done"}])
    with anyio.fail_after(5):
        async with world.running():
            await world.prompt()
            assert not VerifiedPolicy.of(Hasty(), 30).may_show_result(world.journal, world.journal.durable_seq + 1)


class Partial(CheckpointPolicy):
    """Waits everywhere, and says so of a part only."""

    @property
    def barriers(self) -> tuple[BarrierKind, ...]:
        return ("turn", "open", "answer")


class Inventive(CheckpointPolicy):
    @property
    def barriers(self) -> tuple[BarrierKind, ...]:
        return (*super().barriers, "lunch")  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize(
    ("policy", "said"),
    [(Partial(), "'Partial' leaves out the barriers step, request, tool, result"), (Inventive(), "'lunch'")],
)
async def test_leaving_the_policy_out_in_words_is_the_one_way_to_run_coarser(
    tmp_path: Path, policy: Policy, said: str
) -> None:
    config = load({"ACP_BRIDGE_HOME": str(tmp_path), "ACP_BRIDGE_MODEL": "demo"})
    with anyio.fail_after(5):
        with pytest.raises(ConfigError, match=said):
            async with open_runtime(config, policy=policy):
                pass


async def test_the_composition_verifies_whoever_s_policy_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    config = load({"ACP_BRIDGE_HOME": str(tmp_path / "home"), "ACP_BRIDGE_MODEL": "demo"})
    with anyio.fail_after(10):
        async with open_runtime(config, policy=Told("request", "returns early")) as runtime:
            session = await runtime.new_session(str(tmp_path / "work"))
            async with session.prompt("hello") as turn:
                _ = [happened async for happened in turn]
            assert turn.outcome is not None
            assert turn.outcome.failure is not None
            assert turn.outcome.failure.kind == "not_saved"
            assert "Told passed the request barrier before its events were on disk" in turn.outcome.failure.message
