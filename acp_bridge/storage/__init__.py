"""Where sessions are kept: in memory, or as JSON Lines on the disk.

Owns bytes, files, locks and syncs, and the promise that what was acknowledged survives. Knows no event's meaning beyond
what a listing shows, and no policy: when to wait for the disk is the checkpoint policy's business.

Bottom up: `disk` (system calls), `filesystem` (what is said of them), `format` (lines), `lock`, `log` (one file),
`scan` (reading), `held_log` (how to save), `folder`, `blocking` (many sessions), `sweep`, `listing` and `index`,
`worker` (threads), `session` and `jsonl` (the port); `memory` stands beside them.

Decision: every system call goes through `Disk`, so that tests can record a run, make every disk that a crash may leave
of the recording, and run this very code on each.
Decision: a log is never repaired in place. Whatever has to be cut, healed or doubted is rewritten to a new file that is
whole on the disk before it has the log's name; so there is one routine to get right, and the old file is still there.
Decision: the first append of a hold also syncs the session's folder and the root: a process that was killed between a
rename and its sync leaves a name that is seen, and that a power cut would take, with all that was acknowledged since.
A mark that names the file makes that needless: it is written behind those syncs, so it says that they were made. A hold
whose mark vouches for the whole file is *confirmed*, and opening it has nothing to write or sync.
"""

from .jsonl import JsonlStore
from .memory import MemoryStore

__all__ = ["JsonlStore", "MemoryStore"]
