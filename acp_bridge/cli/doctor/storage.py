"""The folder that sessions are kept in: tried with the store itself, in a folder beside them that goes again.

Owns what is too slow and too little. Leaves nothing behind.
"""

import os
import shutil
import statistics
import tempfile
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread

from acp_bridge import __version__
from acp_bridge.cli.formatting import size
from acp_bridge.errors import SessionInUse, StoreError
from acp_bridge.session import Header, Record, SessionFilter, SessionTitled, milliseconds_now
from acp_bridge.storage import JsonlStore
from acp_bridge.text import quantity

from .report import Check

_TRIALS = 5
_SLOW_S = 0.1
"""A sync that takes longer is felt: each request and each group of calls waits for one."""
_LITTLE, _TOO_LITTLE = 1_000_000_000, 20_000_000
_TRIAL = ".acp-bridge-doctor-"
_ELSEWHERE = "set ACP_BRIDGE_HOME to a folder on a local disk that you may write to"


async def storage(home: Path) -> list[Check]:
    """Look at the folder, whether it can be written durably, whether its locks lock, and what room there is."""
    place = await anyio.to_thread.run_sync(_existing, home)
    checks = [await anyio.to_thread.run_sync(_obstacle, place) or await _folder(home, place)]
    if checks[0].level != "problem":
        checks += await _try(place)
        checks.append(await anyio.to_thread.run_sync(_room, place))
    return checks


def _existing(home: Path) -> Path:
    """Return the folder, or the nearest above it that is there."""
    return next(path for path in (home, *home.parents) if path.exists())


def _obstacle(place: Path) -> Check | None:
    """Return what forbids the folder, if something does."""
    if not place.is_dir():
        return Check(name="Storage", level="problem", detail=f"{place} is no folder", remedy=_ELSEWHERE)
    if not os.access(place, os.W_OK | os.X_OK):
        return Check(name="Storage", level="problem", detail=f"{place} cannot be written to", remedy=_ELSEWHERE)
    return None


async def _folder(home: Path, place: Path) -> Check:
    if place != home:
        return Check(name="Storage", detail=f"{home}, which the first session makes")
    try:
        page = await JsonlStore(home / "sessions").list(SessionFilter(with_empty=True), limit=1)
    except StoreError as exc:
        return Check(name="Storage", level="problem", detail=str(exc), remedy="correct that, or set ACP_BRIDGE_HOME")
    if page.damaged:
        return Check(
            name="Storage",
            level="warning",
            detail=f"{home}; {quantity(len(page.damaged), 'session')} cannot be read",
            remedy="`acp-bridge sessions verify` says what is wrong with them",
        )
    return Check(name="Storage", detail=str(home))


async def _try(place: Path) -> list[Check]:
    """Make a session in a folder of its own, write to it, try its lock, and remove it."""
    try:  # beside the sessions: another file system would tell nothing of theirs
        folder = Path(tempfile.mkdtemp(prefix=_TRIAL, dir=place))
    except OSError as exc:
        why = (exc.strerror or str(exc)).lower()
        return [Check(name="Sync", level="problem", detail=f"{place} cannot be written to: {why}", remedy=_ELSEWHERE)]
    try:
        return await _trial(folder / "sessions")
    except StoreError as exc:
        return [Check(name="Sync", level="problem", detail=f"a session cannot be stored: {exc}", remedy=_ELSEWHERE)]
    finally:
        with suppress(OSError):
            shutil.rmtree(folder)


async def _trial(root: Path) -> list[Check]:
    header = Header(session_id="trial", created=milliseconds_now(), version=__version__, cwd="/", roots=("/",))
    held = await JsonlStore(root).create(header, [])
    try:
        took: list[float] = []
        for seq in range(_TRIALS):
            began = anyio.current_time()
            await held.append([Record(seq, milliseconds_now(), SessionTitled(title="trial"))])
            took.append(anyio.current_time() - began)
        checks = [_sync(statistics.median(took)), await _lock(root)]
        if held.warning:
            checks.append(Check(name="File system", level="warning", detail=held.warning, remedy=_ELSEWHERE))
        return checks
    finally:
        await held.close()


def _sync(median_s: float) -> Check:
    detail = f"works, in {median_s * 1000:.1f} ms"
    if median_s > _SLOW_S:
        return Check(
            name="Sync",
            level="warning",
            detail=f"{detail}, which is felt at every step",
            remedy="set ACP_BRIDGE_HOME to a faster disk",
        )
    return Check(name="Sync", detail=detail)


async def _lock(root: Path) -> Check:
    try:
        second = await JsonlStore(root, patience_s=0).hold("trial")  # no patience: the first holder does not leave
    except SessionInUse:
        return Check(name="Lock", detail="works: a second holder is refused")
    await second.close()
    return Check(
        name="Lock",
        level="problem",
        detail="two holders get one session's lock, so two processes could write one log",
        remedy=_ELSEWHERE,
    )


def _room(place: Path) -> Check:
    free = shutil.disk_usage(place).free
    detail = f"{size(free)} free"
    if free < _TOO_LITTLE:
        return Check(name="Space", level="problem", detail=detail, remedy="make room: nothing can be saved soon")
    if free < _LITTLE:
        return Check(name="Space", level="warning", detail=detail, remedy="make room, or move ACP_BRIDGE_HOME")
    return Check(name="Space", detail=detail)
