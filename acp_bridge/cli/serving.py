"""What `acp-bridge serve` does behind its first answer: the log, the wire, the event loop and the exit code."""

import sys
from importlib import import_module
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
"""How long a thread that computes, such as one that imports or loads, keeps the event loop waiting; else 5 ms."""


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
            return int(import_module(f"{__package__}.trace").serve(config, wire, trace))
        return anyio.run(_serve, config, wire, begun)
    finally:
        log.flush()


async def _serve(config: Config, wire: Wire, begun: Begun) -> int:
    return await serve_wire(config, wire, client=begun.client)
