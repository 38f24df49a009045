"""`acp-bridge sessions repair`: close what a crash left open, as a load would; with `--salvage`, go round damage."""

import anyio

from acp_bridge import __version__
from acp_bridge.cli.formatting import clean
from acp_bridge.cli.parser import CommandParser
from acp_bridge.cli.terminal import print_line
from acp_bridge.errors import IllegalEvent, StoreUnsupported
from acp_bridge.session import (
    HeldSession,
    Log,
    Record,
    Recovery,
    SessionOpened,
    closers,
    milliseconds_now,
    recovery_of,
    recovery_text,
)
from acp_bridge.text import quantity

from .folder import SessionFolder, open_folder


def main(argv: list[str]) -> int:
    """Repair a session; 0 if it is sound afterwards.

    Raises:
        ConfigError, StoreError: in words for a person.
    """
    parser = CommandParser(
        "sessions repair",
        "Closes what a crash left open, exactly as loading the session in an editor would. Changes nothing if there\n"
        "is nothing to close. Runs no tool and asks no model.",
    )
    parser.add_argument("id", metavar="ID", help="a session's id, or the beginning of one")
    parser.add_argument(
        "--salvage",
        action="store_true",
        help="of a corrupt log, keep the records before the damage; the damaged file is kept whole beside it",
    )
    args = parser.parse_args(argv)
    return anyio.run(_repair, open_folder(), args.id, args.salvage)


async def _repair(sessions: SessionFolder, beginning: str, salvage: bool) -> int:
    session_id = sessions.find(beginning)
    if salvage:
        await _salvage(sessions, session_id)
    held = await sessions.store.hold(session_id)
    try:
        recovery = await _close(held)
    finally:
        await held.close()
    if recovery is None:
        print_line(f"{session_id} is whole; nothing was changed." if not salvage else f"{session_id} is whole.")
    else:
        said = recovery_text(recovery) or "It was written anew, since the last sync of it had not been seen to succeed."
        print_line(f"{session_id} is repaired. {said}")
    return 0


async def _salvage(sessions: SessionFolder, session_id: str) -> None:
    found = await sessions.store.salvage(session_id)
    if found.damage is None:
        print_line(f"{session_id} is not corrupt; there is nothing to salvage.")
        return
    lost = found.size - found.damage.offset
    print_line(
        f"{session_id} was damaged at line {found.damage.line}, offset {found.damage.offset}: {found.damage.reason}.\n"
        f"  kept   {quantity(found.records, 'record')}, all before the damage\n"
        f"  lost   {quantity(lost, 'byte')} from there on; what they did outside may have happened all the same\n"
        f"  copy   the damaged file, whole: {clean(found.kept_file)}"
    )


async def _close(held: HeldSession) -> Recovery | None:
    """Write what a held session lacks; None if it lacks nothing.

    Raises:
        StoreError: it could not be written, or is in an order that this version does not know.
    """
    loaded = held.loaded
    try:
        log = Log(loaded.header, loaded.records, clock=milliseconds_now)
    except IllegalEvent as exc:
        session_id = loaded.header.session_id
        raise StoreUnsupported(
            f"session {session_id!r} holds events in an order that this version does not know: {exc}; "
            "upgrade acp-stdio-bridge",
            session_id=session_id,
        ) from exc
    closing = closers(log)
    # a file that may not last is written anew although nothing is open: only that makes it sure
    if not (closing or loaded.dropped_bytes or loaded.may_not_last):
        return None
    last = log.records[-1].time if log.records else log.header.created
    records: list[Record] = [log.append(event, synthetic=True, time=last) for event in closing]
    state = log.state
    opened = SessionOpened(version=__version__, barriers=(), cwd=state.cwd, roots=state.roots)
    records.append(log.append(opened))  # whoever took the lock and wrote is named; nothing runs under it
    await held.repair(records)
    return recovery_of(log.records, log.state, dropped_bytes=loaded.dropped_bytes)
