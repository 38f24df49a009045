"""The command line: argv → configuration → run → exit code.

Owns verbs, help and exit codes; one file a command. Knows no protocol: `serve` hands over to `app`.

Decision: the bare command and `serve` are told apart from the rest by hand. An argument parser takes a tenth of the
time that an editor waits for the first line.
"""

from .main import run

__all__ = ["run"]
