"""What `acp-bridge serve` does behind its first answer: the log, the wire, the event loop and the exit code.

Owns the order of a trace too: its notes begin before the first byte and are finished after the last. What is in its
folder, without keys, is told in `acp_bridge.testing.trace`; `python -m acp_bridge.testing DIR` finishes the notes of an
agent that was killed.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio

from acp_bridge.app import serve as serve_wire
from acp_bridge.config import Config
from acp_bridge.descriptors import Claimed
from acp_bridge.rpc import Wire
from acp_bridge.startup import Begun

from .inspection import refuse_inspection
from .logs import log_to_stderr

_SWITCH_S: Final = 0.001
"""How long a thread that computes may keep the event loop waiting. Python's own 5 ms are felt while one imports."""


def serve(config: Config, claimed: Claimed, begun: Begun, trace: str | None) -> int:
    """Serve one connection on the claimed descriptors, from where it has `begun`; return the exit code.

    Args:
        trace: the folder for a trace of it, if one is wanted.

    Raises:
        ConfigError: the folder for the trace holds something already.
    """
    log = log_to_stderr(config.log, config.secrets)
    refuse_inspection()
    sys.setswitchinterval(_SWITCH_S)
    wire = Wire(*claimed, begun.read)
    try:
        if trace is not None:
            return _serve_traced(config, wire, Path(trace))
        return anyio.run(_serve, config, wire, begun)
    finally:
        log.flush()


async def _serve(config: Config, wire: Wire, begun: Begun) -> int:
    return await serve_wire(config, wire, client=begun.client)


def _serve_traced(config: Config, wire: Wire, folder: Path) -> int:
    # only here, since an editor that wants no trace must not wait for what writes one
    from acp_bridge.composition import home_of, keyed_route
    from acp_bridge.testing import TracedWire, begin_trace, write_scenario

    route = begin_trace(folder, home=home_of(config), route=config.model or keyed_route(config), environ=config.environ)
    traced = TracedWire(wire, folder, config.secrets)
    try:
        return anyio.run(serve_wire, replace(config, model=route or config.model), traced)
    finally:
        write_scenario(folder, traced.secrets)
