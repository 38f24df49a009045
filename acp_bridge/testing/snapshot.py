"""A run, written down as it is compared: frames, log and model requests, against what a scenario folder expects.

Owns the form of `expected/` and of a recording's summaries, and the words of a difference. Plays nothing.
"""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from .frame import Frame
from .log_normalization import normalize_log, normalize_requests
from .normalization import Names, normalize_frames
from .play import RunResult
from .scenario import EXPECTED, Scenario

Json: TypeAlias = dict[str, Any]

_SUMMARY = 400
_SHOWN_LINES = 120


def render(result: RunResult, scenario: Scenario) -> dict[str, str]:
    """Return the files of `expected/`, by name."""
    names = Names(result.tokens)
    log = [
        record
        for records in result.logs.values()
        for record in normalize_log(records, names, whole_header=scenario.whole_header)
    ]
    files = {
        "frames.txt": frames_text(normalize_frames(result.frames, names)),
        "log.jsonl": "".join(f"{compact(record)}\n" for record in log),
        "requests.txt": requests_text(normalize_requests(result.served, names)),
    }
    return {name: text for name, text in files.items() if text}


def compact(value: Any) -> str:
    """Return JSON in one line, without spaces and with letters as they are."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="backslashreplace").decode()  # half a character has no UTF-8; so it is JSON again


def frames_text(frames: Iterable[Frame]) -> str:
    """Return the exchange, one line a message: `>` to the agent, `<` from it, `#` what happened to the process."""
    return "".join(
        f"{frame.direction} {frame.body if isinstance(frame.body, str) else compact(frame.body)}\n" for frame in frames
    )


def requests_text(requests: Sequence[Json]) -> str:
    """Return what the model was asked: of each request, what the one before did not say."""
    parts: list[str] = []
    before: list[Json] = []
    tools = ""
    for place, request in enumerate(requests, 1):
        messages = cast("list[Json]", request["messages"])
        same = next(
            (n for n, (a, b) in enumerate(zip(before, messages, strict=False)) if a != b),
            min(len(before), len(messages)),
        )
        parts.append(f"=== {place}: {request['answer']}, {request['route']}, system {request['system']}\n")
        offered = " ".join(request["tools"])
        parts.append(f"tools: {offered}\n" if offered != tools else "")
        parts.append(f"({same} messages as before)\n" if same else "")
        parts += [_message_text(message) for message in messages[same:]]
        before, tools = messages, offered
    return "".join(parts)


def _message_text(message: Json) -> str:
    lines = (line for block in message["content"] for line in _block_lines(block))
    return f"{message['role']}:\n" + "".join(f"  {line}".rstrip() + "\n" for line in lines)


def _block_lines(block: Json) -> Iterator[str]:
    match block:
        case {"type": "text", "text": text}:
            yield from _mark_lines("|", text)
        case {"type": "thought", "text": text}:
            yield from _mark_lines("~", text)
        case {"type": "tool_request", "call": call, "name": name, "arguments": arguments}:
            yield f"{call} = {name} {arguments}"
        case {"call": call, "error": error, "content": content}:
            yield f"{call} {'failed' if error else 'gave'}:"
            for inner in cast("list[Json]", content):
                yield from (f"  {line}" for line in _block_lines(inner))
        case _:
            yield compact(block)


def _mark_lines(mark: str, text: str) -> Iterator[str]:
    yield from (f"{mark} {line}" for line in text.split("\n"))


# --- judging ---


def differences(files: Mapping[str, str], scenario: Scenario) -> Iterator[str]:
    """Yield how a run differs from `expected/`, a unified diff a file."""
    for name in EXPECTED:
        path = scenario.folder / "expected" / name
        if scenario.traced and not path.is_file():
            continue
        expected = path.read_text(encoding="utf-8") if path.is_file() else ""
        found = files.get(name, "")
        if found == expected:
            continue
        diff = list(
            difflib.unified_diff(
                expected.split("\n"), found.split("\n"), f"expected/{name}", f"this run's {name}", lineterm="", n=2
            )
        )
        shown = diff[:_SHOWN_LINES] + ([f"… {len(diff) - _SHOWN_LINES} more lines"] if len(diff) > _SHOWN_LINES else [])
        yield f"{name} is not as expected:\n" + "\n".join(_shorten(line) for line in shown)


def _shorten(line: str) -> str:
    return line if len(line) <= 1000 else f"{line[:1000]}… ({len(line)} characters)"


def consumption(result: RunResult, scenario: Scenario, *, summaries: bool) -> Iterator[str]:
    """Yield how the recorded model traffic and what was asked of it do not belong together."""
    requests = normalize_requests(result.served, Names(result.tokens))
    first: dict[str, Json] = {}
    for place, request in enumerate(requests, 1):
        if request["answer"] is None:
            yield f"model request {place} has no answer in the recording: {_last_words(request)!r}"
        else:
            first.setdefault(request["answer"], request)
    for path in model_files(scenario):
        if path.name not in first:
            yield f"model/{path.name} was never asked for"
            continue
        recorded = json.loads(path.read_text(encoding="utf-8"))
        offered = first[path.name]["tools"]
        yield from (
            f"model/{path.name} asks for {name!r}, which is no tool of this agent; 'unknown_tools' may name it"
            for name in _tool_names(recorded)
            if name not in offered and name not in scenario.unknown_tools
        )
        if summaries and (wanted := recorded.get("request")) is not None:
            found = summary(first[path.name])
            yield from (
                f"model/{path.name} answers a request with {key} {wanted[key]!r}; this one has {found[key]!r}"
                for key in found
                if key in wanted and wanted[key] != found[key]
            )


def gaps(result: RunResult) -> Iterator[str]:
    """Yield where a log's seqs are not 0, 1, 2, …, which the compared form leaves out."""
    for session, records in result.logs.items():
        seqs = [record.get("seq") for record in records[1:]]
        if seqs != list(range(len(seqs))):
            yield f"the log of {session} counts {seqs}"


def model_files(scenario: Scenario) -> list[Path]:
    """Return a scenario's recorded answers, in order."""
    return sorted((scenario.folder / "model").glob("[0-9]*.json"))


def summary(request: Json) -> Json:
    """Return what a recording says of the request that it answers."""
    return {"messages": len(request["messages"]), "last_message": _last_words(request)}


def _last_words(request: Json) -> str:
    messages = cast("list[Json]", request["messages"])
    text = "\n".join(_plain(block) for block in messages[-1]["content"]) if messages else ""
    return text if len(text) <= _SUMMARY else f"{text[:_SUMMARY]}…"


def _plain(block: Json) -> str:
    match block:
        case {"content": content}:
            return "\n".join(_plain(inner) for inner in cast("list[Json]", content))
        case {"name": name, "arguments": arguments}:
            return f"{name} {arguments}"
        case _:
            return "\n".join(str(block[key]) for key in ("uri", "text") if key in block)


def _tool_names(answer: Json) -> Iterator[str]:
    for tool in answer.get("tools", ()):
        yield tool["name"]
    for piece in answer.get("deltas", ()):
        if name := piece.get("tool", {}).get("name"):
            yield name


# --- writing ---


def write_expected(files: Mapping[str, str], folder: Path) -> None:
    """Make `expected/` what a run was."""
    target = folder / "expected"
    target.mkdir(exist_ok=True)
    for name in EXPECTED:
        if name in files:
            (target / name).write_text(files[name], encoding="utf-8")
        else:
            (target / name).unlink(missing_ok=True)


def write_summaries(result: RunResult, scenario: Scenario) -> None:
    """Let each recorded answer say which request it answered first."""
    first: dict[str, Json] = {}
    for request in normalize_requests(result.served, Names(result.tokens)):
        first.setdefault(request["answer"] or "", request)
    for path in model_files(scenario):
        answer = json.loads(path.read_text(encoding="utf-8"))
        answer.pop("request", None)  # an old summary must not outlive a request that is no longer made
        if path.name in first:
            answer = {"request": summary(first[path.name]), **answer}
        path.write_text(json.dumps(answer, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def take_recording(result: RunResult, recorded: Path, scenario: Scenario) -> None:
    """Make `model/` what was recorded, with the run's paths by name."""
    names = Names(result.tokens)
    target = scenario.folder / "model"
    target.mkdir(exist_ok=True)
    for path in model_files(scenario):
        path.unlink()
    for path in sorted(recorded.glob("*.json")):
        answer = json.loads(path.read_text(encoding="utf-8"))
        answer.pop("request", None)
        text = json.dumps(answer, ensure_ascii=False, indent=2)
        (target / path.name).write_text(names.apply(text) + "\n", encoding="utf-8")
