"""`acp-bridge serve`: claim the descriptors, serve, end with the exit code that tells how."""

import os

import anyio

from acp_bridge.app import serve
from acp_bridge.config import load
from acp_bridge.errors import ConfigError
from acp_bridge.rpc import open_stdio

from .logs import log_to_stderr


def main(argv: list[str]) -> int:
    """Serve one connection on stdin and stdout.

    Raises:
        ConfigError: an argument or a setting is not known.
    """
    for argument in argv:
        if argument not in ("--acp", "--stdio"):  # what editors' older settings add
            raise ConfigError(f"serve takes no argument {argument!r}")
    config = load(os.environ)
    log = log_to_stderr(config.log, config.secrets)
    wire = open_stdio()  # before there is an event loop, whose own descriptors could take a missing one's number
    try:
        return anyio.run(serve, config, wire)
    finally:
        log.flush()
