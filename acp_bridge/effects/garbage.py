"""What is made in one go and then lives long: a library that is imported, a log that is loaded.

Owns the cyclic garbage collector's part in it. Such a block allocates a million objects of which none is garbage. Each
time their number has grown by a quarter, a full collection traverses them all and holds every thread up for it, some
hundred milliseconds at a time: the answers of other sessions stand still. So there is no collection within the block,
and what it leaves is put where none looks (`gc.freeze`), until `unfreeze_gc` says that some of it may be garbage now.
"""

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

MANY: Final = 100_000
"""Objects that a block must have made to be put away: a few cost nothing to look at, and may be garbage soon."""

_lock = threading.Lock()
_blocks = 0
_was_enabled = False


@contextmanager
def pause_gc() -> Generator[None]:
    """Make what lives long, without collections meanwhile. Blocks may overlap, in several threads."""
    global _blocks, _was_enabled  # the collector is the process's, whoever pauses it
    with _lock:
        if not _blocks:
            _was_enabled = gc.isenabled()
            gc.disable()
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks and _was_enabled:
                if gc.get_count()[0] > MANY:
                    gc.freeze()  # else the next collection, of the youngest, would traverse all of it
                gc.enable()


def unfreeze_gc() -> None:
    """Let later collections look at what was made in such blocks: some of it is not used any more."""
    gc.unfreeze()
