"""What two runs of one scenario may differ in, taken out; and nothing else.

Pure and idempotent: what is normal stays as it is. Each rule is a function whose docstring says what it takes and why
no real change can hide behind it; they are applied in the order of `normalize_frames` and, for the log and the model's
requests, of `normalize_log` next door.

What no rule touches: the order of frames (but for `place_final_statuses`), every word, every number that counts
something, the ids that the client chose, their JSON type in the answer, stop reasons, error codes, which facts are
logged and in which order.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from .frame import Frame

Json: TypeAlias = dict[str, Any]

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_MADE_OF_SEQ = re.compile(r"(input|notice|permissions)_\d+(\w*)")
_CHUNKS = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")
_FINAL = ("completed", "failed")


@dataclass(frozen=True, slots=True)
class Names:
    """What a run was given, and the names that stand for it: `<workspace>`, `<home>`, `<run>`, `<session-1>`."""

    tokens: Mapping[str, str]

    def apply(self, text: str) -> str:
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


def map_texts(value: Any, text: Callable[[str], str]) -> Any:
    """Return JSON with every text, and every member's name, put through `text`."""
    match value:
        case str():
            return text(value)
        case dict():
            return {text(key): map_texts(item, text) for key, item in cast("Json", value).items()}
        case list():
            return [map_texts(item, text) for item in cast("list[Any]", value)]
        case _:
            return value


# --- frames ---


def normalize_frames(frames: Iterable[Frame], names: Names) -> list[Frame]:
    """Return the exchange as it is compared."""
    named = [replace(frame, body=map_texts(frame.body, names.apply)) for frame in frames]
    return join_chunks(place_final_statuses(without_passing_output(number_ids(without_times(named)))))


def without_times(frames: Sequence[Frame]) -> list[Frame]:
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

    return [replace(frame, body=walk(frame.body, "")) for frame in frames]


def number_ids(frames: Sequence[Frame]) -> list[Frame]:
    """Rule *ids*: ids that the agent chose are numbered as they appear: its requests `a1`, `a2`, and made-up messages.

    Its requests by (direction, run, id): an answer to another question gets another number. Message ids that are made
    of a log position (`input_7`) by session; how many records came before depends on the clock. The client's ids stay.
    """
    asked: dict[tuple[int, str], str] = {}
    made = Numbers()
    run = 0

    def number(run: int, request_id: Any) -> str:
        return asked.setdefault((run, json.dumps(request_id)), f"a{len(asked) + 1}")

    found: list[Frame] = []
    for frame in frames:
        run += frame.direction == "#"
        said = frame.message
        ours = frame.direction == ("<" if frame.method else ">")
        if ours and "id" in said:
            said = said | {"id": number(run, said["id"])}
        elif frame.direction == "<" and frame.method == "$/cancel_request" and "requestId" in frame.params:
            said = said | {"params": frame.params | {"requestId": number(run, frame.params["requestId"])}}
        found.append(replace(frame, body=made.apply(said, frame.session)) if said else frame)
    return found


class Numbers:
    """Numbers for ids that are made of a log position, by session and kind, in order of appearance."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[str, str]] = {}

    def apply(self, value: Any, session: str) -> Any:
        match value:
            case dict():
                table = cast("Json", value)
                return {
                    key: self._one(item, session)
                    if key in ("id", "messageId") and isinstance(item, str)
                    else self.apply(item, session)
                    for key, item in table.items()
                }
            case list():
                return [self.apply(item, session) for item in cast("list[Any]", value)]
            case _:
                return value

    def _one(self, text: str, session: str) -> str:
        found = _MADE_OF_SEQ.fullmatch(text)
        if found is None:
            return text
        known = self._known.setdefault((session, found[1]), {})
        return known.setdefault(text, f"{found[1]}-{len(known) + 1}{found[2]}")


def join_chunks(frames: Sequence[Frame]) -> list[Frame]:
    """Rule *chunks*: neighbouring text chunks of one message become one; how a text was cut says nothing.

    Only neighbours: a frame in between, another message, kind or session keeps them apart.
    """
    found: list[Frame] = []
    for frame in frames:
        key, text = _chunk(frame)
        before, earlier = _chunk(found[-1]) if found else (None, "")
        if key is not None and key == before:
            found[-1] = _with_text(frame, earlier + text)
        else:
            found.append(frame)
    return found


def _chunk(frame: Frame) -> tuple[Any, str]:
    """Return what makes a text chunk one of its message, and its text; None if it is no such chunk."""
    update = frame.update
    content = update.get("content")
    kind = update.get("sessionUpdate")
    if not isinstance(kind, str) or kind not in _CHUNKS:
        return None, ""
    if not isinstance(content, dict) or set(cast("Json", content)) != {"type", "text"}:
        return None, ""
    return (
        frame.session,
        kind,
        update.get("messageId"),
        set(update) == {"sessionUpdate", "messageId", "content"},
    ), cast("Json", content)["text"]


def _with_text(frame: Frame, text: str) -> Frame:
    params = frame.body["params"]
    update = params["update"]
    content = update["content"] | {"text": text}
    return replace(frame, body=frame.body | {"params": params | {"update": update | {"content": content}}})


def without_passing_output(frames: Sequence[Frame]) -> list[Frame]:
    """Rule *output*: what a running command has put out so far (`tool_call_update` without a status) is left out.

    It shows how fast two processes ran. The whole output is in the call's last update. One that comes when its call is
    settled is kept: that would be a fault.
    """
    settled: set[tuple[str, str]] = set()
    found: list[Frame] = []
    for frame in frames:
        update = frame.update
        call = (frame.session, str(update.get("toolCallId")))
        if update.get("status") in _FINAL:
            settled.add(call)
        passing = update.get("sessionUpdate") == "tool_call_update" and set(update) == {
            "sessionUpdate",
            "toolCallId",
            "content",
        }
        if not passing or call in settled:
            found.append(frame)
    return found


def place_final_statuses(frames: Sequence[Frame]) -> list[Frame]:
    """Rule *settled*: a call's final status stands at the earliest place that its call allows.

    It is shown once its result is on disk, and the disk takes its time: meanwhile the next call may have been shown or
    asked for. So it moves up over updates and permission questions of other calls, and their answers; never over a
    frame of its own call, an answer of the agent's, a request of the client's, or anything else. Final statuses that
    then stand side by side are in the order of their calls: those ran side by side.
    """
    found: list[Frame] = []
    for frame in frames:
        call = _final(frame)
        place = len(found)
        if call is not None:
            questions = _questions(found)
            while place and _passable(found[place - 1], frame, call, questions):
                place -= 1
        found.insert(place, frame)
    return found


def _final(frame: Frame) -> str | None:
    update = frame.update
    if update.get("sessionUpdate") == "tool_call_update" and update.get("status") in _FINAL:
        return str(update.get("toolCallId"))
    return None


def _questions(frames: Iterable[Frame]) -> dict[Any, str]:
    """Return the call of each permission question by the question's id."""
    return {
        frame.message["id"]: str(frame.params.get("toolCall", {}).get("toolCallId"))
        for frame in frames
        if frame.direction == "<" and frame.method == "session/request_permission" and "id" in frame.message
    }


def _passable(other: Frame, frame: Frame, call: str, questions: Mapping[Any, str]) -> bool:
    """Return whether the final status of `call` may stand before `other`."""
    if other.direction == "<" and other.method == "session/update":
        if (final := _final(other)) is not None and other.session == frame.session:
            return final > call
        own = other.update.get("toolCallId") == call
        return not (own and other.session == frame.session)
    asks = other.direction == "<" and other.method == "session/request_permission"
    answers = other.direction == ">" and other.answers
    return (asks or answers) and questions.get(other.message.get("id"), call) != call
