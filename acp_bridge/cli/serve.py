"""`acp-bridge serve`: claim the descriptors, answer what is asked already, serve.

Owns the arguments and what must happen before the event loop is imported: an editor waits for the first answer. What
follows it is `serving`.
"""

import os
import signal
from importlib import import_module
from types import FrameType

from acp_bridge import __version__
from acp_bridge.acp import auth_methods
from acp_bridge.config import load
from acp_bridge.descriptors import claim_stdio
from acp_bridge.errors import ConfigError
from acp_bridge.startup import Begun, begin, refuse

from .main import display_text


def main(argv: list[str]) -> int:
    """Serve one connection on stdin and stdout; return the exit code.

    Raises:
        ConfigError: an argument or a setting is not known.
    """
    try:
        trace = _trace_folder(argv)
        config = load(os.environ)
    except ConfigError as exc:
        refuse(claim_stdio(), display_text(str(exc)))
        raise
    # until the event loop takes them: by itself, SIGINT would raise in the middle of an import
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _end)
    claimed = claim_stdio()
    begun = Begun()
    if trace is None:  # a trace begins with the first byte
        known = auth_methods(configured=config.model_configured)
        begun = begin(claimed, program_version=__version__, auth_methods=known)
    return int(import_module(f"{__package__}.serving").serve(config, claimed, begun, trace))


def _end(number: int, frame: FrameType | None) -> None:
    """End as the signals do later, at once: no session is open."""
    del frame
    os._exit(128 + number)


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
