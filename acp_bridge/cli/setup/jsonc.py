"""JSON with comments and trailing commas, read with the place of everything.

Owns the scanner. Pure. Changes nothing: that is `merge`.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final, NoReturn

_DEEPEST: Final = 100
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.+-])|(?:true|false|null)(?!\w)")
_BLANK = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)


class NotJsonc(ValueError):
    """A text that cannot be read; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value and where it stands: `text[start:end]`.

    Attributes:
        members: of an object, in order; a name may come twice, and the last one counts.
        trailing_comma: whether the last member has a comma behind it.
    """

    start: int
    end: int
    plain: Any
    members: tuple["Member", ...] | None = None
    trailing_comma: bool = False

    def member(self, name: str) -> "Member | None":
        """Return the member that counts for `name`."""
        return next((m for m in reversed(self.members or ()) if m.name == name), None)


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object; `start` is where its name's quote is."""

    name: str
    start: int
    value: Value


def parse(text: str) -> Value | None:
    """Return the text's value; None if there is nothing but space and comments.

    Raises:
        NotJsonc: it is not JSON, comments and trailing commas allowed.
    """
    scanner = _Scanner(text)
    scanner.skip()
    if scanner.at == len(text):
        return None
    value = scanner.value(0)
    scanner.skip()
    if scanner.at != len(text):
        scanner.fail("something follows the end")
    return value


@dataclass(slots=True)
class _Scanner:
    text: str
    at: int = 0

    def fail(self, why: str) -> NoReturn:
        """Raise NotJsonc for the place where the scanner is."""
        line = self.text.count("\n", 0, self.at) + 1
        column = self.at - (self.text.rfind("\n", 0, self.at) + 1) + 1
        raise NotJsonc(f"line {line}, column {column}: {why}")

    def skip(self) -> None:
        """Go past space and comments."""
        found = _BLANK.match(self.text, self.at)
        self.at = found.end() if found else self.at
        if self.text.startswith("/*", self.at):
            self.fail("a comment that does not end")

    def value(self, depth: int) -> Value:
        """Read a value."""
        if depth > _DEEPEST:
            self.fail(f"it is nested more than {_DEEPEST} deep")
        match self.text[self.at : self.at + 1]:
            case "{":
                return self._object(depth)
            case "[":
                return self._array(depth)
            case '"':
                return self._text_value()
            case _:
                return self._word()

    def _text_value(self) -> Value:
        start = self.at
        plain = self._string()
        return Value(start, self.at, plain)

    def _string(self) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            self.fail("a text that does not end on its line")
        try:
            plain: str = json.loads(found[0])
        except ValueError:
            self.fail("a text with an escape that means nothing")
        self.at = found.end()
        return plain

    def _word(self) -> Value:
        found = _WORD.match(self.text, self.at)
        if found is None:
            self.fail("a value is expected here")
        start, self.at = self.at, found.end()
        return Value(start, self.at, json.loads(found[0]))

    def _array(self, depth: int) -> Value:
        start, items, comma = self.at, list[Any](), True
        self.at += 1
        while not self._take_close("]"):
            if not comma:
                self.fail("a comma or ']' is expected here")
            items.append(self.value(depth + 1).plain)
            comma = self._take_comma()
        return Value(start, self.at, items)

    def _object(self, depth: int) -> Value:
        start, members, comma = self.at, list[Member](), True
        self.at += 1
        while not self._take_close("}"):
            if not comma:
                self.fail("a comma or '}' is expected here")
            place = self.at
            if not self.text.startswith('"', place):
                self.fail("a name in double quotes is expected here")
            name = self._string()
            self.skip()
            if not self.text.startswith(":", self.at):
                self.fail("a colon is expected here")
            self.at += 1
            self.skip()
            members.append(Member(name, place, self.value(depth + 1)))
            comma = self._take_comma()
        plain = {member.name: member.value.plain for member in members}
        return Value(start, self.at, plain, tuple(members), comma and bool(members))

    def _take_close(self, bracket: str) -> bool:
        self.skip()
        if not self.text.startswith(bracket, self.at):
            return False
        self.at += 1
        return True

    def _take_comma(self) -> bool:
        self.skip()
        if not self.text.startswith(",", self.at):
            return False
        self.at += 1
        return True
