"""`acp-bridge serve`: claim the descriptors, serve, end with the exit code that tells how."""

import logging
import os
import sys

import anyio

from acp_bridge.app import serve
from acp_bridge.config import load
from acp_bridge.errors import ConfigError
from acp_bridge.rpc import open_stdio


def main(argv: list[str]) -> int:
    """Serve one connection on stdin and stdout.

    Raises:
        ConfigError: an argument or a setting is not known.
    """
    for argument in argv:
        if argument not in ("--acp", "--stdio"):  # what editors' older settings add
            raise ConfigError(f"serve takes no argument {argument!r}")
    config = load(os.environ)
    logging.basicConfig(
        stream=sys.stderr, level=config.log.upper(), format="acp-bridge: %(levelname)s %(name)s: %(message)s"
    )
    wire = open_stdio()  # before there is an event loop, whose own descriptors could take a missing one's number
    return anyio.run(serve, config, wire)
