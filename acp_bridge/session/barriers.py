"""The core's own look after every barrier: what a policy says it waited for must be on the disk.

Owns the check, the core's deadline, and what a failing policy's error becomes. Knows no policy by name and no event.

Decision: nobody's policy is trusted with the promise that repair is built on. A call without a result is told to have
*never started* because its tool barrier was in force; a policy that returned early would make that a lie. So the core
compares `durable_seq` with what was logged when the barrier fell due, whoever wrote the policy.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, get_args

import anyio

from acp_bridge.effects import no_stray_cancellation
from acp_bridge.errors import PART_FAILURES, BarrierFailed, BarrierTimeout, ConfigError

from .policy import BarrierKind, Durable, Policy

logger = logging.getLogger(__name__)

KINDS: Final[tuple[BarrierKind, ...]] = get_args(BarrierKind)
"""All kinds of barrier; a policy of one's own claims them all."""

_FLOOR: Final[frozenset[BarrierKind]] = frozenset(("turn", "open", "answer"))
"""What is looked at whatever a policy claims: behind these, somebody is told that something is saved."""

_SEEN_THROUGH: Final[frozenset[BarrierKind]] = frozenset(("open", "answer"))
"""What a client's taking back of its request does not cut short: a change that was logged is saved first."""

_GRACE: Final = 1.2
_GRACE_S: Final = 0.5
"""How much longer than a policy's own deadline the core waits: a policy's error says more than the core's."""


def require_all_barriers(policy: Policy, name: str, words: str) -> None:
    """Refuse a policy of one's own that claims fewer barriers than there are.

    Args:
        policy: what `name` names.
        name: as the configuration or the caller has it.
        words: what a configuration says to leave the policy out.

    Raises:
        ConfigError: it leaves some out, or claims what is no barrier.
    """
    claimed = tuple(policy.barriers)
    if unknown := [kind for kind in claimed if kind not in KINDS]:
        raise ConfigError(f"checkpoint.policy {name!r} claims {unknown[0]!r}, which is no barrier: {', '.join(KINDS)}")
    if missing := [kind for kind in KINDS if kind not in claimed]:
        raise ConfigError(
            f"checkpoint.policy {name!r} leaves out the barriers {', '.join(missing)}. A policy waits at all of them; "
            f"to run without, say checkpoint.policy = {words!r}"
        )


@dataclass(frozen=True, slots=True)
class VerifiedPolicy:
    """A policy as the core calls it: bounded, contained, and looked after.

    Attributes:
        barriers: what the policy claimed when it was composed; what it says later changes nothing.
        deadline_s: how long a barrier may take by its own configuration, in seconds.
    """

    policy: Policy
    barriers: tuple[BarrierKind, ...]
    deadline_s: float

    @classmethod
    def of(cls, policy: Policy, deadline_s: float) -> "VerifiedPolicy":
        """Return `policy`, verified from now on."""
        return cls(policy, tuple(policy.barriers), deadline_s)

    async def before_request(self, journal: Durable) -> None:
        """Pass the step and request barrier, or raise `BarrierFailed`."""
        await self._pass("request", self.policy.before_request, journal)

    async def before_tool(self, journal: Durable) -> None:
        """Pass the tool barrier, or raise `BarrierFailed`."""
        await self._pass("tool", self.policy.before_tool, journal)

    async def after_turn(self, journal: Durable) -> None:
        """Pass the turn barrier, or raise `BarrierFailed`."""
        await self._pass("turn", self.policy.after_turn, journal)

    async def after_open(self, journal: Durable) -> None:
        """Pass the open barrier, or raise `BarrierFailed`."""
        await self._pass("open", self.policy.after_open, journal)

    async def before_answer(self, journal: Durable) -> None:
        """Pass the answer barrier, or raise `BarrierFailed`."""
        await self._pass("answer", self.policy.before_answer, journal)

    def may_show_result(self, journal: Durable, seq: int) -> bool:
        """Whether a result's status may be shown: it is on disk where that is claimed, and the policy agrees.

        A policy that cannot say is not asked twice: then the disk alone decides, so that no card stays open for ever.
        """
        durable = journal.durable_seq >= seq
        if "result" in self.barriers and not durable:
            return False
        try:
            return self.policy.may_show_result(journal, seq)
        except PART_FAILURES:
            logger.exception("the checkpoint policy %s failed on a result", type(self.policy).__name__)
            return durable

    async def _pass(self, kind: BarrierKind, wait: Callable[[Durable], Awaitable[None]], journal: Durable) -> None:
        through = journal.last_seq
        try:
            async with self._bounded(kind, f"the checkpoint policy {self._name} did not return from"):
                await wait(journal)
        except BarrierFailed:
            raise
        except PART_FAILURES as exc:
            logger.exception("the checkpoint policy %s failed at the %s barrier", self._name, kind)
            raise BarrierFailed(
                f"the checkpoint policy {self._name} failed at the {kind} barrier: {exc!r}", barrier=kind
            ) from exc
        if (kind in self.barriers or kind in _FLOOR) and journal.durable_seq < through:
            raise BarrierFailed(
                f"the checkpoint policy {self._name} passed the {kind} barrier before its events were on disk "
                f"(event {through} was logged, {journal.durable_seq} is the last that is saved)",
                barrier=kind,
            )
        await self._confirm(kind, journal)

    async def _confirm(self, kind: BarrierKind, journal: Durable) -> None:
        """Make sure that the session is still held here: on disk is not enough if somebody else acts on it by now."""
        try:
            async with self._bounded(kind, "the store did not confirm its hold on the session behind"):
                await journal.confirm()
        except BarrierFailed:
            raise
        except PART_FAILURES as exc:
            raise BarrierFailed(f"the {kind} barrier was not passed: {exc}", barrier=kind) from exc

    @asynccontextmanager
    async def _bounded(self, kind: BarrierKind, what: str) -> AsyncGenerator[None]:
        """Bound what is awaited inside, and take a cancellation that nobody asked for as a failure.

        Raises:
            BarrierTimeout: it took too long; `what` says what did.
        """
        seconds = self.deadline_s * _GRACE + _GRACE_S
        try:
            with anyio.fail_after(seconds, shield=kind in _SEEN_THROUGH):
                async with no_stray_cancellation():
                    yield
        except TimeoutError as exc:
            raise BarrierTimeout(
                f"{what} the {kind} barrier within {seconds:g} s; nothing behind it was done", barrier=kind
            ) from exc

    @property
    def _name(self) -> str:
        return type(self.policy).__name__
