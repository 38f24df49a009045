"""`acp-bridge sessions fork`: a new session of another's beginning."""

import secrets
import sys

import anyio

from acp_bridge import __version__
from acp_bridge.cli.parser import CommandParser
from acp_bridge.cli.terminal import print_line, say
from acp_bridge.errors import ConfigError
from acp_bridge.session import Header, Loaded, TurnEnded, TurnStarted, milliseconds_now
from acp_bridge.session.sessions import SESSION_ID_BYTES

from .folder import SessionFolder, open_folder


def main(argv: list[str]) -> int:
    """Fork a session and print the new one's id.

    Raises:
        ConfigError, StoreError: in words for a person.
    """
    parser = CommandParser(
        "sessions fork", "Makes a new session of another's beginning and prints its id. The other stays as it is."
    )
    parser.add_argument("id", metavar="ID", help="a session's id, or the beginning of one")
    parser.add_argument(
        "--at", type=int, metavar="TURN", help="the last turn to take over (default: the last that ended)"
    )
    args = parser.parse_args(argv)
    return anyio.run(_fork, open_folder(), args.id, args.at)


async def _fork(sessions: SessionFolder, beginning: str, at: int | None) -> int:
    session_id = sessions.find(beginning)
    loaded = await sessions.store.read(session_id)
    turn, through = turn_end(loaded, at)
    header = Header(
        session_id=secrets.token_urlsafe(SESSION_ID_BYTES).replace("-", "_"),  # none must look like an option
        created=milliseconds_now(),
        version=__version__,
        cwd=loaded.header.cwd,
        roots=loaded.header.roots,
        forked_from=session_id,
    )
    await sessions.store.fork(session_id, header, through=through)
    print_line(header.session_id)
    if sys.stdout.isatty():
        say(f"A new session, with the turns up to {turn} of {session_id}.")
    return 0


def turn_end(loaded: Loaded, at: int | None) -> tuple[int, int]:
    """Return the turn to fork at and the seq of its end.

    Raises:
        ConfigError: there is no such turn, or it has not ended.
    """
    session_id = loaded.header.session_id
    ends = {record.event.turn: record.seq for record in loaded.records if isinstance(record.event, TurnEnded)}
    begun = [record.event.turn for record in loaded.records if isinstance(record.event, TurnStarted)]
    if not ends:
        raise ConfigError(f"session {session_id} has no turn that ended, so there is nothing to fork")
    turn = max(ends) if at is None else at
    if turn in ends:
        return turn, ends[turn]
    if turn in begun:
        raise ConfigError(
            f"turn {turn} of session {session_id} has not ended: it runs, or was cut off; "
            f"`acp-bridge sessions repair {session_id}` closes it, or fork at {max(ends)}"
        )
    raise ConfigError(f"session {session_id} has no turn {turn}; its turns are {min(ends)} to {max(begun)}")
