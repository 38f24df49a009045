"""Cuts a command out of the README, so that CI runs what a reader is told to run.

A command is the fenced block that follows the comment `<!-- command: NAME -->`.
"""

import re
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def command(name: str) -> str:
    """Return the commands of the block.

    Raises:
        LookupError: the README has no such block.
    """
    pattern = rf"<!-- command: {re.escape(name)} -->\n+```\w*\n(.*?)```"
    found = re.search(pattern, README.read_text(encoding="utf-8"), re.DOTALL)
    if found is None:
        raise LookupError(f"the README has no command {name!r}")
    return found[1].strip()


if __name__ == "__main__":
    print(command(sys.argv[1]))
