"""The command `acp-bridge`. The one place that reads the environment."""

import sys

from acp_bridge.cli import run


def main() -> None:
    """Run the command line and end the process with its exit code."""
    run(sys.argv[1:])


if __name__ == "__main__":
    main()
