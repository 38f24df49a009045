"""`acp-bridge sessions verify`: check every record, without the lock and changing nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, TypeAlias

import anyio
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from acp_bridge.cli.formatting import clean, size
from acp_bridge.cli.parser import CommandParser
from acp_bridge.cli.terminal import console, print_json, print_line, print_wrapped
from acp_bridge.errors import SessionNotFound, StoreCorrupt, StoreError, StoreTooNew, StoreUnsupported
from acp_bridge.session import Verification
from acp_bridge.text import quantity

from .folder import SessionFolder, open_folder

Verdict: TypeAlias = Literal["sound", "torn tail", "corrupt", "too new", "unreadable"]
_COLORS: dict[Verdict, str] = {
    "sound": "green",
    "torn tail": "yellow",
    "corrupt": "red",
    "too new": "yellow",
    "unreadable": "red",
}

_MANY = 20
"""Sessions from which on progress is shown, and of the sound ones only their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is said of a session.

    Attributes:
        line, offset: of the first damaged line, 1-based, and its first byte; set if it is corrupt.
        detail: in words, with what to do.
    """

    id: str
    verdict: Verdict
    path: str = ""
    records: int = 0
    size: int = 0
    dropped_bytes: int = 0
    line: int | None = None
    offset: int | None = None
    detail: str = ""


def main(argv: list[str]) -> int:
    """Verify sessions; 1 if any is not sound.

    Raises:
        ConfigError, SessionNotFound: in words for a person.
    """
    parser = CommandParser(
        "sessions verify",
        "Checks every record of sessions, all of them by default. Changes nothing; exit code 1 if any is not sound.",
        epilog=_EPILOG,
    )
    parser.add_argument("ids", metavar="ID", nargs="*", help="sessions' ids, or beginnings of them")
    parser.add_argument("--json", action="store_true", help="an array of objects")
    args = parser.parse_args(argv)
    sessions = open_folder()
    ids = list(dict.fromkeys(map(sessions.find, args.ids))) if args.ids else sessions.ids()
    return anyio.run(_verify, sessions, ids, args.json)


_EPILOG = """\
sound       every record has its checksum
torn tail   a crash left an incomplete end that was never acknowledged; loading or `sessions repair` cuts it
corrupt     damage below what is known durable; `sessions repair --salvage` keeps what is before it
too new     a newer version of this program wrote it; upgrade
"""


async def _verify(sessions: SessionFolder, ids: Sequence[str], as_json: bool) -> int:
    findings: list[Finding] = []
    terminal = console()
    to_read = terminal.is_terminal
    with Progress(console=console(stderr=True), transient=True, disable=len(ids) < _MANY) as progress:
        for session_id in progress.track(ids, description="verifying"):
            found = await examine(sessions, session_id)
            if found is None:
                continue
            findings.append(found)
            if as_json:
                continue
            if not to_read:
                print_line("\t".join((found.verdict, found.id, *_details(found))))
            elif found.verdict != "sound" or len(ids) < _MANY:
                _print(progress.console if len(ids) >= _MANY else terminal, found)
    if as_json:
        print_json([asdict(found) for found in findings])
    elif to_read:
        for line in _summary(findings):
            print_line(line)
    return 0 if all(found.verdict == "sound" for found in findings) else 1


async def examine(sessions: SessionFolder, session_id: str) -> Finding | None:
    """Read a session whole and return what is wrong with it, if anything; None if it was deleted meanwhile."""
    path = str(sessions.root / session_id / "log.jsonl")
    try:
        found = await sessions.store.verify(session_id)
        if found.damage is None:
            await sessions.store.read(session_id)  # whole records may still be of a kind that is not known here
    except SessionNotFound as exc:
        if not (sessions.root / session_id).is_dir():
            return None
        return Finding(id=session_id, verdict="unreadable", path=path, detail=f"its log is missing: {exc}")
    except StoreCorrupt as exc:
        return Finding(
            id=session_id, verdict="corrupt", path=path, line=exc.line, offset=exc.offset, detail=_reason(exc)
        )
    except (StoreTooNew, StoreUnsupported) as exc:
        return Finding(id=session_id, verdict="too new", path=path, detail=str(exc))
    except StoreError as exc:
        return Finding(id=session_id, verdict="unreadable", path=path, detail=str(exc))
    return _finding(session_id, found)


def _finding(session_id: str, found: Verification) -> Finding:
    """Return what is said of a session whose records were all read."""
    whole = Finding(
        id=session_id,
        verdict="sound",
        path=found.path,
        records=found.records,
        size=found.size,
        dropped_bytes=found.dropped_bytes,
    )
    if (damage := found.damage) is not None:
        detail = _salvage(session_id, damage.reason)
        return replace(whole, verdict="corrupt", line=damage.line, offset=damage.offset, detail=detail)
    if not found.dropped_bytes:
        return whole
    lost = quantity(found.dropped_bytes, "byte")
    detail = (
        f"an incomplete end of {lost} was never acknowledged; loading the session "
        f"or `acp-bridge sessions repair {session_id}` cuts it"
    )
    return replace(whole, verdict="torn tail", detail=detail)


def _reason(exc: StoreCorrupt) -> str:
    if exc.line == 1:
        return f"{exc}; its first line is damaged, so nothing can be salvaged"
    return str(exc)


def _salvage(session_id: str, reason: str) -> str:
    return f"{reason}; `acp-bridge sessions repair --salvage {session_id}` keeps what is before it"


def _details(found: Finding) -> tuple[str, ...]:
    """Return what is said of a session behind its verdict and id."""
    if found.verdict == "sound":
        return (f"{quantity(found.records, 'record')}, {size(found.size)}",)
    place = f", line {found.line}, offset {found.offset}" if found.line is not None else ""
    return f"{clean(found.path)}{place}", clean(found.detail)


def _print(terminal: Console, found: Finding) -> None:
    """Print the lines of a session for a person."""
    first, *rest = _details(found)
    verdict = (f"{found.verdict:<10}  ", _COLORS[found.verdict])
    if rest:
        terminal.print(Text.assemble(verdict, (found.id, "cyan")))
        rest.insert(0, first)
    else:
        terminal.print(Text.assemble(verdict, (found.id, "cyan"), f"  {first}"))
    for line in rest:
        print_wrapped(terminal, " " * 12, line)


def _summary(findings: Sequence[Finding]) -> Iterator[str]:
    counts = {verdict: sum(found.verdict == verdict for found in findings) for verdict in _COLORS}
    said = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items() if count)
    yield f"{quantity(len(findings), 'session')}: {said}" if findings else "No sessions."
