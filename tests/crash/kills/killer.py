"""A checkpoint policy that ends its own process group at one barrier, before or after it was passed.

Named by `ACP_BRIDGE_CHECKPOINT_POLICY=crash.kills.killer:policy`. Two variables of the environment say the rest:
`BARRIERS`, a file that gets the kind of each barrier as it is come to, and `KILL_AT`, such as `before 3`: the third
barrier of the process. Asking whether a result is settled is a barrier too, where the answer is yes.
"""

import os
import signal
from collections.abc import Awaitable, Callable

from acp_bridge.checkpoint import CheckpointPolicy, Options
from acp_bridge.session import Durable


class KillingPolicy(CheckpointPolicy):
    """The built-in policy, and one place to die at."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._count = 0
        when, _, number = os.environ.get("KILL_AT", "").partition(" ")
        self._when, self._number = when, int(number or 0)
        self._seen: set[int] = set()

    async def before_request(self, journal: Durable) -> None:
        """Pass, or die."""
        await self._round("request", super().before_request, journal)

    async def before_tool(self, journal: Durable) -> None:
        """Pass, or die."""
        await self._round("tool", super().before_tool, journal)

    async def after_turn(self, journal: Durable) -> None:
        """Pass, or die."""
        await self._round("turn", super().after_turn, journal)

    async def after_open(self, journal: Durable) -> None:
        """Pass, or die."""
        await self._round("open", super().after_open, journal)

    async def before_answer(self, journal: Durable) -> None:
        """Pass, or die."""
        await self._round("answer", super().before_answer, journal)

    def may_show_result(self, journal: Durable, seq: int) -> bool:
        """Answer, or die where the answer is yes; once for each result."""
        if not super().may_show_result(journal, seq):
            return False
        if seq not in self._seen:
            self._seen.add(seq)
            self._die_if("before", self._come_to("result"))
        return True

    async def _round(self, kind: str, wait: Callable[[Durable], Awaitable[None]], journal: Durable) -> None:
        number = self._come_to(kind)
        self._die_if("before", number)
        await wait(journal)
        self._die_if("after", number)

    def _come_to(self, kind: str) -> int:
        self._count += 1
        with open(os.environ["BARRIERS"], "a") as file:
            file.write(f"{kind}\n")
        return self._count

    def _die_if(self, when: str, number: int) -> None:
        if (when, number) == (self._when, self._number):
            os.killpg(0, signal.SIGKILL)


policy = KillingPolicy
