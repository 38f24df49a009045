"""Which commands a lasting grant may cover: those that are plainly one program with plain words.

Owns the one strict reading of a command. Runs nothing.
"""

import re
import shlex
from pathlib import Path

from acp_bridge.text import escaped

MAX_CHARACTERS = 1000
MAX_WORDS = 60

_PLAIN = re.compile(r"[^\x00-\x1f\x7f-\x9f;|&<>$`(){}\\!#\u2028\u2029]+")
_HIDDEN_GLOB = re.compile(r"(^|/)\.[^/]*[*?\[]|[*?\[][^/]*/\.|\[")


def grantable(command: str, cwd: Path) -> str:
    """Return what a lasting grant of `command` in `cwd` would cover, `""` if it can be granted only once.

    The text is kept exactly, but for white space around it: what looks alike to a shell need not be.
    """
    command = command.strip(" \t\n")  # what a shell takes for blanks; any other one is part of a word
    return f"{command} in {str(cwd)!r}" if is_simple(command) else ""


def is_simple(command: str) -> bool:
    """Whether `command` is surely one program and its words: no operator, expansion, comment or second line.

    A glob that could reach hidden names, such as `.git`, is not simple either, nor is what a person would not see as it
    is: bidi overrides and the like.
    """
    if not command or len(command) > MAX_CHARACTERS or not _PLAIN.fullmatch(command):
        return False
    if escaped(command) != command:
        return False
    try:
        words = shlex.split(command)
    except ValueError:  # an open quote
        return False
    return 0 < len(words) <= MAX_WORDS and not any(_HIDDEN_GLOB.search(word) for word in words)
