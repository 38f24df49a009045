"""A hold on a session that was lost, or cannot be confirmed: nothing behind the barrier happens, saved or not."""

from typing import Any

import anyio
import pytest
from support.barriers import METHODS
from support.world import ToldTool, World, asks

from acp_bridge.checkpoint import CheckpointPolicy, CoarsePolicy
from acp_bridge.errors import BarrierFailed, BarrierTimeout, ConfigError, StoreError, StoreReplaced
from acp_bridge.ports import require_port
from acp_bridge.session import BarrierKind, ContainedStore, Header, Loaded, Store, VerifiedPolicy
from acp_bridge.storage import MemoryStore
from acp_bridge.testing.store_contract import A_TURN, header, make_session, records

STOLEN = StoreReplaced("session s1 is held by another machine", session_id="s1")
AWAY = StoreError("the service cannot be reached", session_id="s1")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


def unconfirmed_behind(world: World, event_type: str, error: Exception) -> None:
    """Let the hold be in doubt where the last event logged is of this type."""

    async def confirm() -> None:
        if world.journal.log.records[-1].event.type == event_type:
            raise error

    world.store.on_confirm = confirm


@pytest.mark.parametrize("error", [STOLEN, AWAY, KeyError("lease")])
async def test_no_request_is_sent_under_a_hold_that_is_not_confirmed(error: Exception) -> None:
    world = World.of([{"text": "done"}])
    with anyio.fail_after(5):
        async with world.running():
            unconfirmed_behind(world, "request/header", error)
            outcome = await world.prompt()
            assert (outcome.reason, outcome.failure.kind) == ("error", "not_saved")
            assert world.model.requests == []


@pytest.mark.parametrize("error", [STOLEN, AWAY, KeyError("lease")])
async def test_no_body_is_entered_under_a_hold_that_is_not_confirmed(error: Exception) -> None:
    tool = ToldTool("t")
    world = World.of([asks("t"), {"text": "done"}], tool)
    with anyio.fail_after(5):
        async with world.running():
            unconfirmed_behind(world, "tool/call", error)
            outcome = await world.prompt()
            assert outcome.reason == "error"
            assert tool.entered == []


async def test_a_turn_is_not_answered_as_saved_under_a_hold_that_is_not_confirmed() -> None:
    world = World.of([{"text": "done"}])
    with anyio.fail_after(5):
        async with world.running():
            unconfirmed_behind(world, "turn/end", STOLEN)
            outcome = await world.prompt()
            assert (outcome.reason, outcome.failure.kind) == ("error", "not_saved")


@pytest.mark.parametrize("kind", METHODS)
async def test_every_barrier_confirms_the_hold_once(kind: BarrierKind) -> None:
    world = World.of([])
    with anyio.fail_after(5):
        async with world.running():
            for policy in (CheckpointPolicy(), CoarsePolicy()):
                before = world.store.confirmed
                await getattr(VerifiedPolicy.of(policy, 30), METHODS[kind])(world.journal)
                assert world.store.confirmed == before + 1


async def test_a_hold_that_is_somebody_elses_is_not_asked_for_again() -> None:
    world = World.of([])
    policy = VerifiedPolicy.of(CheckpointPolicy(), 30)
    with anyio.fail_after(5):
        async with world.running():
            failures: list[StoreError] = []
            world.journal.on_failure(failures.append)
            world.store.on_confirm = _raises(STOLEN)
            with pytest.raises(BarrierFailed, match="held by another machine"):
                await policy.before_request(world.journal)
            assert failures == [STOLEN]
            assert world.journal.failure is STOLEN


async def test_a_service_that_was_away_for_a_moment_costs_one_barrier() -> None:
    world = World.of([{"text": "done"}, {"text": "done"}])
    with anyio.fail_after(5):
        async with world.running():
            unconfirmed_behind(world, "request/header", AWAY)
            assert (await world.prompt()).reason == "error"
            world.store.on_confirm = _raises(None)
            assert (await world.prompt()).reason == "completed"


async def test_a_confirmation_that_never_comes_meets_the_deadline() -> None:
    world = World.of([])
    policy = VerifiedPolicy.of(CheckpointPolicy(), 0.01)
    with anyio.fail_after(5):
        async with world.running():
            world.store.on_confirm = anyio.sleep_forever
            with pytest.raises(BarrierTimeout, match="did not confirm its hold on the session behind the tool barrier"):
                await policy.before_tool(world.journal)


def _raises(error: Exception | None) -> Any:
    async def confirm() -> None:
        if error is not None:
            raise error

    return confirm


# --- somebody else's store, as it was written for an earlier port or wrongly ---


class _OldSession:
    """A held session without `confirm`."""

    def __init__(self, inner: Any) -> None:
        for name in ("append", "repair", "salvage", "put_content", "get_content", "close", "loaded", "warning"):
            setattr(self, name, getattr(inner, name))


class OldStore(MemoryStore):
    async def create(self, header: Header, records: Any) -> Any:
        return _OldSession(await super().create(header, records))


async def test_a_held_session_of_the_former_port_is_refused_with_what_it_lacks() -> None:
    store = ContainedStore(OldStore(), "'mine:OldStore'")
    with pytest.raises(StoreError, match=r"'mine:OldStore' returned .*_OldSession from create\(\), .* no confirm"):
        await store.create(header(), records(A_TURN))


def test_a_store_of_the_former_port_is_refused_with_what_it_lacks() -> None:
    class Former:
        create = hold = read = list = delete = fork = sweep = None

    with pytest.raises(ConfigError, match="which has no salvage, verify: it is no Store"):
        require_port(Former(), Store, "'mine:Former'", "storage")


@pytest.mark.parametrize(
    ("loaded", "said"),
    [
        (Loaded(header(), tuple(records(A_TURN))), "returned 2 records from read(), where 1 were asked for"),
        (Loaded(header(), tuple(records(A_TURN[:1])), has_more=True), "there is more behind record 0, and not where"),
    ],
)
async def test_a_piece_that_would_be_read_for_ever_or_is_too_large_is_refused(loaded: Loaded, said: str) -> None:
    class Endless(MemoryStore):
        async def read(self, session_id: str, *, from_seq: int = 0, limit: int | None = None) -> Loaded:
            return loaded

    store = ContainedStore(Endless(), "'mine:Endless'")
    with pytest.raises(StoreError) as refused:
        await store.read("s1", limit=1)
    assert said in str(refused.value)


@pytest.mark.parametrize("method", ["verify", "salvage"])
async def test_what_a_store_finds_is_held_to_its_port(method: str) -> None:
    class Vague(MemoryStore):
        async def verify(self, session_id: str) -> Any:
            return "fine"

        salvage = verify

    memory = Vague()
    await make_session(memory)
    with pytest.raises(StoreError, match=rf"returned a value of type str from {method}\(\), and not Verification"):
        await getattr(ContainedStore(memory, "'mine:Vague'"), method)("s1")
