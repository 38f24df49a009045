"""Where sessions are kept: in memory, or as JSON Lines on the disk.

Owns bytes, files, locks and syncs, and the promise that what was acknowledged survives. Knows no event's meaning beyond
what a listing shows, and no policy: when to wait for the disk is the checkpoint policy's business.
"""

from .jsonl import JsonlStore
from .memory import MemoryStore

__all__ = ["JsonlStore", "MemoryStore"]
