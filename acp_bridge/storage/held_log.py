"""The log of a session that is held: whether records are appended or the file is rewritten, and what that needs.

Owns the lock and the open file, the choice between the two ways to save, what has to stay in memory for a rewrite, and
where records go that the log cannot take any more (D24). Knows no event loop and no thread: one call at a time, from
whichever thread.
"""

import errno
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain

from acp_bridge.errors import StoreReplaced

from .disk import APPEND, Disk, write_new
from .format import BadLine, unseal
from .lock import Lock
from .log import LogFile, rewrite
from .scan import Scan, read_bodies

_BEFORE_THE_SYNC = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Why a folder could not even be opened; a sync that was never made has lost nothing."""


class HeldLog:
    """The log of one held session.

    Attributes:
        next_seq: the seq that the next record must have.
        must_rewrite: what was loaded has to be cut, or may not last, so the next save is a rewrite.
        refusal: why it can only be read, if so; it is poisoned by that, and heals as from any other poison.
    """

    def __init__(
        self, disk: Disk, lock: Lock, log: LogFile, make_gen: Callable[[], str], *, records: int, found: Scan | None
    ) -> None:
        self.folder = log.path.rpartition("/")[0]
        self.next_seq = records
        self._disk, self._lock, self._log, self._make_gen = disk, lock, log, make_gen
        # What is not known durable is kept as it was read: after a failed sync the file is no proof of it.
        self._tail = [unseal(line) for _, line in found.tail] if found else []
        self._cut = found is not None and found.end < found.length
        self.must_rewrite = self._cut or (found is not None and found.may_not_last)
        self._names_are_durable = found is None or found.is_confirmed  # what was just made was synced in its making
        self._names_are_lost: OSError | None = None
        self.refusal = log.poison

    @property
    def path(self) -> str:
        """The log's path."""
        return self._log.path

    @property
    def is_poisoned(self) -> bool:
        """Whether a write or sync has failed."""
        return self._log.poison is not None

    def save(self, bodies: Sequence[bytes]) -> int:
        """Make the records made of `bodies` durable and return how many bytes were written.

        Raises:
            StorePoisoned: a write or sync failed, now or before.
            StoreReplaced: the file is not as this process left it; `bodies` are beside it, if that was possible.
        """
        self._log.refuse_if_poisoned()
        if self.must_rewrite:
            return self.rewrite(bodies)
        try:
            self._log.check_untouched()  # before a folder that is gone is taken for one that cannot be synced
            self._make_names_durable()
            size = self._log.append(bodies)
        except StoreReplaced as exc:
            raise self._keep_unsaved(exc, bodies) from exc
        self.next_seq += len(bodies)
        self._tail = []
        return size

    def rewrite(self, bodies: Sequence[bytes]) -> int:
        """Put a new file in the log's place, of what is known durable, what was read, and `bodies`; return its length.

        Heals poison. Raises as `save`.
        """
        old = self._log
        kept = chain(read_bodies(self._disk, old.fd, old.first, old.durable), self._tail)
        copy = f"cut-{old.first.gen}.jsonl" if self._cut else ""
        try:
            old.check_untouched()
            self._make_writable()
            self._make_names_durable()
            new = rewrite(self._disk, self._lock, old, kept, bodies, gen=self._make_gen(), copy=copy)
        except OSError as exc:
            raise old.record_failure(exc) from exc
        except BadLine as exc:
            raise old.record_failure(OSError(str(exc))) from exc
        except StoreReplaced as exc:
            raise self._keep_unsaved(exc, bodies) from exc
        self._log, self._tail, self._cut = new, [], False  # held from its rename on, whatever comes next
        self._disk.close(old.fd)
        size = new.finish_rewrite()
        self.must_rewrite = False
        self.next_seq += len(bodies)
        return size

    def close(self) -> None:
        """Let go of the log, then of the lock."""
        self._disk.close(self._log.fd)  # first: the next holder must be the only one who can write
        self._lock.release()

    def _make_names_durable(self) -> None:
        """Sync the folders once a hold, unless the mark speaks for them.

        A process that made or renamed the log may not have lived to do so.
        """
        if self._names_are_durable:
            return
        if self._names_are_lost is not None:  # no rewrite heals that, and a second sync would only seem to
            raise self._log.record_failure(self._names_are_lost)
        try:
            self._disk.sync_folder(self.folder)
            self._disk.sync_folder(os.path.dirname(self.folder))
        except OSError as exc:
            if exc.errno not in _BEFORE_THE_SYNC:  # what was tried once and failed proves nothing when it succeeds
                self._names_are_lost = exc
            raise self._log.record_failure(exc) from exc
        self._names_are_durable = True

    def _make_writable(self) -> None:
        """Find out whether what could only be read can be written now."""
        if self.refusal is not None:
            self._lock.make_writable()
            self._disk.close(self._disk.open(self._log.path, APPEND))
            self.refusal = None

    def check_in_place(self) -> None:
        """Raise StoreReplaced unless the log is still at its path; from then on, every save does."""
        self._log.check_in_place()

    def _keep_unsaved(self, replaced: StoreReplaced, bodies: Sequence[bytes]) -> StoreReplaced:
        """Put `bodies` elsewhere, as well as can be, and return the error that says where."""
        if not bodies:
            return replaced
        path, events = _write_unsaved(self._disk, self._log, bodies), len(bodies)
        lost = "1 event was not saved, nor kept" if events == 1 else f"{events} events were not saved, nor kept"
        place = f"what was not saved is in {path}" if path else lost
        return StoreReplaced(f"{replaced}; {place}", session_id=replaced.session_id, path=replaced.path)


def _write_unsaved(disk: Disk, log: LogFile, bodies: Sequence[bytes]) -> str:
    """Write the records to the first place that takes them; return the file's path, or `""` if none does."""
    data = b"".join(body + b"}\n" for body in bodies)
    for path in _paths_for_unsaved(log):
        with suppress(OSError):
            write_new(disk, path, data)  # synced: it is all that there is of them
            with suppress(OSError):
                disk.sync_folder(os.path.dirname(path))
            return path
    return ""


def _paths_for_unsaved(log: LogFile) -> Iterator[str]:
    """Yield where to try: beside the log, then ever further away, since its folder may be gone or full too."""
    moment = time.time_ns() // 1_000_000
    folder = os.path.dirname(log.path)
    root = os.path.dirname(folder)
    yield f"{folder}/unsaved-{moment}.jsonl"
    for elsewhere in (root, os.path.dirname(root), tempfile.gettempdir()):
        yield f"{elsewhere}/unsaved-{log.first.header.session_id}-{moment}.jsonl"
