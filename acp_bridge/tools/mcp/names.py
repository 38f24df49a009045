"""Names that every model takes, `mcp__SERVER__TOOL`, for servers and tools that may be called anything. Pure.

Owns that they are unique and come out the same each time: a permission and a transcript name them.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

LONGEST = 64
LABEL = 24
"""Characters of a name, and of the server's part of it."""


def labels(servers: Sequence[str]) -> list[str]:
    """Return a part of a name for each server, in order. None holds or ends in `__`, so it ends where it seems to."""
    made: list[str] = []
    for server in servers:
        label = re.sub("_{2,}", "_", _plain(server)).strip("_")[:LABEL].rstrip("_") or "server"
        count = 1
        unique = label
        while unique in made:
            count += 1
            unique = f"{label[: LABEL - 4]}_{count}"
        made.append(unique)
    return made


def full_names(label: str, tools: Sequence[str]) -> list[str]:
    """Return the full name of each tool; where two would be the same, or one is cut, its hash tells it apart."""
    prefix = f"mcp__{label}__"
    plain = [_plain(tool) for tool in tools]
    taken = Counter(plain)
    names: list[str] = []
    for tool, name in zip(tools, plain, strict=True):
        room = LONGEST - len(prefix)
        ambiguous = name != tool and taken[name] > 1
        if not name or ambiguous or len(name) > room:
            mark = hashlib.sha256(tool.encode()).hexdigest()[:8]
            name = f"{name[: room - 9]}_{mark}"
        names.append(prefix + name)
    return names


def _plain(name: str) -> str:
    return re.sub("[^a-zA-Z0-9_-]", "_", name)
