"""Where a session works, from what a client sent: normalised once, at the entry.

Owns the check that the folders exist. Knows no session.
"""

import os

from acp_bridge.rpc import INVALID_PARAMS, RpcError
from acp_bridge.session import Place


def place_of(cwd: str, additional: list[str]) -> Place:
    """Return where to work, normalised once.

    Raises:
        RpcError: a folder does not exist.
    """
    paths = [_normal(path) for path in (cwd, *additional)]
    for path in paths:
        if not os.path.isdir(path):
            said = "cwd or additionalDirectories: no such folder"
            raise RpcError(INVALID_PARAMS, said, {"details": f"no such folder: {path}"})
    return Place(cwd=paths[0], roots=tuple(dict.fromkeys(paths)))


def _normal(path: str) -> str:
    return os.path.normpath(path.removeprefix("\\\\?\\"))  # Windows' verbatim prefix breaks comparisons
