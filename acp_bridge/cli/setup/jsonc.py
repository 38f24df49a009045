"""JSON with comments and trailing commas, read with the place of everything, and changed in its text.

Owns the scanner and the insertion of members; whatever is not concerned keeps every byte. Pure. Knows no editor.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeAlias

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


def parsed(text: str) -> Value | None:
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
        while not self._closed("]"):
            if not comma:
                self.fail("a comma or ']' is expected here")
            items.append(self.value(depth + 1).plain)
            comma = self._comma()
        return Value(start, self.at, items)

    def _object(self, depth: int) -> Value:
        start, members, comma = self.at, list[Member](), True
        self.at += 1
        while not self._closed("}"):
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
            comma = self._comma()
        plain = {member.name: member.value.plain for member in members}
        return Value(start, self.at, plain, tuple(members), comma and bool(members))

    def _closed(self, bracket: str) -> bool:
        self.skip()
        if not self.text.startswith(bracket, self.at):
            return False
        self.at += 1
        return True

    def _comma(self) -> bool:
        self.skip()
        if not self.text.startswith(",", self.at):
            return False
        self.at += 1
        return True


Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that is wanted at a path of names. `only_if_absent`: a value of the user's stays."""

    path: Path
    value: Any
    only_if_absent: bool = field(default=False)


def merged(text: str, settings: Sequence[Setting]) -> str:
    """Return `text` with `settings` in it and all else untouched; `text` itself if they are there.

    Raises:
        NotJsonc: it cannot be read, or has something else where an object must be.
    """
    for setting in settings:
        text = _with(text, setting)
    return text


def merged_plain(plain: Any, settings: Sequence[Setting]) -> Any:
    """Return what the result of `merged` must mean, from what the text means: the check on the work with the text."""
    root: dict[str, Any] = dict(plain or {})
    for setting in settings:
        here = root
        for name in setting.path[:-1]:
            here[name] = dict(here[name]) if name in here else {}
            here = here[name]
        if not (setting.only_if_absent and setting.path[-1] in here):
            here[setting.path[-1]] = setting.value
    return root


def _with(text: str, setting: Setting) -> str:
    root = parsed(text)
    if root is None:
        blank = "" if not text or text.endswith(("\n", "\r")) else _newline(text)
        return (
            f"{text}{blank}{_rendered(_nested(setting.path, setting.value), '', '  ', _newline(text))}{_newline(text)}"
        )
    here = root
    for depth, name in enumerate(setting.path):
        if here.members is None:
            where = "it" if depth == 0 else ".".join(setting.path[:depth])
            raise NotJsonc(f"{where} is no object")
        member = here.member(name)
        if member is None:
            return _inserted(text, root, here, name, _nested(setting.path[depth + 1 :], setting.value))
        here = member.value
    if setting.only_if_absent or (here.plain == setting.value and type(here.plain) is type(setting.value)):
        return text
    indent = _indent_at(text, here.start)
    rendered = _rendered(setting.value, indent, _unit(text, root), _newline(text))
    return text[: here.start] + rendered + text[here.end :]


def _nested(path: Sequence[str], value: Any) -> Any:
    for name in reversed(path):
        value = {name: value}
    return value


def _inserted(text: str, root: Value, into: Value, name: str, value: Any) -> str:
    """Return `text` with a member at the end of the object `into`, in the style of its surroundings."""
    newline, unit, close = _newline(text), _unit(text, root), into.end - 1
    members = into.members or ()
    body = text[:close].rstrip(" \t\r\n")  # whatever comment stands there last stays before the new member
    rest = text[len(body) : close]
    if members and not re.search(r"[\r\n]", text[into.start : into.end]):  # an object on one line stays on it
        member = f" {json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
        if into.trailing_comma:
            return f"{body}{member},{rest}{text[close:]}"
        end = members[-1].value.end
        return f"{text[:end]},{member}{text[end:]}"
    outer = _indent_at(text, into.start)
    indent = _member_indent(text, into) or outer + unit
    line = f"{newline}{indent}{json.dumps(name, ensure_ascii=False)}: {_rendered(value, indent, unit, newline)}"
    if not members:
        return f"{body}{line}{rest if newline in rest else newline + outer}{text[close:]}"
    if into.trailing_comma:
        return f"{body}{line},{rest or newline + outer}{text[close:]}"
    end = members[-1].value.end
    return f"{text[:end]},{body[end:]}{line}{rest if newline in rest else newline + outer}{text[close:]}"


def _rendered(value: Any, indent: str, unit: str, newline: str) -> str:
    """Return a value as text whose first line stands behind a name that is indented by `indent`."""
    if isinstance(value, list):  # one line: these are a command's arguments
        return json.dumps(value, ensure_ascii=False)
    if not isinstance(value, Mapping) or not value:
        return json.dumps(value, ensure_ascii=False)
    inner = indent + unit
    lines = [
        f"{inner}{json.dumps(name, ensure_ascii=False)}: {_rendered(item, inner, unit, newline)}"
        for name, item in value.items()  # pyright: ignore[reportUnknownVariableType]  JSON
    ]
    return "{" + newline + f",{newline}".join(lines) + newline + indent + "}"


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent_at(text: str, place: int) -> str:
    """Return the space at the beginning of the line of `place`."""
    start = text.rfind("\n", 0, place) + 1
    return text[start : start + len(text[start:place]) - len(text[start:place].lstrip(" \t"))]


def _member_indent(text: str, value: Value) -> str:
    """Return the indent of the object's first member that begins its line, or `""`."""
    for member in value.members or ():
        before = text[text.rfind("\n", 0, member.start) + 1 : member.start]
        if before and not before.strip(" \t"):
            return before
    return ""


def _unit(text: str, root: Value) -> str:
    """Return one level of indent as the text has it."""
    return _member_indent(text, root) or "  "
