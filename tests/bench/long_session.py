"""One turn of thousands of steps in process: memory and a step's cost at its end beside those at its beginning.

Run by hand: `python tests/bench/long_session.py [STEPS]`. Prints; asserts nothing on time or memory, but that no step
is missing. For each store, a scripted model asks for a trivial tool in each step; mode `full`.

What the log must hold grows by its nature: some 1.5 KB of records a step. The request grows too, and a provider must be
sent all of it; here its making is counted, its encoding for a provider is not.
"""

import resource
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from acp_bridge.agent import Outcome
from acp_bridge.config import load
from acp_bridge.content import JsonObject, Text
from acp_bridge.headless import open_runtime
from acp_bridge.llm import Delta, Finished, TextDelta, ToolDelta
from acp_bridge.session import ModelRequest, Record, ToolResult
from acp_bridge.tools import Access, Call, Presentation, ToolOutput, ToolSpec, Workspace

WINDOW = 10
"""Parts that the run is cut into, to compare the first with the last."""


class Nothing:
    """A tool that does nothing."""

    spec = ToolSpec(
        name="nothing",
        description="Do nothing.",
        parameters={"type": "object", "properties": {"n": {"type": "integer"}}},
        effect="read",
        kind="other",
    )

    def check(self, arguments: JsonObject) -> JsonObject:
        return arguments

    def present(self, arguments: JsonObject, workspace: Workspace) -> Presentation:
        return Presentation(title="Do nothing", kind="other")

    def access(self, arguments: JsonObject, workspace: Workspace) -> Access:
        return Access(kind="none")

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        return ToolOutput(content=(Text(text=f"nothing was done, for the time {arguments.get('n')}"),))


@dataclass
class Busy:
    """A model that asks for the tool `steps` times."""

    steps: int
    at: list[float] = field(default_factory=list[float])
    messages: int = 0

    context_window = None
    takes_images = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.at.append(time.perf_counter())
        self.messages = len(request.messages)
        yield TextDelta("Once more.")
        if len(self.at) <= self.steps:
            yield ToolDelta(0, "nothing", f'{{"n": {len(self.at)}}}')
            yield Finished("tools")
        else:
            yield Finished("end")

    async def aclose(self) -> None:
        pass


def rss_kib() -> int:
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS"))


async def run(storage: str, steps: int, folder: Path) -> None:
    environ = {
        "HOME": str(folder),
        "ACP_BRIDGE_HOME": str(folder / storage),
        "ACP_BRIDGE_STORAGE": storage,
        "ACP_BRIDGE_MODE": "full",
        "ACP_BRIDGE_MODEL": "demo",
        "ACP_BRIDGE_AGENT_MAX_REQUESTS": str(steps + 2),
    }
    model, memory = Busy(steps), list[int]()
    seen, noted = 0, rss_kib()
    async with open_runtime(load(environ), open_model=lambda route: model, tools=(Nothing(),)) as runtime:
        session = await runtime.new_session(str(folder))
        async with session.prompt("Do nothing, very often.") as turn:
            async for _ in turn:
                if len(model.at) > seen + steps // WINDOW:
                    seen = len(model.at)
                    memory.append(rss_kib())
        assert turn.outcome == Outcome(reason="completed"), turn.outcome
        assert model.messages == 2 * steps + 1, "a step is missing"
        records = len(session.records)
    part = steps // WINDOW
    cost = [(model.at[i + part] - model.at[i]) / part * 1000 for i in range(0, steps - part + 1, part)]
    print(f"{storage:<7} {steps:,} steps, {records:,} records, {model.messages:,} messages in the last request")
    print(f"        ms a step      first tenth {cost[0]:7.2f}   last {cost[-1]:7.2f}   ratio {cost[-1] / cost[0]:.2f}")
    grown = (memory[-1] - memory[0]) / (steps - 2 * part) if len(memory) > 1 else 0
    print(f"        memory         first {memory[0] / 1024:7.1f} MiB   last {memory[-1] / 1024:7.1f} MiB", end="")
    print(f"   {grown:.2f} KiB a step (before: {noted / 1024:.1f} MiB)")


def floor(steps: int) -> None:
    """Print what one kind of record costs to be kept in a list: memory that no log can do without."""
    tracemalloc.start()
    kept = [Record(n, n, result(n)) for n in range(steps)]
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    print(f"floor   {size / len(kept):,.0f} bytes for the record of a result alone; a step makes five records")


def result(step: int) -> ToolResult:
    content = (Text(text=f"nothing was done, for the time {step}"),)
    return ToolResult(turn=1, step=step, call_id=f"call_1_{step}_1", content=content, is_error=False)


def main(steps: int) -> None:
    floor(min(steps, 10_000))
    with tempfile.TemporaryDirectory() as folder:
        for storage in ("memory", "jsonl"):
            anyio.run(run, storage, steps, Path(folder))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
