"""Records that a log cannot take any more, put somewhere else, as well as can be.

Owns where: beside the log, or where its folder is gone too, in the folder of all sessions, the program's home or the
folder for temporary files. Knows no lock and no way back: the user is told the place.
"""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from .disk import Disk, write_new
from .log import OpenLog


def write_unsaved(disk: Disk, log: OpenLog, bodies: Sequence[bytes]) -> str:
    """Keep what `bodies` are; return the path of the file, or `""` if no place takes it."""
    data = b"".join(body + b"}\n" for body in bodies)
    for path in _places(log):
        with suppress(OSError):
            write_new(disk, path, data)  # synced: it is all that there is of them
            with suppress(OSError):
                disk.sync_folder(os.path.dirname(path))
            return path
    return ""


def _places(log: OpenLog) -> Iterator[str]:
    moment = time.time_ns() // 1_000_000
    folder = os.path.dirname(log.path)
    root = os.path.dirname(folder)
    yield f"{folder}/unsaved-{moment}.jsonl"
    for elsewhere in (root, os.path.dirname(root), tempfile.gettempdir()):
        yield f"{elsewhere}/unsaved-{log.first.header.session_id}-{moment}.jsonl"
