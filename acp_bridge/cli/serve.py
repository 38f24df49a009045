"""`acp-bridge serve`: claim the descriptors, serve, end with the exit code that tells how."""

import os
import sys
from importlib import import_module

import anyio

from acp_bridge.app import serve
from acp_bridge.config import Config, load
from acp_bridge.errors import ConfigError
from acp_bridge.rpc import open_stdio

from .inspection import refuse_inspection
from .logs import log_to_stderr

_SWITCH_S = 0.001
"""How long a thread that computes, such as one that imports or loads, keeps the event loop waiting; else 5 ms."""


def main(argv: list[str]) -> int:
    """Serve one connection on stdin and stdout.

    Raises:
        ConfigError: an argument or a setting is not known.
    """
    trace = _trace_folder(argv)
    config = load(os.environ)
    log = log_to_stderr(config.log, config.secrets)
    refuse_inspection()
    try:
        return _serve(config) if trace is None else int(import_module(f"{__package__}.trace").serve(config, trace))
    finally:
        log.flush()


def _serve(config: Config) -> int:
    sys.setswitchinterval(_SWITCH_S)
    wire = open_stdio()  # before there is an event loop, whose own descriptors could take a missing one's number
    return anyio.run(serve, config, wire)


def _trace_folder(argv: list[str]) -> str | None:
    match [argument for argument in argv if argument not in ("--acp", "--stdio")]:  # what older settings add
        case []:
            return None
        case ["--trace", folder]:
            return folder
        case ["--trace"]:
            raise ConfigError("--trace needs a folder: acp-bridge serve --trace DIR")
        case arguments:
            argument = arguments[0]
            raise ConfigError(f"serve takes no argument {argument!r}")
