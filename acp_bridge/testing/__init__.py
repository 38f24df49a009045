"""What users test with: a client to script, keyless snapshots, and contract suites for parts of one's own.

Owns what stands outside an agent. Knows the wire and the ports, and no bridge.

**Snapshots.** Where this package is installed, pytest plays every folder with a `scenario.toml` against a real agent
process, without a key, a network or a clock, and compares what went over its pipes, what lies in its log and what its
model was asked. A suite for an agent of one's own is ten lines: `snapshots/greets/scenario.toml`,

    about = "the agent greets by name, once it was allowed to"
    [[step]]
    do = "initialize"
    [[step]]
    do = "new"
    [[step]]
    do = "prompt"
    text = "Greet Ada"
    answers = ["allow_once"]
    expect = { stop_reason = "end_turn", asked = 1, file = { "greeting.txt" = "Hello Ada\\n" } }

beside it what the model says, `model/0001.json` and `0002.json`, written by hand or recorded,

    {"tools": [{"name": "greet", "arguments": {"name": "Ada"}}]}
    {"text": "I greeted Ada."}

and in `pytest.ini` which agent: `acp_snapshot_command = python my_agent.py`. Then

    pytest snapshots --acp-snapshots=refresh                        write `expected/`, and review it
    pytest snapshots                                                replay: in CI, in parallel, without a key
    pytest snapshots --acp-snapshots=record --acp-model=openai:gpt-5    ask a live model, on purpose

`expect` holds whatever a refresh writes. The format is told in `scenario`, the rules of comparison in `normalization`
and `log_normalization`, the client's side in `editor`.

Decision: the request decides which recorded answer it gets (see `acp_bridge.llm`), so a process that is killed and
started again in the middle of a scenario goes on rightly; and what was asked is compared with what was recorded.

Decision: the plugin looks from outside, at bytes and files. Nothing of it runs in the agent's process, so any agent
that speaks ACP on stdio can be played; the log is compared where there is one.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # pytest imports this package in every project: what it offers is imported when it is used
    from .client import Client, allowing, connected, running_agent
    from .scenario import ScenarioFault, read_scenario
    from .trace import TracedWire, begin_trace, write_scenario
else:

    def __getattr__(name: str) -> object:
        for module, names in _PLACES.items():
            if name in names:
                return getattr(import_module(f".{module}", __name__), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_PLACES = {
    "client": ("Client", "allowing", "connected", "running_agent"),
    "scenario": ("ScenarioFault", "read_scenario"),
    "trace": ("TracedWire", "begin_trace", "write_scenario"),
}

__all__ = [
    "Client",
    "ScenarioFault",
    "TracedWire",
    "allowing",
    "begin_trace",
    "connected",
    "read_scenario",
    "running_agent",
    "write_scenario",
]
