"""Settings merged into JSON with comments: members are put in or replaced, and all else keeps every byte.

Owns where a new member stands and how it is indented. Pure. Knows no editor.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .jsonc import NotJsonc, Value, parse

Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that is wanted at a path of names. `only_if_absent`: a value of the user's stays."""

    path: Path
    value: Any
    only_if_absent: bool = field(default=False)


def merge(text: str, settings: Sequence[Setting]) -> str:
    """Return `text` with `settings` in it and all else untouched; `text` itself if they are there.

    Raises:
        NotJsonc: it cannot be read, or has something else where an object must be.
    """
    for setting in settings:
        text = _set(text, setting)
    return text


def merge_plain(plain: Any, settings: Sequence[Setting]) -> Any:
    """Return what the result of `merge` must mean, from what the text means: the check on the work with the text."""
    root: dict[str, Any] = dict(plain or {})
    for setting in settings:
        here = root
        for name in setting.path[:-1]:
            here[name] = dict(here[name]) if name in here else {}
            here = here[name]
        if not (setting.only_if_absent and setting.path[-1] in here):
            here[setting.path[-1]] = setting.value
    return root


def _set(text: str, setting: Setting) -> str:
    root = parse(text)
    if root is None:
        blank = "" if not text or text.endswith(("\n", "\r")) else _newline(text)
        return f"{text}{blank}{_render(_nest(setting.path, setting.value), '', '  ', _newline(text))}{_newline(text)}"
    here = root
    for depth, name in enumerate(setting.path):
        if here.members is None:
            where = "it" if depth == 0 else ".".join(setting.path[:depth])
            raise NotJsonc(f"{where} is no object")
        member = here.member(name)
        if member is None:
            return _insert(text, root, here, name, _nest(setting.path[depth + 1 :], setting.value))
        here = member.value
    if setting.only_if_absent or (here.plain == setting.value and type(here.plain) is type(setting.value)):
        return text
    indent = _indent_at(text, here.start)
    rendered = _render(setting.value, indent, _unit(text, root), _newline(text))
    return text[: here.start] + rendered + text[here.end :]


def _nest(path: Sequence[str], value: Any) -> Any:
    for name in reversed(path):
        value = {name: value}
    return value


def _insert(text: str, root: Value, into: Value, name: str, value: Any) -> str:
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
    line = f"{newline}{indent}{json.dumps(name, ensure_ascii=False)}: {_render(value, indent, unit, newline)}"
    if not members:
        return f"{body}{line}{rest if newline in rest else newline + outer}{text[close:]}"
    if into.trailing_comma:
        return f"{body}{line},{rest or newline + outer}{text[close:]}"
    end = members[-1].value.end
    return f"{text[:end]},{body[end:]}{line}{rest if newline in rest else newline + outer}{text[close:]}"


def _render(value: Any, indent: str, unit: str, newline: str) -> str:
    """Return a value as text whose first line stands behind a name that is indented by `indent`."""
    if isinstance(value, list):  # one line: these are a command's arguments
        return json.dumps(value, ensure_ascii=False)
    if not isinstance(value, Mapping) or not value:
        return json.dumps(value, ensure_ascii=False)
    inner = indent + unit
    lines = [
        f"{inner}{json.dumps(name, ensure_ascii=False)}: {_render(item, inner, unit, newline)}"
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
