"""`acp-bridge sessions delete`: remove sessions for good."""

import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from acp_bridge.cli.formatting import line_of
from acp_bridge.cli.parser import CommandParser
from acp_bridge.cli.terminal import print_line, say
from acp_bridge.errors import ConfigError, SessionInUse, StoreError
from acp_bridge.session import SessionTitled, TurnStarted
from acp_bridge.text import quantity

from .folder import SessionFolder, open_folder

_REMOVAL_S = 10.0
"""How long the removal of one session's files is waited for; the rest is swept by a later start."""


def main(argv: list[str]) -> int:
    """Delete sessions; 1 if one could not be.

    Raises:
        ConfigError: nobody is there to be asked.
        SessionNotFound: an id is none.
    """
    parser = CommandParser(
        "sessions delete", "Removes sessions for good. Asks first; without a terminal, -y is needed."
    )
    parser.add_argument("ids", metavar="ID", nargs="+", help="sessions' ids, or beginnings of them")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    args = parser.parse_args(argv)
    sessions = open_folder()
    ids = list(dict.fromkeys(map(sessions.find, args.ids)))
    if not args.yes and not sys.stdin.isatty():
        raise ConfigError(
            f"nothing was deleted: nobody can be asked here; add -y to delete {quantity(len(ids), 'session')}"
        )
    return anyio.run(_delete, sessions, ids, args.yes)


async def _delete(sessions: SessionFolder, ids: Sequence[str], yes: bool) -> int:
    failed = False
    for session_id in ids:
        if not yes and not await _confirm(sessions, session_id):
            print_line(f"{session_id} was kept.")
            continue
        try:
            await sessions.store.delete(session_id)
        except SessionInUse as exc:
            say(f"acp-bridge: {session_id} was not deleted: it is in use by {exc.holder}; close it there first")
            failed = True
        except StoreError as exc:
            say(f"acp-bridge: {session_id} was not deleted: {exc}")
            failed = True
        else:
            left = await anyio.to_thread.run_sync(_await_removal, sessions, session_id)
            if left is None:
                print_line(f"{session_id} is deleted.")
            else:
                say(f"acp-bridge: {session_id} is deleted, but not all of its files could be removed: remove {left}")
                failed = True
    return 1 if failed else 0


async def _confirm(sessions: SessionFolder, session_id: str) -> bool:
    sys.stderr.write(f"Delete {await _describe(sessions, session_id)} for good? [y/N] ")
    sys.stderr.flush()
    # abandoned by a Ctrl-C: the thread waits for a line that may never come
    answer = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    return answer.strip().lower() in ("y", "yes")


async def _describe(sessions: SessionFolder, session_id: str) -> str:
    try:
        loaded = await sessions.store.read(session_id)
    except StoreError:
        return f"{session_id}, which cannot be read,"
    titles = [record.event.title for record in loaded.records if isinstance(record.event, SessionTitled)]
    turns = sum(isinstance(record.event, TurnStarted) for record in loaded.records)
    title = f"“{line_of(titles[-1])}”" if titles else "an untitled session"
    return f"{title} ({session_id}, {quantity(turns, 'turn')})"


def _await_removal(sessions: SessionFolder, session_id: str) -> Path | None:
    """Wait for the store's thread that removes the files, and return the folder if something of it is left.

    Whoever deletes a secret wants it gone when this command ends.
    """
    for thread in threading.enumerate():
        if thread.name == f"remove {session_id}":
            thread.join(_REMOVAL_S)
    left = sessions.root / f"trash-{session_id}"
    return left if left.exists() else None
