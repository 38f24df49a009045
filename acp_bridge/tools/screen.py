"""What a terminal would show in the end of what a program wrote: progress drawn over itself, colours, titles. Pure.

Owns the cursor, and the lines that it can still reach. Knows no process and no bounds of output.

Decision: no terminal emulator. A library's (pyte) holds a screen of fixed width, which breaks long lines, and takes
hundreds of times as long: a second for 600 kB. This holds the last lines as text and reads what moves, erases and
scrolls; colours, titles, links, pictures and modes are dropped. Line ends start a new line, as a terminal's driver has
it, and a tab stays a tab, since text is copied from here.
"""

import re
from collections.abc import Callable
from typing import Final

ROWS: Final = 100
"""Lines above the last that a cursor can get back to; more than a screen has."""
COLUMNS: Final = 500
"""Characters after which a line goes on below, as on a screen; so no movement costs more than this."""
_HELD: Final = 4096
"""Characters of an escape sequence that has not ended; what is longer was none."""

_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x08\x0b-\x1f\x7f-\x9f]+)"
    r"|(?:\x1b\[|\x9b)(?P<numbers>[0-?]*)[ -/]*(?P<final>[@-~])"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # titles, links, pictures
    r"|\x1b[ -/]*(?P<escape>[0-~])"
    r"|(?P<control>[\x00-\x1f\x7f-\x9f])"
)
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_UNFINISHED = re.compile(
    r"(?:\x1b(?:[ -/]*|\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\x9c]*\x1b?)"
    r"|\x9b[0-?]*[ -/]*|[\x90\x98\x9d-\x9f][^\x07\x1b\x9c]*\x1b?)\Z"
)


class Screen:
    """Text and escape sequences in, in any pieces; lines that nothing can change any more out."""

    def __init__(self) -> None:
        self._rows: list[str | list[str]] = [""]  # a list of characters once something was drawn over
        self._goes_on: list[bool] = [False]  # whether a row's line goes on in the next
        self._row = self._column = 0
        self._saved = (0, 0)
        self._held = ""
        self._left: list[str] = []

    def feed(self, text: str) -> str:
        """Take in what came; return what has left the screen at its top."""
        text = self._held + text
        if "\x1b" in text:
            text = _COLOURS.sub("", text)
        unfinished = _UNFINISHED.search(text)
        end = unfinished.start() if unfinished and len(text) - unfinished.start() <= _HELD else len(text)
        self._held = text[end:]
        for token in _TOKEN.finditer(text, 0, end):
            if (words := token["text"]) is not None:
                self._write(words)
            elif token["final"] is not None:
                self._sequence(token["final"], token["numbers"])
            else:
                self._control(token["control"] or token["escape"] or "", escape=token["escape"] is not None)
        left, self._left = self._left, []
        return "".join(left)

    def rest(self) -> str:
        """Return what is on the screen now."""
        last = len(self._rows)
        while last > self._row + 1 and not self._rows[last - 1]:
            last -= 1
        return self._joined(last).removesuffix("\n")

    def _joined(self, count: int) -> str:
        if not any(self._goes_on[:count]):
            return "\n".join(map(_as_text, self._rows[:count])) + "\n"
        rows = zip(self._rows[:count], self._goes_on[:count], strict=True)
        return "".join(_as_text(row) + ("" if goes_on else "\n") for row, goes_on in rows)

    def _scroll(self) -> None:
        """Let go of the rows at the top."""
        count = len(self._rows) - ROWS
        self._left.append(self._joined(count))
        del self._rows[:count], self._goes_on[:count]
        self._row -= count
        self._saved = (max(0, self._saved[0] - count), self._saved[1])

    # --- text ---

    def _write(self, text: str) -> None:
        lines = text.split("\n")
        if self._row == len(self._rows) - 1 and max(map(len, lines)) + self._column <= COLUMNS:
            self._write_at_the_end(lines)
            return
        for place, line in enumerate(lines):
            if place:
                self._next_row()
            while line:
                if self._column >= COLUMNS:
                    self._next_row(goes_on=True)
                room = COLUMNS - self._column
                self._place(line[:room])
                line = line[room:]

    def _write_at_the_end(self, lines: list[str]) -> None:
        """Write lines that need no breaking: as nearly all output does, and much faster."""
        if lines[0]:
            self._place(lines[0])
        if len(lines) > 1:
            self._goes_on[-1] = False
            self._rows += lines[1:]
            self._goes_on += [False] * (len(lines) - 1)
            self._row = len(self._rows) - 1
            self._column = len(lines[-1])
            if self._row > 2 * ROWS:
                self._scroll()

    def _place(self, text: str) -> None:
        row = self._rows[self._row]
        if self._column == len(row) and isinstance(row, str):
            self._rows[self._row] = row + text
        else:
            cells = self._cells()
            cells += " " * (self._column - len(cells))
            cells[self._column : self._column + len(text)] = text
        self._column += len(text)

    def _cells(self) -> list[str]:
        """Return the cursor's row as characters, to be changed."""
        row = self._rows[self._row]
        if isinstance(row, str):
            row = self._rows[self._row] = list(row)
        return row

    def _next_row(self, *, goes_on: bool = False) -> None:
        self._goes_on[self._row] = goes_on
        self._column = 0
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append("")
            self._goes_on.append(False)
            if self._row > 2 * ROWS:
                self._scroll()

    # --- movements ---

    def _move(self, row: int, column: int | None = None) -> None:
        """Go to a row, the last one if there is none so far down, and a column."""
        self._row = max(0, min(row, len(self._rows) - 1))
        if column is not None:
            self._column = max(0, min(column, COLUMNS))

    def _control(self, char: str, *, escape: bool) -> None:
        match char, escape:
            case "\r", False:
                self._column = 0
            case "\b", False:
                self._column = max(0, self._column - 1)
            case ("\v" | "\f" | "\x84" | "\x85", False) | ("D" | "E", True):
                self._next_row()
            case ("\x8d", False) | ("M", True):
                self._move(self._row - 1)
            case "\0", False:
                self._place(char)  # it parts names (find -print0): without it they would be one
            case "7", True:
                self._saved = (self._row, self._column)
            case "8", True:
                self._move(*self._saved)
            case "c", True:
                self._erase_all()
            case _:
                pass  # it rings, or changes how things look

    def _sequence(self, final: str, numbers: str) -> None:
        given = [int(number[:4]) if number.isdecimal() else 0 for number in numbers.lstrip("<=>?").split(";")[:2]]
        first, count = given[0], max(1, given[0])
        if (act := _ACTS.get(final)) is not None:
            act(self, count)
            return
        match final:
            case "H" | "f":
                self._move(count - 1, (max(1, given[1]) if len(given) > 1 else 1) - 1)
            case "J":
                self._erase_below() if first == 0 else self._erase_above() if first == 1 else self._erase_all()
            case "K":
                self._erase_in_row(first)
            case "s":
                self._saved = (self._row, self._column)
            case "u":
                self._move(*self._saved)
            case _:
                pass  # colours and modes

    # --- erasing ---

    def _erase_in_row(self, what: int) -> None:
        cells = self._cells()
        if what == 0:
            del cells[self._column :]
        elif what == 1:
            cells[: self._column + 1] = " " * min(self._column + 1, len(cells))
        else:
            cells.clear()

    def _erase_below(self) -> None:
        self._erase_in_row(0)
        del self._rows[self._row + 1 :], self._goes_on[self._row + 1 :]
        self._goes_on[self._row] = False

    def _erase_above(self) -> None:
        self._erase_in_row(1)
        self._rows[: self._row] = [""] * self._row

    def _erase_all(self) -> None:
        self._rows, self._goes_on = [""], [False]
        self._row = self._column = 0

    def _erase_cells(self, count: int) -> None:
        cells = self._cells()
        gone = len(cells[self._column : self._column + count])
        cells[self._column : self._column + gone] = " " * gone

    def _delete_cells(self, count: int) -> None:
        del self._cells()[self._column : self._column + count]

    def _insert_cells(self, count: int) -> None:
        cells = self._cells()
        if self._column < len(cells):
            cells[self._column : self._column] = " " * min(count, COLUMNS)
            del cells[COLUMNS:]

    def _insert_rows(self, count: int) -> None:
        count = min(count, ROWS)
        self._rows[self._row : self._row] = [""] * count
        self._goes_on[self._row : self._row] = [False] * count
        del self._rows[2 * ROWS + 1 :], self._goes_on[2 * ROWS + 1 :]  # what is pushed off the bottom

    def _delete_rows(self, count: int) -> None:
        del self._rows[self._row : self._row + count], self._goes_on[self._row : self._row + count]
        if self._row == len(self._rows):
            self._rows.append("")
            self._goes_on.append(False)

    def _by(self, rows: int, columns: int) -> None:
        self._move(self._row + rows, self._column + columns)

    def _to_column(self, column: int) -> None:
        self._move(self._row, column)


_ACTS: Final[dict[str, Callable[[Screen, int], None]]] = {
    "A": lambda screen, count: screen._by(-count, 0),  # noqa: SLF001 - the class's own table
    "B": lambda screen, count: screen._by(count, 0),  # noqa: SLF001
    "C": lambda screen, count: screen._by(0, count),  # noqa: SLF001
    "D": lambda screen, count: screen._by(0, -count),  # noqa: SLF001
    "E": lambda screen, count: screen._move(screen._row + count, 0),  # noqa: SLF001
    "F": lambda screen, count: screen._move(screen._row - count, 0),  # noqa: SLF001
    "G": lambda screen, count: screen._to_column(count - 1),  # noqa: SLF001
    "`": lambda screen, count: screen._to_column(count - 1),  # noqa: SLF001
    "d": lambda screen, count: screen._move(count - 1),  # noqa: SLF001
    "P": Screen._delete_cells,  # noqa: SLF001
    "X": Screen._erase_cells,  # noqa: SLF001
    "@": Screen._insert_cells,  # noqa: SLF001
    "L": Screen._insert_rows,  # noqa: SLF001
    "M": Screen._delete_rows,  # noqa: SLF001
}


def _as_text(row: str | list[str]) -> str:
    return row if isinstance(row, str) else "".join(row).rstrip(" ")  # blanks that erased what was there
