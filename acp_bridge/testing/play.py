"""Plays a scenario against a real agent process, and says what the run has left.

Owns the order: play, whatever happens leave no process behind, then look. Judges only what the scenario itself expects,
and what no run may do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .artifacts import log_records, model_requests
from .frame import Frame
from .process import Stuck
from .sandbox import Sandbox
from .scenario import Scenario, ScenarioFault
from .steps import Steps

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run has left.

    Attributes:
        faults: what no run may do, and what the scenario expected otherwise.
        logs: each session's records, header first, by id, in the order in which the client learned of them.
        served: what the model was asked, in order.
    """

    frames: tuple[Frame, ...]
    faults: tuple[str, ...]
    logs: Mapping[str, list[Json]]
    served: tuple[Json, ...]
    tokens: Mapping[str, str]


def play(
    scenario: Scenario,
    sandbox: Sandbox,
    command: Sequence[str],
    *,
    route: str = "",
    env: Mapping[str, str] | None = None,
) -> RunResult:
    """Run a scenario from its first step to the agent's end."""
    route = route or scenario.agent.get("ACP_BRIDGE_MODEL", f"replay:{sandbox.model}")
    run = Steps(scenario, sandbox, command, route, env or {})
    try:
        run.play()
    except (Stuck, ScenarioFault) as exc:
        run.faults.append(f"{run.at}: {exc}")
    except Exception as exc:
        run.faults.append(f"{run.at}: {exc!r}; is the step written as it should be?")
        raise
    finally:
        run.clear()
    run.faults += run.editor.faults
    return RunResult(
        frames=tuple(run.frames),
        faults=tuple(dict.fromkeys(run.faults)),
        logs={session: records for session in run.sessions if (records := log_records(sandbox.sessions, session))},
        served=tuple(model_requests(sandbox.model)),
        tokens=run.tokens(),
    )
