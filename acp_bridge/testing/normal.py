"""What two runs of one scenario may differ in, taken out; and nothing else.

Pure and idempotent: what is normal stays as it is. Each rule is a function whose docstring says what it takes and why
no real change can hide behind it; they are applied in the order of `normal_frames` and, for the log and the model's
requests, of `normal_log` next door.

What no rule touches: the order of frames (but for `sunk`), every word, every number that counts something, the ids that
the client chose, their JSON type in the answer, stop reasons, error codes, which facts are logged and in which order.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from .process import Line

Json: TypeAlias = dict[str, Any]

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_MADE_OF_SEQ = re.compile(r"(input|notice|permissions)_\d+(\w*)")
_CHUNKS = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")
_FINAL = ("completed", "failed")


@dataclass(frozen=True, slots=True)
class Names:
    """What a run was given, and the names that stand for it: `<workspace>`, `<home>`, `<run>`, `<session-1>`."""

    tokens: Mapping[str, str]

    def named(self, text: str) -> str:
        """Rule *names*: a path that the run was given, or a session's id, becomes its name, wherever it stands.

        Paths also as their links resolve or do not (macOS), inside `file:` addresses, command lines and sentences; the
        longest first, and only whole: `/w/run` is not found in `/w/runner`.
        """
        for token, spelling in self._spellings():
            if spelling in text:
                text = re.sub(re.escape(spelling) + r"(?![\w-])", token, text)
        return text

    def _spellings(self) -> Iterable[tuple[str, str]]:
        pairs = {(token, spelling) for token, path in self.tokens.items() for spelling in _spelt(path)}
        return sorted(pairs, key=lambda pair: -len(pair[1]))


def _spelt(path: str) -> Iterable[str]:
    yield path
    if path.startswith("/private/"):
        yield path.removeprefix("/private")


def walked(value: Any, text: Callable[[str], str]) -> Any:
    """Return JSON with every text, and every member's name, put through `text`."""
    match value:
        case str():
            return text(value)
        case dict():
            return {text(key): walked(item, text) for key, item in cast("Json", value).items()}
        case list():
            return [walked(item, text) for item in cast("list[Any]", value)]
        case _:
            return value


# --- frames ---


def normal_frames(lines: Iterable[Line], names: Names) -> list[Line]:
    """Return the exchange as it is compared."""
    named = [replace(line, said=walked(line.said, names.named)) for line in lines]
    return joined(sunk(without_passing_output(renumbered(dated(named)))))


def dated(lines: Sequence[Line]) -> list[Line]:
    """Rule *times*: `updatedAt` in RFC 3339 with milliseconds becomes `<time>`, the program's version `<version>`.

    Another form of time stays, so that a change of the form shows.
    """

    def walk(value: Any, key: str) -> Any:
        match value:
            case dict():
                table = cast("Json", value)
                if key == "agentInfo" and isinstance(table.get("version"), str):
                    table = table | {"version": "<version>"}
                return {name: walk(item, name) for name, item in table.items()}
            case list():
                return [walk(item, key) for item in cast("list[Any]", value)]
            case str() if key == "updatedAt" and _TIME.fullmatch(value):
                return "<time>"
            case _:
                return value

    return [replace(line, said=walk(line.said, "")) for line in lines]


def renumbered(lines: Sequence[Line]) -> list[Line]:
    """Rule *ids*: ids that the agent chose are numbered as they appear: its requests `a1`, `a2`, and made-up messages.

    Its requests by (direction, run, id): an answer to another question gets another number. Message ids that are made
    of a log position (`input_7`) by session; how many records came before depends on the clock. The client's ids stay.
    """
    asked: dict[tuple[int, str], str] = {}
    made = Numbers()
    run = 0

    def number(run: int, request_id: Any) -> str:
        return asked.setdefault((run, json.dumps(request_id)), f"a{len(asked) + 1}")

    found: list[Line] = []
    for line in lines:
        run += line.way == "#"
        said = line.message
        ours = line.way == ("<" if line.method else ">")
        if ours and "id" in said:
            said = said | {"id": number(run, said["id"])}
        elif line.way == "<" and line.method == "$/cancel_request" and "requestId" in line.params:
            said = said | {"params": line.params | {"requestId": number(run, line.params["requestId"])}}
        found.append(replace(line, said=made.renumbered(said, line.session)) if said else line)
    return found


class Numbers:
    """Numbers for ids that are made of a log position, by session and kind, in order of appearance."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[str, str]] = {}

    def renumbered(self, value: Any, session: str) -> Any:
        match value:
            case dict():
                table = cast("Json", value)
                return {
                    key: self._one(item, session)
                    if key in ("id", "messageId") and isinstance(item, str)
                    else self.renumbered(item, session)
                    for key, item in table.items()
                }
            case list():
                return [self.renumbered(item, session) for item in cast("list[Any]", value)]
            case _:
                return value

    def _one(self, text: str, session: str) -> str:
        found = _MADE_OF_SEQ.fullmatch(text)
        if found is None:
            return text
        known = self._known.setdefault((session, found[1]), {})
        return known.setdefault(text, f"{found[1]}-{len(known) + 1}{found[2]}")


def joined(lines: Sequence[Line]) -> list[Line]:
    """Rule *chunks*: neighbouring text chunks of one message become one; how a text was cut says nothing.

    Only neighbours: a frame in between, another message, kind or session keeps them apart.
    """
    found: list[Line] = []
    for line in lines:
        key, text = _chunk(line)
        before, earlier = _chunk(found[-1]) if found else (None, "")
        if key is not None and key == before:
            found[-1] = _with_text(line, earlier + text)
        else:
            found.append(line)
    return found


def _chunk(line: Line) -> tuple[Any, str]:
    """Return what makes a text chunk one of its message, and its text; None if it is no such chunk."""
    update = line.update
    content = update.get("content")
    kind = update.get("sessionUpdate")
    if not isinstance(kind, str) or kind not in _CHUNKS:
        return None, ""
    if not isinstance(content, dict) or set(cast("Json", content)) != {"type", "text"}:
        return None, ""
    return (
        line.session,
        kind,
        update.get("messageId"),
        set(update) == {"sessionUpdate", "messageId", "content"},
    ), cast("Json", content)["text"]


def _with_text(line: Line, text: str) -> Line:
    params = line.said["params"]
    update = params["update"]
    content = update["content"] | {"text": text}
    return replace(line, said=line.said | {"params": params | {"update": update | {"content": content}}})


def without_passing_output(lines: Sequence[Line]) -> list[Line]:
    """Rule *output*: what a running command has put out so far (`tool_call_update` without a status) is left out.

    It shows how fast two processes ran. The whole output is in the call's last update. One that comes when its call is
    settled is kept: that would be a fault.
    """
    settled: set[tuple[str, str]] = set()
    found: list[Line] = []
    for line in lines:
        update = line.update
        call = (line.session, str(update.get("toolCallId")))
        if update.get("status") in _FINAL:
            settled.add(call)
        passing = update.get("sessionUpdate") == "tool_call_update" and set(update) == {
            "sessionUpdate",
            "toolCallId",
            "content",
        }
        if not passing or call in settled:
            found.append(line)
    return found


def sunk(lines: Sequence[Line]) -> list[Line]:
    """Rule *settled*: a call's final status stands at the earliest place that its call allows.

    It is shown once its result is on disk, and the disk takes its time: meanwhile the next call may have been shown or
    asked for. So it moves up over updates and permission questions of other calls, and their answers; never over a
    frame of its own call, an answer of the agent's, a request of the client's, or anything else. Final statuses that
    then stand side by side are in the order of their calls: those ran side by side.
    """
    found: list[Line] = []
    for line in lines:
        call = _final(line)
        place = len(found)
        if call is not None:
            questions = _questions(found)
            while place and _passable(found[place - 1], line, call, questions):
                place -= 1
        found.insert(place, line)
    return found


def _final(line: Line) -> str | None:
    update = line.update
    if update.get("sessionUpdate") == "tool_call_update" and update.get("status") in _FINAL:
        return str(update.get("toolCallId"))
    return None


def _questions(lines: Iterable[Line]) -> dict[Any, str]:
    """Return the call of each permission question by the question's id."""
    return {
        line.message["id"]: str(line.params.get("toolCall", {}).get("toolCallId"))
        for line in lines
        if line.way == "<" and line.method == "session/request_permission" and "id" in line.message
    }


def _passable(other: Line, line: Line, call: str, questions: Mapping[Any, str]) -> bool:
    """Return whether the final status of `call` may stand before `other`."""
    if other.way == "<" and other.method == "session/update":
        if (final := _final(other)) is not None and other.session == line.session:
            return final > call
        own = other.update.get("toolCallId") == call
        return not (own and other.session == line.session)
    asks = other.way == "<" and other.method == "session/request_permission"
    answers = other.way == ">" and other.answers
    return (asks or answers) and questions.get(other.message.get("id"), call) != call
