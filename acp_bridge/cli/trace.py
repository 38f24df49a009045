"""`acp-bridge serve --trace DIR`: serve, and leave a folder behind that a bug report can be made of.

Owns the order: the notes begin before the first byte and are finished after the last. What is in the folder, without
keys, says `acp_bridge.testing.trace`; a killed agent's notes are finished by `python -m acp_bridge.testing DIR`.
"""

from dataclasses import replace
from pathlib import Path

import anyio

from acp_bridge import app
from acp_bridge.config import Config
from acp_bridge.rpc import Wire
from acp_bridge.runtime import home_of, keyed_route
from acp_bridge.testing import TracedWire, begin_trace, write_scenario


def serve(config: Config, wire: Wire, folder: str) -> int:
    """Serve one connection on `wire`, traced into `folder`; return the exit code.

    Raises:
        ConfigError: the folder holds something already.
    """
    trace = Path(folder)
    route = begin_trace(trace, home=home_of(config), route=config.model or keyed_route(config), environ=config.environ)
    traced = TracedWire(wire, trace, config.secrets)
    try:
        return anyio.run(app.serve, replace(config, model=route or config.model), traced)
    finally:
        write_scenario(trace, traced.secrets)
