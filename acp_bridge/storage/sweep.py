"""The sweep: removing what dead processes left half-made or half-removed, and sessions that stayed empty.

Owns which folders are leftovers, and that each is looked at again under its session's lock: until then another process
may be at work on it. Knows no event loop; what is locked, or cannot be removed, is left for the next time.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain

from acp_bridge.errors import SessionInUse, StoreError

from . import folder
from .blocking import BlockingStore
from .disk import READ, remove_tree
from .lock import Lock, acquire
from .scan import scan


def sweep(store: BlockingStore, empty: Iterable[str]) -> int:
    """Remove leftovers, and those sessions of `empty` that are still without a turn; return how many."""
    still_empty = ((session_id, partial(_remove_if_empty, session_id)) for session_id in empty)
    return sum(_remove_locked(store, *removal) for removal in chain(_leftovers(store), still_empty))


_Removal = tuple[str, Callable[[BlockingStore, Lock], bool]]
"""Whose lock is needed, and what removes the folder under it, if it still may go."""


def _leftovers(store: BlockingStore) -> Iterable[_Removal]:
    for name in store.disk.names(store.root):
        prefix, _, session_id = name.partition("-")
        if f"{prefix}-" in (folder.BUILT, folder.REMOVED) and folder.is_session_id(session_id):
            yield session_id, partial(_remove_leftover, name)
        elif folder.is_session_id(name) and folder.has_no_log(store.disk, f"{store.root}/{name}"):
            yield name, partial(_remove_if_without_log, name)


def _remove_locked(store: BlockingStore, session_id: str, remove: Callable[[BlockingStore, Lock], bool]) -> bool:
    """Call `remove` under the session's lock, if it is free, and return what it says."""
    try:
        lock = acquire(store.disk, store.lock_path(session_id), session_id, patience_s=0)  # whoever has it is at work
    except (SessionInUse, StoreError):
        return False
    try:
        return remove(store, lock)
    except (OSError, StoreError):
        return False
    finally:
        lock.release()


def _remove_leftover(name: str, store: BlockingStore, _lock: Lock) -> bool:
    remove_tree(store.disk, f"{store.root}/{name}")
    return True


def _remove_if_empty(session_id: str, store: BlockingStore, lock: Lock) -> bool:
    """Remove a session unless it got a turn since it was listed."""
    types = set[str]()
    with store.open_log(session_id, READ) as (fd, path):
        found = scan(store.disk, fd, session_id, path, take=lambda record: types.add(record["type"]))
    if found.damage or "turn/start" in types:
        return False
    remove_tree(store.disk, folder.discard(store.disk, store.root, session_id, lock))
    return True


def _remove_if_without_log(session_id: str, store: BlockingStore, _lock: Lock) -> bool:
    """Remove what an undone making left under the session's name."""
    path = f"{store.root}/{session_id}"
    if not folder.has_no_log(store.disk, path):
        return False
    remove_tree(store.disk, path)
    return True
