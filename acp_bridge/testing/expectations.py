"""What a scenario expects of a run, held against the run as it stands.

Owns the meaning of each `expect` key and of a partial match: a table matches if its members do, a list if each of its
items is matched by one, text if it is equal, or, written `~text`, contained. Changes nothing.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from .frame import Frame

Json: TypeAlias = dict[str, Any]


def matches(pattern: Any, value: Any) -> bool:
    """Return whether `value` has all that `pattern` names."""
    match pattern:
        case dict():
            table = cast("Json", pattern)
            return isinstance(value, dict) and all(
                key in value and matches(item, value[key]) for key, item in table.items()
            )
        case list():
            items = cast("list[Any]", pattern)
            return isinstance(value, list) and all(any(matches(item, one) for one in value) for item in items)  # pyright: ignore[reportUnknownVariableType]
        case str() if pattern.startswith("~"):
            return pattern[1:] in (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        case _:
            return type(pattern) is type(value) and pattern == value  # Python's True is 1, and JSON's is not


def read_pattern(pattern: Any, key: str = "type") -> tuple[Json, int | None]:
    """Return a pattern as a table, and how many `times` it must hold; text stands for its kind alone."""
    table: Json = {key: pattern} if isinstance(pattern, str) else dict(pattern)
    times = table.pop("times", None)
    return table, times


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """A run as it stands now.

    Attributes:
        frames: from the last request on that was sent when none was under way.
        turn_ids: the ids of the requests for a turn.
        asked: how many permission questions came in `frames`.
    """

    frames: Sequence[Frame]
    turn_ids: frozenset[Any]
    workspace: Path
    log: Sequence[Json]
    requests: Sequence[Json]
    stderr: str
    exit_code: int | None

    def unmet(self, expect: Mapping[str, Any]) -> Iterator[str]:
        """Yield, for each expectation that does not hold, which it is and what there is instead."""
        for key, wanted in expect.items():
            yield from getattr(self, f"_check_{key}")(wanted)

    # --- answers ---

    @property
    def _answers(self) -> list[Json]:
        return [frame.message for frame in self.frames if frame.is_agents_answer]

    def _check_stop_reason(self, wanted: str) -> Iterator[str]:
        turns = [frame for frame in self.frames if frame.is_agents_answer and frame.message["id"] in self.turn_ids]
        found = [frame.result.get("stopReason", frame.message.get("error")) for frame in turns]
        if not found or found[-1] != wanted:
            yield f"stop_reason should be {wanted!r}; the turn's answer is {found[-1] if found else 'missing'!r}"

    def _check_error(self, code: int) -> Iterator[str]:
        found = [said["error"] for said in self._answers if "error" in said]
        if not any(error.get("code") == code for error in found):
            yield f"an error {code} was expected; there are {found or [a.get('result') for a in self._answers]}"

    def _check_error_contains(self, wanted: Any) -> Iterator[str]:
        found = [json.dumps(said["error"], ensure_ascii=False) for said in self._answers if "error" in said]
        for text in _as_list(wanted):
            if not any(text in error for error in found):
                yield f"an error should say {text!r}; there are {found}"

    def _check_result(self, wanted: Any) -> Iterator[str]:
        found = [said["result"] for said in self._answers if "result" in said]
        if not any(matches(wanted, result) for result in found):
            yield f"a result should have {wanted}; there are {found}"

    # --- updates ---

    @property
    def _updates(self) -> list[Json]:
        return [update for frame in self.frames if (update := frame.update)]

    def _check_update(self, wanted: Any) -> Iterator[str]:
        for pattern in _as_list(wanted):
            table, times = read_pattern(pattern, "sessionUpdate")
            count = sum(matches(table, update) for update in self._updates)
            if count == 0 or (times is not None and count != times):
                yield f"an update {table} was expected{_times(times)}; it came {count} times"

    def _check_no_update(self, wanted: Any) -> Iterator[str]:
        for pattern in _as_list(wanted):
            table, _ = read_pattern(pattern, "sessionUpdate")
            if found := [update for update in self._updates if matches(table, update)]:
                yield f"no update {table} was expected; there is {found[0]}"

    @property
    def _said(self) -> str:
        chunks = (update for update in self._updates if update.get("sessionUpdate") == "agent_message_chunk")
        return "".join(str(chunk["content"].get("text", "")) for chunk in chunks)

    def _check_text(self, wanted: Any) -> Iterator[str]:
        for text in _as_list(wanted):
            if text not in self._said:
                yield f"the agent should say {text!r}; it said {self._said!r}"

    def _check_no_text(self, wanted: Any) -> Iterator[str]:
        for text in _as_list(wanted):
            if text in self._said:
                yield f"the agent should not say {text!r}; it said {self._said!r}"

    def _check_asked(self, wanted: int) -> Iterator[str]:
        questions = [
            frame for frame in self.frames if frame.direction == "<" and frame.method == "session/request_permission"
        ]
        if len(questions) != wanted:
            yield f"{wanted} permission questions were expected; there were {len(questions)}"

    # --- the disk ---

    def _check_file(self, wanted: Mapping[str, str]) -> Iterator[str]:
        for name, text in wanted.items():
            found = _content(self.workspace / name)
            if found != text:
                yield f"{name} should hold {text!r}; it holds {found!r}"

    def _check_file_contains(self, wanted: Mapping[str, Any]) -> Iterator[str]:
        for name, parts in wanted.items():
            found = _content(self.workspace / name)
            yield from (
                f"{name} should hold {part!r}; it holds {found!r}"
                for part in _as_list(parts)
                if part not in (found or "")
            )

    def _check_no_file(self, wanted: Any) -> Iterator[str]:
        yield from (f"{name} should not exist" for name in _as_list(wanted) if (self.workspace / name).exists())

    def _check_event(self, wanted: Any) -> Iterator[str]:
        for pattern in _as_list(wanted):
            table, times = read_pattern(pattern)
            count = sum(matches(table, record) for record in self.log)
            if count == 0 or (times is not None and count != times):
                kinds = [record.get("type") for record in self.log]
                yield f"the log should hold {table}{_times(times)}; it does {count} times, among {kinds}"

    def _check_no_event(self, wanted: Any) -> Iterator[str]:
        for pattern in _as_list(wanted):
            table, _ = read_pattern(pattern)
            if found := [record for record in self.log if matches(table, record)]:
                yield f"the log should not hold {table}; it holds {found[0]}"

    def _check_log_contains(self, wanted: Any) -> Iterator[str]:
        text = json.dumps(list(self.log), ensure_ascii=False)
        yield from (f"the log should mention {part!r}" for part in _as_list(wanted) if part not in text)

    def _check_no_log_contains(self, wanted: Any) -> Iterator[str]:
        text = json.dumps(list(self.log), ensure_ascii=False)
        yield from (f"the log should not mention {part!r}" for part in _as_list(wanted) if part in text)

    # --- the model ---

    def _check_request_contains(self, wanted: Any) -> Iterator[str]:
        text = _words(self.requests[-1]) if self.requests else ""
        yield from (
            f"the last model request should hold {p!r}; it is {text!r}" for p in _as_list(wanted) if p not in text
        )

    def _check_no_request_contains(self, wanted: Any) -> Iterator[str]:
        text = _words(self.requests[-1]) if self.requests else ""
        yield from (
            f"the last model request should not hold {p!r}; it is {text!r}" for p in _as_list(wanted) if p in text
        )

    def _check_requests(self, wanted: int) -> Iterator[str]:
        if len(self.requests) != wanted:
            yield f"the model should have been asked {wanted} times; it was {len(self.requests)} times"

    # --- the process ---

    def _check_exit(self, wanted: int) -> Iterator[str]:
        if self.exit_code != wanted:
            yield f"the exit code should be {wanted}; it is {self.exit_code}"

    def _check_stderr_contains(self, wanted: Any) -> Iterator[str]:
        yield from (
            f"stderr should say {part!r}; it says {self.stderr!r}"
            for part in _as_list(wanted)
            if part not in self.stderr
        )


def _words(request: Json) -> str:
    """Return all that a request says, strings as they are, so that a scenario can quote them."""

    def walk(value: Any) -> Iterator[str]:
        match value:
            case dict():
                for item in cast("Json", value).values():
                    yield from walk(item)
            case list():
                for item in cast("list[Any]", value):
                    yield from walk(item)
            case str():
                yield value
            case _:
                pass

    return "\n".join(walk([request["system"], request["messages"]]))


def _content(path: Path) -> str | None:
    try:
        return path.read_bytes().decode(errors="backslashreplace")
    except OSError:
        return None


def _times(times: int | None) -> str:
    return "" if times is None else f" {times} times"


def _as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]
