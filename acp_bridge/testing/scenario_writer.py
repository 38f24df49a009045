"""The script of a scenario, made of an exchange that a trace has noted.

Owns which step each message of the client's becomes, and how a step is written as TOML. Opens no file.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

from .frame import Frame
from .normalization import Names

Json: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class TracedExchange:
    """The noted frames, and what a script can be made of."""

    frames: list[Frame]
    home: Path
    cwd: str = ""
    sessions: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        news = {
            frame.message["id"]: frame
            for frame in self.frames
            if frame.direction == ">" and frame.method == "session/new"
        }
        for frame in self.frames:
            if frame.is_agents_answer and frame.message["id"] in news and "sessionId" in frame.result:
                self.sessions.append(frame.result["sessionId"])
                self.cwd = self.cwd or str(news[frame.message["id"]].params["cwd"]).rstrip("/")

    def tokens(self, route: str) -> dict[str, str]:
        """Return what the names of the scenario stood for."""
        named = {"<home>/bridge": str(self.home), "<workspace>": self.cwd, "replay:<run>/model": route}
        sessions = {f"<session-{number}>": session for number, session in enumerate(self.sessions, 1)}
        return {token: text for token, text in {**named, **sessions}.items() if text}

    def as_played(self) -> Iterator[Frame]:
        """Yield the frames as a scenario plays them: the client's requests numbered from 1, in one form."""
        ids: dict[Any, int] = {}
        for frame in self.frames:
            said = frame.message
            if frame.direction == ">" and frame.method:
                number = {"id": ids.setdefault(said["id"], len(ids) + 1)} if "id" in said else {}
                said = {"jsonrpc": "2.0", **number, "method": frame.method, "params": said.get("params", {})}
            elif frame.is_agents_answer and said["id"] in ids:
                said = {**said, "id": ids[said["id"]]}
            yield Frame(frame.direction, said or frame.body)

    # --- the script ---

    def scenario(self, names: Names, settings: Mapping[str, str]) -> str:
        """Return `scenario.toml`."""
        parts = ['about = "a conversation that was traced: say in one frame what went wrong in it"\ntraced = true\n']
        if settings:
            parts.append("[agent]\n" + "".join(f"{_key(key)} = {_toml(value)}\n" for key, value in settings.items()))
        if buffers := self._buffers():
            parts.append(f"[editor]\nbuffers = {_toml(buffers)}\n")
        parts += [
            "[[step]]\n" + "".join(f"{_key(key)} = {_toml(value)}\n" for key, value in step.items())
            for step in self._steps()
        ]
        return names.apply("\n".join(parts))

    def _steps(self) -> Iterator[Json]:
        """Yield a step for each line of the client's, behind waits for what it had seen by then."""
        for place, frame in enumerate(self.frames):
            if frame.direction != ">" or not frame.method:
                continue
            yield from self._waits(place)
            if "id" not in frame.message:
                yield {"do": "notify", "method": frame.method, "params": frame.params}
                continue
            step: Json = {"do": "request", "method": frame.method, "params": frame.params}
            until = self._answer_place(frame.message["id"], place)
            if any(other.direction == ">" and other.method for other in self.frames[place + 1 : until]):
                step["background"] = True
            answers, forms = self._replies(place, until)
            yield step | ({"answers": answers} if answers else {}) | ({"forms": forms} if forms else {})

    def _waits(self, place: int) -> Iterator[Json]:
        """Yield a wait for the last thing seen of a turn that was under way when the client spoke again."""
        seen = self.frames[place - 1].update if place else {}
        pending = [
            frame
            for at, frame in enumerate(self.frames[:place])
            if frame.direction == ">" and frame.method and "id" in frame.message
            if self._answer_place(frame.message["id"], at) > place
        ]
        spoke = [at for at, frame in enumerate(self.frames[:place]) if frame.direction == ">" and frame.method]
        earlier = [at for at in spoke[:-1] if "id" in self.frames[at].message]
        if not pending and any(self._answer_place(self.frames[at].message["id"], at) > spoke[-1] for at in earlier):
            yield {"do": "wait", "response": True}
        if pending and seen:
            keep = ("sessionUpdate", "toolCallId", "status", "messageId", "currentModeId", "title")
            yield {"do": "wait", "update": {key: seen[key] for key in keep if key in seen}}
            if seen.get("status") == "in_progress":
                yield {"do": "wait", "event": {"type": "tool/call", "data": {"callId": seen["toolCallId"]}}}

    def _answer_place(self, request_id: Any, place: int) -> int:
        for at in range(place + 1, len(self.frames)):
            if self.frames[at].is_agents_answer and self.frames[at].message["id"] == request_id:
                return at
        return len(self.frames)

    def _replies(self, start: int, end: int) -> tuple[list[str], list[Any]]:
        """Return how the client answered what it was asked between two places."""
        answers: list[str] = []
        forms: list[Any] = []
        for asked, answer in self._questions(start, end):
            result = answer.result if answer is not None else {}
            if asked.method == "session/request_permission":
                outcome = result.get("outcome", {})
                cancelled = "cancelled" if outcome.get("outcome") == "cancelled" else "error"
                chosen = f"option:{outcome['optionId']}" if "optionId" in outcome else cancelled
                answers.append(chosen if answer is not None else "none")
            elif asked.method == "elicitation/create":
                accepted: Any = result.get("content")
                forms.append(accepted if accepted is not None else str(result.get("action", "none")))
        return answers, forms

    def _questions(self, start: int, end: int) -> Iterator[tuple[Frame, Frame | None]]:
        for frame in self.frames[start:end]:
            if frame.direction == "<" and frame.method and "id" in frame.message:
                mine = (
                    o
                    for o in self.frames[start:]
                    if o.direction == ">" and o.answers and o.message["id"] == frame.message["id"]
                )
                yield frame, next(mine, None)

    def _buffers(self) -> dict[str, str]:
        """Return what the editor had open, as the agent first read it."""
        found: dict[str, str] = {}
        for asked, answer in self._questions(0, len(self.frames)):
            if asked.method == "fs/read_text_file" and answer is not None and "content" in answer.result:
                found.setdefault(str(asked.params.get("path")), answer.result["content"])
        return found


def _key(text: str) -> str:
    return text if text.replace("_", "").replace("-", "").isalnum() and text.isascii() else json.dumps(text)


def _toml(value: Any) -> str:
    """Return a value as TOML; a null, which TOML lacks, is left out of its table (protocol: absent equals null)."""
    match value:
        case bool() | int() | float():
            return json.dumps(value)
        case dict():
            members = ((key, item) for key, item in cast("Json", value).items() if item is not None)
            return "{ " + ", ".join(f"{_key(key)} = {_toml(item)}" for key, item in members) + " }" if value else "{}"
        case list():
            return "[" + ", ".join(_toml(item) for item in cast("list[Any]", value) if item is not None) + "]"
        case _:
            return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
