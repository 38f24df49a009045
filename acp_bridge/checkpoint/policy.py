"""Two policies: every barrier of the table, and the turn barrier alone.

Owns the deadline and the measurements. Knows no events.
"""

import time
from collections import deque
from dataclasses import dataclass, field

import anyio

from acp_bridge.errors import BarrierFailed, BarrierTimeout, ConfigError, StoreError
from acp_bridge.options import CheckpointOptions as Options
from acp_bridge.session import BarrierKind, Durable, Policy

WITHOUT_BARRIERS = "turn-barrier-only-work-may-be-lost-or-repeated"
"""What a configuration has to say to leave the policy out."""

_KEPT_MEASUREMENTS = 256

_SEEN_THROUGH: frozenset[BarrierKind] = frozenset(("open", "answer"))
"""Barriers that a client's taking back of its request does not cut short: what is logged is saved first. The turn
barrier is waited for as well, by an agent that only its own end can cancel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What a barrier cost: through which seq it waited, for how many seconds, and the bytes written meanwhile."""

    kind: BarrierKind
    session_id: str
    through: int
    seconds: float
    written: int
    passed: bool


@dataclass(slots=True)
class CheckpointPolicy:
    """Waits at every barrier and fails closed.

    Attributes:
        measurements: the latest, oldest first.
    """

    options: Options = field(default_factory=Options)
    measurements: deque[Measurement] = field(default_factory=lambda: deque(maxlen=_KEPT_MEASUREMENTS))

    @property
    def barriers(self) -> tuple[BarrierKind, ...]:
        """All of them."""
        return ("step", "request", "tool", "result", "turn", "open", "answer")

    async def before_request(self, journal: Durable) -> None:
        """Pass the step and request barrier."""
        await self._pass("request", journal)

    async def before_tool(self, journal: Durable) -> None:
        """Pass the tool barrier."""
        await self._pass("tool", journal)

    def may_show_result(self, journal: Durable, seq: int) -> bool:
        """Whether the result is on disk; it rides on the next sync and asks for none of its own."""
        return journal.durable_seq >= seq

    async def after_turn(self, journal: Durable) -> None:
        """Pass the turn barrier."""
        await self._pass("turn", journal)

    async def after_open(self, journal: Durable) -> None:
        """Pass the open barrier."""
        await self._pass("open", journal)

    async def before_answer(self, journal: Durable) -> None:
        """Pass the answer barrier."""
        await self._pass("answer", journal)

    async def _pass(self, kind: BarrierKind, journal: Durable) -> None:
        through = journal.last_seq
        began = time.monotonic()
        written, passed = 0, False
        try:
            with anyio.fail_after(self.options.deadline_s, shield=kind in _SEEN_THROUGH):
                written = await journal.flush(through)
            passed = True
        except TimeoutError as exc:
            raise BarrierTimeout(
                f"the disk did not confirm within {self.options.deadline_s:g} s; nothing behind the {kind} barrier was "
                "done, and the write goes on",
                barrier=kind,
            ) from exc
        except StoreError as exc:
            raise BarrierFailed(f"the {kind} barrier was not passed: {exc}", barrier=kind) from exc
        finally:
            self.measurements.append(
                Measurement(
                    kind=kind,
                    session_id=journal.session_id,
                    through=through,
                    seconds=time.monotonic() - began,
                    written=written,
                    passed=passed,
                )
            )


@dataclass(slots=True)
class CoarsePolicy(CheckpointPolicy):
    """Storage without checkpoints: waits when a session is opened, a turn has ended or a change is answered.

    A crash inside a turn may lose what a tool did, and recovery has to call every unfinished request unknown.
    """

    @property
    def barriers(self) -> tuple[BarrierKind, ...]:
        """The turn, open and answer barriers."""
        return ("turn", "open", "answer")

    async def before_request(self, journal: Durable) -> None:
        """Pass at once."""

    async def before_tool(self, journal: Durable) -> None:
        """Pass at once."""

    def may_show_result(self, journal: Durable, seq: int) -> bool:  # noqa: ARG002  the port's signature
        """Show every result at once."""
        return True


def policy_named(options: Options) -> Policy:
    """Return the built-in policy that `options.policy` names; `module:name` is resolved by the composition.

    Raises:
        ConfigError: the words are none of ours.
    """
    match options.policy:
        case "default":
            return CheckpointPolicy(options)
        case name if name == WITHOUT_BARRIERS:
            return CoarsePolicy(options)
        case name:
            raise ConfigError(
                f"checkpoint policy {name!r} is not known: say 'default', {WITHOUT_BARRIERS!r} or 'module:name'"
            )
