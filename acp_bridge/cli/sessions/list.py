"""`acp-bridge sessions list`: which sessions there are, newest first."""

import time
from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from acp_bridge.cli.formatting import age, clean, line_of, short_path, size, stamp
from acp_bridge.cli.parser import CommandParser
from acp_bridge.cli.terminal import console, print_json, print_line
from acp_bridge.errors import ConfigError
from acp_bridge.session import Page, SessionFilter, SessionSummary
from acp_bridge.text import quantity

from .folder import SessionFolder, open_folder

_ON_A_SCREEN = 30
_PAGE = 1000
_SHORT_ID, _WHOLE_ID = 10, 22
_STATE, _WHEN, _SIZE = 11, 10, 7
_GAP = "  "
_AS_IT_IS: Final[dict[str, Any]] = {"no_wrap": True, "overflow": "ignore", "crop": False}
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
    return anyio.run(_list, open_folder(), SessionFilter(cwd=cwd, with_empty=args.all), args.limit, args.json)


_EPILOG = """\
Where stdout is no terminal, a line is: id, state, time of the last change (UTC), bytes, turns, folder and title,
separated by tabs. "interrupted" says that a turn has no end: it was cut off, or runs in another process just now.
"""


async def _list(sessions: SessionFolder, which: SessionFilter, limit: int | None, as_json: bool) -> int:
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
        await _show(terminal, sessions, which, wanted)
    return 0


async def _show(terminal: Console, sessions: SessionFolder, which: SessionFilter, wanted: int) -> None:
    """Print what a person reads, page by page."""
    columns = _Columns.of(terminal.width)
    now = time.time_ns() // 1_000_000
    count, first, states, more = 0, "", set[str](), False
    async for page in _pages(sessions, which, wanted):
        if not count and not states and (page.sessions or page.damaged):
            terminal.print(columns.row("Title", "State", "When", "Size", "Id", "Folder", style="dim"), **_AS_IT_IS)
        for one in page.sessions:
            terminal.print(columns.session(one, now), **_AS_IT_IS)
        for session_id in page.damaged:
            terminal.print(columns.row("?", "unreadable", "", "", session_id, "", style="red"), **_AS_IT_IS)
        states.update(one.state for one in page.sessions)
        states.update("unreadable" for _ in page.damaged)
        first = first or (page.sessions[0].session_id if page.sessions else "")
        count, more = count + len(page.sessions), page.cursor is not None
    for line in _footnotes(count, states, more, first[: columns.id] if columns.id < len(first) else ""):
        terminal.print(Text(line, style="dim"))
    if not states:
        terminal.print(Text(_nothing(which, sessions.root)))


async def _pages(sessions: SessionFolder, which: SessionFilter, wanted: int) -> AsyncGenerator[Page]:
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
        print_line("\t".join((*map(str, members), line_of(one.title))).replace("\n", " "))
    for session_id in page.damaged:
        print_line(f"{session_id}\tunreadable\t\t\t\t\t")


@dataclass(frozen=True, slots=True)
class _Columns:
    """How many cells each column has. Rows are laid out by hand: a table must know all of them, and takes its time."""

    title: int
    id: int
    folder: int

    @classmethod
    def of(cls, width: int) -> "_Columns":
        shown_id = _WHOLE_ID if width >= _WIDE else _SHORT_ID
        left = max(width - 1 - _STATE - _WHEN - _SIZE - shown_id - 5 * len(_GAP), 2 * _SHORT_ID)
        folder = left * 2 // 5
        return cls(left - folder, shown_id, folder)

    def session(self, one: SessionSummary, now: int) -> Text:
        """Return a session's row."""
        cells = self._cells(
            line_of(one.title) or "untitled",
            one.state,
            age(one.updated, now),
            size(one.size),
            one.session_id,
            short_path(one.cwd),
        )
        styles = ("" if one.title else "dim italic", _COLORS[one.state], "", "dim", "cyan", "dim")
        row = Text()
        for cell, style in zip(cells, styles, strict=True):
            row.append(cell, style).append(_GAP)
        row.rstrip()
        return row

    def row(self, *texts: str, style: str = "") -> Text:
        """Return a row of one style."""
        return Text(_GAP.join(self._cells(*texts)).rstrip(), style=style)

    def _cells(self, *texts: str) -> list[str]:
        """Return texts, each cut or filled to its column."""
        cells = [_fit(text, width) for text, width in zip(texts, self._widths(), strict=True)]
        cells[3] = texts[3].rjust(_SIZE)
        cells[4] = texts[4][: self.id].ljust(self.id)  # to be copied, so nothing stands for what is cut off
        return cells

    def _widths(self) -> tuple[int, ...]:
        return self.title, _STATE, _WHEN, _SIZE, self.id, self.folder


def _fit(text: str, width: int) -> str:
    if text.isascii() and len(text) <= width:  # most are
        return text.ljust(width)
    if cell_len(text) > width:
        text = set_cell_size(text, width - 1) + "…"
    return set_cell_size(text, width)


def _footnotes(count: int, states: Collection[str], more: bool, beginning: str) -> list[str]:
    notes: list[str] = []
    if more:
        notes.append(f"The newest {quantity(count, 'session')}; --limit 0 shows all.")
    if "interrupted" in states:
        notes.append("interrupted: the last turn was cut off, or runs in another process just now.")
    if "damaged" in states or "unreadable" in states:
        notes.append("`acp-bridge sessions verify` says what is wrong with the damaged ones.")
    if beginning:
        notes.append(f"The beginning of an id is enough: acp-bridge sessions show {beginning}")
    return ["", *notes] if notes else []


def _nothing(which: SessionFilter, root: Path) -> str:
    where = f" in {short_path(which.cwd)}" if which.cwd is not None else ""
    hint = "" if which.with_empty else " --all shows also those in which nothing was asked."
    return f"No sessions{where}. They lie in {short_path(str(root))}.{hint}"
