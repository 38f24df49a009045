"""`acp-bridge sessions list`: which sessions there are, newest first."""

import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import anyio
from rich.table import Table
from rich.text import Text

from acp_bridge.cli.parser import CommandParser
from acp_bridge.cli.terminal import console, out, print_json
from acp_bridge.cli.words import age, clean, counted, line_of, short_path, size, stamp
from acp_bridge.errors import ConfigError
from acp_bridge.session import Page, SessionFilter, SessionSummary

from .stored import Stored, stored

_ON_A_SCREEN = 30
_PAGE = 1000
_SHORT_ID = 10
_WIDE = 130
"""Columns that a terminal must have before ids are shown whole."""
_COLORS = {"idle": "dim", "interrupted": "yellow", "open": "green", "damaged": "red", "unreadable": "red"}


def main(argv: list[str]) -> int:
    """List sessions; 0 whatever is found.

    Raises:
        ConfigError, StoreError: in words for a person.
    """
    parser = CommandParser("sessions list", "Lists sessions, newest first.", epilog=_EPILOG)
    parser.add_argument(
        "--cwd", nargs="?", const=".", metavar="DIR", help="only those of a folder (alone: of this one)"
    )
    parser.add_argument("--all", action="store_true", help="also those in which nothing was asked yet")
    parser.add_argument(
        "--limit", type=int, metavar="N", help=f"at most N, 0 for all (default: {_ON_A_SCREEN} on a terminal, else all)"
    )
    parser.add_argument("--json", action="store_true", help="an array of objects")
    args = parser.parse_args(argv)
    if args.limit is not None and args.limit < 0:
        raise ConfigError(f"--limit must be 0 or more, not {args.limit}")
    cwd = None if args.cwd is None else str(Path(args.cwd).absolute())
    return anyio.run(_list, stored(), SessionFilter(cwd=cwd, with_empty=args.all), args.limit, args.json)


_EPILOG = """\
Where stdout is no terminal, a line is: id, state, time of the last change (UTC), bytes, turns, folder and title,
separated by tabs. "interrupted" says that a turn has no end: it was cut off, or runs in another process just now.
"""


async def _list(sessions: Stored, which: SessionFilter, limit: int | None, as_json: bool) -> int:
    terminal = console()
    to_read = terminal.is_terminal and not as_json
    wanted = (_ON_A_SCREEN if to_read else 0) if limit is None else limit
    if as_json:
        rows = [row async for page in _pages(sessions, which, wanted) for row in _objects(page)]
        print_json(rows)
    elif not to_read:
        async for page in _pages(sessions, which, wanted):
            _print_lines(page)
    else:
        shown: list[SessionSummary] = []
        damaged: list[str] = []
        more = False
        async for page in _pages(sessions, which, wanted):
            shown.extend(page.sessions)
            damaged.extend(page.damaged)
            more = page.cursor is not None
        for line in _table(shown, damaged, more, which, terminal.width, sessions.root):
            terminal.print(line)
    return 0


async def _pages(sessions: Stored, which: SessionFilter, wanted: int) -> AsyncGenerator[Page]:
    """Yield pages until `wanted` sessions are there; 0 for all."""
    cursor, left = None, wanted
    while True:
        page = await sessions.store.list(which, cursor=cursor, limit=min(left, _PAGE) if wanted else _PAGE)
        yield page
        cursor, left = page.cursor, left - len(page.sessions)
        if cursor is None or (wanted and left <= 0):
            return


def _objects(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {
            "id": one.session_id,
            "title": one.title,
            "state": one.state,
            "cwd": one.cwd,
            "roots": one.roots,
            "created": stamp(one.created),
            "updated": stamp(one.updated),
            "turns": one.turns,
            "size": one.size,
        }
        for one in page.sessions
    ]
    return found + [{"id": session_id, "state": "unreadable"} for session_id in page.damaged]


def _print_lines(page: Page) -> None:
    for one in page.sessions:
        members = (
            one.session_id,
            one.state,
            stamp(one.updated),
            one.size,
            one.turns,
            clean(one.cwd).replace("\t", " "),
        )
        out("\t".join((*map(str, members), line_of(one.title))).replace("\n", " "))
    for session_id in page.damaged:
        out(f"{session_id}\tunreadable\t\t\t\t\t")


def _table(
    shown: Sequence[SessionSummary], damaged: Sequence[str], more: bool, which: SessionFilter, width: int, root: Path
) -> list[Table | Text]:
    """Return what a person sees."""
    lines: list[Table | Text] = []
    if not shown and not damaged:
        return [Text(_nothing(which, root))]
    table = Table(box=None, padding=(0, 2, 0, 0), expand=True, header_style="dim")
    table.add_column("Title", ratio=3, no_wrap=True, overflow="ellipsis", min_width=14)
    for name, right in (("State", False), ("When", False), ("Size", True), ("Id", False)):
        table.add_column(name, no_wrap=True, justify="right" if right else "left")
    table.add_column("Folder", ratio=2, no_wrap=True, overflow="ellipsis", min_width=10)
    now, cut = time.time_ns() // 1_000_000, width < _WIDE
    for one in shown:
        table.add_row(
            Text(line_of(one.title)) if one.title else Text("untitled", style="dim italic"),
            Text(one.state, style=_COLORS[one.state]),
            Text(age(one.updated, now)),
            Text(size(one.size), style="dim"),
            Text(one.session_id[:_SHORT_ID] if cut else one.session_id, style="cyan"),
            Text(short_path(one.cwd), style="dim"),
        )
    for session_id in damaged:
        state = Text("unreadable", style="red")
        table.add_row(Text("?", style="dim"), state, "", "", Text(session_id, style="cyan"), "")
    lines.append(table)
    lines.extend(Text(line, style="dim") for line in _footnotes(shown, damaged, more, cut))
    return lines


def _footnotes(shown: Sequence[SessionSummary], damaged: Sequence[str], more: bool, cut: bool) -> list[str]:
    notes: list[str] = []
    if more:
        notes.append(f"The newest {counted(len(shown), 'session')}; --limit 0 shows all.")
    if any(one.state == "interrupted" for one in shown):
        notes.append("interrupted: the last turn was cut off, or runs in another process just now.")
    if damaged or any(one.state == "damaged" for one in shown):
        notes.append("`acp-bridge sessions verify` says what is wrong with the damaged ones.")
    if cut and shown:
        notes.append(f"The beginning of an id is enough: acp-bridge sessions show {shown[0].session_id[:_SHORT_ID]}")
    return ["", *notes] if notes else []


def _nothing(which: SessionFilter, root: Path) -> str:
    where = f" in {short_path(which.cwd)}" if which.cwd is not None else ""
    hint = "" if which.with_empty else " --all shows also those in which nothing was asked."
    return f"No sessions{where}. They lie in {short_path(str(root))}.{hint}"
