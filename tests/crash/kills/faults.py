"""What the kill table plants into an agent: a slow disk, or a fault that must turn the table red.

`ACP_BRIDGE_CHECKPOINT_POLICY=crash.kills.faults:policy` plants it; two variables of the environment say the rest:
`FAULT`, one of `FAULTS`, each of them a checkpoint policy that breaks something, and `WRITE_S`, how long a write takes
to reach the cache.

Decision: a kill leaves the cache, and a write reaches that within microseconds, so on an idle machine hardly any kill
falls between what was told and what was written, and a table of such kills would be clean whatever is told too early.
Where writes wait, as behind a full queue, many do.
"""

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio.to_thread

from acp_bridge.checkpoint import CheckpointPolicy, Options
from acp_bridge.session import Durable, barriers, closers, journal, sessions
from acp_bridge.storage.disk import OsDisk
from acp_bridge.tools import Ended, GuardedCommands
from acp_bridge.tools.guard import NOTHING_MORE

TOOLS = ("barrier", "body")
FAULTS = {
    "without_tool_barrier": (TOOLS, ("effects without intent", "calls wrongly classified")),
    "without_request_barrier": (("streaming",), ("prompts lost",)),
    "settled_too_early": (("result",), ("settled facts lost",)),
    "answered_too_early": (("answered",), ("settled facts lost",)),
    "without_repair": (TOOLS, ("transcripts rejected", "calls wrongly classified")),
    "repaired_ever_again": (TOOLS, ("repairs not stable",)),
    "all_never_started": (TOOLS, ("calls wrongly classified",)),
    "without_guard": (TOOLS, ("children left",)),
}
"""Where kills show each fault best, and the columns it must show in."""


def policy(options: Options) -> CheckpointPolicy:
    """Plant what the environment says; without a fault, the policy is the built-in one."""
    slow_down(float(os.environ.get("WRITE_S", "0")))
    fault = os.environ.get("FAULT", "")
    return globals()[fault](options) if fault in FAULTS else CheckpointPolicy(options)


def slow_down(write_s: float) -> None:
    """Let every write wait before the cache has it."""
    write = OsDisk.write

    def waiting(self: OsDisk, fd: int, data: memoryview) -> int:
        time.sleep(write_s)
        return write(self, fd, data)

    OsDisk.write = waiting


class WithoutToolBarrier(CheckpointPolicy):
    """Says that it waits before a tool, and does not."""

    async def before_tool(self, journal: Durable) -> None:
        """Pass at once."""


class WithoutRequestBarrier(CheckpointPolicy):
    """Asks the model before the prompt is on disk."""

    async def before_request(self, journal: Durable) -> None:
        """Pass at once."""


class SettledTooEarly(CheckpointPolicy):
    """Shows results that are not on disk."""

    def may_show_result(self, journal: Durable, seq: int) -> bool:
        """Take everything as settled."""
        return True


class AnsweredTooEarly(CheckpointPolicy):
    """Answers a prompt before its turn's end is on disk."""

    async def after_turn(self, journal: Durable) -> None:
        """Pass at once."""

    async def before_answer(self, journal: Durable) -> None:
        """Pass at once."""


def _believed(policy: Callable[[Options], CheckpointPolicy]) -> Callable[[Options], CheckpointPolicy]:
    """Plant a policy, and a core that takes its word for it: else the look after each barrier ends its turns."""

    async def unlooked(self: Any, kind: str, wait: Callable[[Durable], Any], journal: Durable) -> None:
        await wait(journal)

    def made(options: Options) -> CheckpointPolicy:
        journal.BACKGROUND_S = 30.0  # else the background write may hide what no barrier waits for
        barriers.VerifiedPolicy._pass = unlooked
        barriers.VerifiedPolicy.may_show_result = lambda self, journal, seq: self.policy.may_show_result(journal, seq)
        return policy(options)

    return made


without_tool_barrier = _believed(WithoutToolBarrier)
without_request_barrier = _believed(WithoutRequestBarrier)
settled_too_early = _believed(SettledTooEarly)
answered_too_early = _believed(AnsweredTooEarly)


def without_repair(options: Options) -> CheckpointPolicy:
    """Leave open what a crash left open."""

    def half(log: Any) -> Any:
        return tuple(event for event in closers(log) if event.type in ("step/end", "turn/end"))

    sessions.closers = half
    sessions.Log._take.__globals__["check"] = lambda state, event: None
    return CheckpointPolicy(options)


def repaired_ever_again(options: Options) -> CheckpointPolicy:
    """Add to the log at every load."""
    from acp_bridge.session import SessionTitled

    sessions.closers = lambda log: (*closers(log), SessionTitled(title="again"))
    return CheckpointPolicy(options)


def all_never_started(options: Options) -> CheckpointPolicy:
    """Take it that what has no result was never begun."""
    from acp_bridge.session import repair

    repair._classify = lambda request, call, *, barred: ("TOOL_NOT_STARTED", repair.NOT_STARTED)
    return CheckpointPolicy(options)


def without_guard(options: Options) -> CheckpointPolicy:
    """Run commands as plain children in sessions of their own."""

    async def run(
        self: GuardedCommands,
        command: str,
        *,
        cwd: Path,
        timeout_s: float,
        name: str,
        progress: Callable[[str], None],
        env: Mapping[str, str] = NOTHING_MORE,
    ) -> Ended:
        def wait() -> int:
            return subprocess.run(["/bin/sh", "-c", command], cwd=cwd, start_new_session=True, check=False).returncode

        return Ended(code=await anyio.to_thread.run_sync(wait), output="")

    GuardedCommands.run = run
    return CheckpointPolicy(options)
