"""The Policy port: the points at which somebody decides whether to wait for the disk.

Owns the names and places of the barriers. Knows neither how a log is written nor who is told.
The loop and the tool pipeline call these methods at fixed places (D10 to D20 of ARCHITECTURE.md); the checkpoint
package implements them.
"""

from typing import Literal, Protocol, TypeAlias

BarrierKind: TypeAlias = Literal["step", "request", "tool", "result", "turn", "open", "answer"]


class Durable(Protocol):
    """What a policy may ask of a session's journal."""

    @property
    def session_id(self) -> str:
        """The session's id."""
        ...

    @property
    def last_seq(self) -> int:
        """Seq of the last event logged, -1 if there is none."""
        ...

    @property
    def durable_seq(self) -> int:
        """Seq through which events are known to be on disk, -1 if none is."""
        ...

    async def flush(self, through: int) -> int:
        """Wait until every event up to seq `through` is on disk; return the bytes this call waited for.

        Raises:
            StoreError: they may not be.
        """
        ...

    async def confirm(self) -> None:
        """Make sure that this process still holds the session. The core does so itself behind every barrier.

        Raises:
            StoreError: it does not, or cannot tell.
        """
        ...


class Policy(Protocol):
    """Which barrier waits. Each method returns once it is passed.

    All but `may_show_result` raise `BarrierFailed` (or its `BarrierTimeout`) if it is not: then what lies behind the
    barrier must not happen.
    """

    @property
    def barriers(self) -> tuple[BarrierKind, ...]:
        """The kinds in force; logged in `session/opened`, read by repair."""
        ...

    async def before_request(self, journal: Durable) -> None:
        """Pass the step and the request barrier: after `request/header`, before the adapter is built."""
        ...

    async def before_tool(self, journal: Durable) -> None:
        """Pass the tool barrier: after `tool/call`, directly before the body."""
        ...

    def may_show_result(self, journal: Durable, seq: int) -> bool:
        """Whether the final status of the result logged as `seq` may go to the client now (the result barrier)."""
        ...

    async def after_turn(self, journal: Durable) -> None:
        """Pass the turn barrier: after `turn/end`, before the prompt is answered."""
        ...

    async def after_open(self, journal: Durable) -> None:
        """Pass the open barrier: after repair and `session/opened`, before the first replayed update."""
        ...

    async def before_answer(self, journal: Durable) -> None:
        """Pass the answer barrier: before the response to a request whose handling logged something."""
        ...
