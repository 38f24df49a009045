"""A part that was written for an earlier version's port is refused by name: its methods would never be called."""

from collections.abc import Callable
from pathlib import Path

import pytest

from acp_bridge.checkpoint import CheckpointPolicy
from acp_bridge.config import load
from acp_bridge.errors import ConfigError
from acp_bridge.headless import open_runtime
from acp_bridge.ports import FORMER_NAMES, require_port
from acp_bridge.session import BarrierKind, Durable, ObserverSource, Policy

FORMER = FORMER_NAMES["Policy"]


class OldPolicy:
    """Every member as the port had it before."""

    barriers: tuple[BarrierKind, ...] = CheckpointPolicy().barriers

    async def request(self, journal: Durable) -> None:
        await journal.flush(journal.last_seq)

    tool = turn = open = answer = request

    def settled(self, journal: Durable, seq: int) -> bool:
        return journal.durable_seq >= seq


class HalfOld(CheckpointPolicy):
    """Has every name of today, by inheritance, and counts on an old one."""

    async def tool(self, journal: Durable) -> None:
        await journal.flush(journal.last_seq)


class ForBoth(HalfOld):
    """Serves an earlier version and this one."""

    async def before_tool(self, journal: Durable) -> None:
        await self.tool(journal)


def odd_instance() -> CheckpointPolicy:
    class Open(CheckpointPolicy):
        pass

    policy = Open()
    policy.turn = policy.after_turn  # pyright: ignore[reportAttributeAccessIssue]
    return policy


async def composed(policy: object, tmp_path: Path) -> None:
    config = load({"ACP_BRIDGE_HOME": str(tmp_path), "ACP_BRIDGE_MODEL": "demo"})
    async with open_runtime(config, policy=policy):  # pyright: ignore[reportArgumentType]
        pass


async def test_a_policy_of_the_former_port_is_refused_with_each_name_and_todays(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        await composed(OldPolicy(), tmp_path)
    for old, new in FORMER.items():
        assert f"{old} is now {new}" in str(refused.value)
    assert "OldPolicy" in str(refused.value)


@pytest.mark.parametrize(("make", "renamed"), [(HalfOld, "tool is now before_tool"), (odd_instance, "after_turn")])
async def test_an_old_method_beside_inherited_new_ones_is_refused_too(
    make: Callable[[], Policy], renamed: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=renamed) as refused:
        await composed(make(), tmp_path)
    assert "request is now" not in str(refused.value)


async def test_a_policy_that_has_both_names_serves_both_versions(tmp_path: Path) -> None:
    await composed(ForBoth(), tmp_path)


def test_a_port_without_former_names_takes_any_other_member() -> None:
    class Source:
        def observe(self, session_id: str) -> None: ...

        def tool(self) -> None: ...

    require_port(Source(), ObserverSource, "'Source'", "observer")
