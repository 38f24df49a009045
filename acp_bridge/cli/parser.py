"""The argument parser of a command. Imported by commands alone: `serve` has no time for it.

Owns how usage errors read. Knows no command.
"""

import argparse
from typing import NoReturn

from acp_bridge.errors import ConfigError


class CommandParser(argparse.ArgumentParser):
    """Says in one line what is wrong and where help is."""

    def __init__(self, command: str, description: str, **more: str) -> None:
        super().__init__(
            prog=f"acp-bridge {command}",
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,  # a later option must not change what an old script means
            **more,  # pyright: ignore[reportArgumentType]  only texts are passed: epilog, usage
        )

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(f"{message}; `{self.prog} --help` says what it takes")
