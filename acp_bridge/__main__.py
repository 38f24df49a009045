"""The command `acp-bridge`. The one place that reads the environment."""

import os
import sys

if sys.path[:1] == [os.getcwd()]:
    del sys.path[0]  # `python -m` puts the folder it is started in there: a repository's `openai.py` would be ours

from acp_bridge.cli import run


def main() -> None:
    """Run the command line and end the process with its exit code."""
    run(sys.argv[1:])


if __name__ == "__main__":
    main()
