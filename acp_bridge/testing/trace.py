"""A conversation that happened, kept as a scenario: what `acp-bridge serve --trace FOLDER` writes for a bug report.

Owns the traced wire, which notes every line of both directions with known secrets left out, and what a scenario is
made of it. While the agent runs the folder grows: `trace.txt`, `trace.json`, and `model/` by a `record:` route. At the
end, or later by `python -m acp_bridge.testing FOLDER` if the agent was killed, `write_scenario` adds the rest:
`scenario.toml`, the files that the tools read, and what is expected.

Replaying a trace runs its commands again, in a folder of the run: read a stranger's before you play it. What a trace
cannot hold: a session that was made before it, and files that no tool named.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

from acp_bridge.errors import ConfigError
from acp_bridge.redaction import Secrets, secrets_in, secrets_in_arguments, together
from acp_bridge.rpc import Wire

from .facts import log_records, read_regular
from .normal import Names, normal_frames
from .normal_log import normal_log
from .process import Line, parsed_or_text
from .snapshot import compact, frames_text

Json: TypeAlias = dict[str, Any]


class TracedWire(Wire):
    """A wire that notes what passes. Made before the one that it takes the place of was entered."""

    def __init__(self, wire: Wire, folder: Path, secrets: Secrets = Secrets()) -> None:  # noqa: B008 - a frozen value
        super().__init__(wire._source, wire._sink)  # noqa: SLF001  the same descriptors, which nobody reads yet
        _make(folder)
        self.secrets = secrets
        self._file = open(_created(folder / "trace.txt"), "wb", buffering=0)  # noqa: SIM115 - what is noted stays
        self._begun = b""

    async def receive(self) -> bytes:
        """Return the next bytes, and note the lines that they complete."""
        block = await super().receive()
        *lines, self._begun = (self._begun + block).split(b"\n")
        for line in lines:
            self._note(b"> ", line)
        return block

    def send(self, line: bytes) -> None:
        """Note a line and send it."""
        self._note(b"< ", line.rstrip(b"\n"))
        super().send(line)

    def _note(self, way: bytes, line: bytes) -> None:
        if b'"mcpServers"' in line:
            self.secrets = self.secrets.with_more(secrets_of_servers(parsed_or_text(line.decode(errors="replace"))))
        line = self.secrets.hidden_bytes(line, mark=_MARK)
        if line.strip():
            self._file.write(way + line + b"\n")


_MARK = b"<secret>"


def secrets_of_servers(message: Any) -> dict[str, str]:
    """Return what is secret of the MCP servers that a message names: their arguments, variables, headers, addresses."""
    match message:
        case {"params": {"mcpServers": list(servers)}}:  # pyright: ignore[reportUnknownVariableType]
            pass
        case _:
            return {}
    found: dict[str, str] = {}
    for server in cast("list[Any]", servers):
        if isinstance(server, dict):
            found = together(found, _secrets_of_server(cast("Json", server)))
    return found


def _secrets_of_server(server: Json) -> dict[str, str]:
    args = [argument for argument in _listed(server.get("args")) if isinstance(argument, str)]
    found = together(secrets_in_arguments(args), secrets_in({"URL": str(server.get("url", ""))}))
    for variable in (*_listed(server.get("env")), *_listed(server.get("headers"))):
        match variable:
            case {"name": str(name), "value": str(value)}:
                found = together(found, secrets_in({name: value}))
            case _:
                pass
    return found


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


_UNTRACED = re.compile(r"ACP_BRIDGE_(?:MODEL|MODELS|HOME|CONFIG|LOG|STORAGE|TOOLS)")


def begin_trace(folder: Path, *, home: Path, route: str, environ: Mapping[str, str]) -> str:
    """Note what the agent was started with, and return the route that records its model.

    Args:
        folder: a new folder.
        home: the agent's folder, where its logs lie.
        route: the model that will be asked; empty if none is configured.
        environ: of it, the agent's own settings are noted; what depends on the machine is left out.

    Raises:
        ConfigError: the folder holds something already.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{str(folder)!r} is not empty; a trace needs a folder of its own")
    _make(folder)
    recorded = f"record:{folder.absolute() / 'model'}={route}" if route else ""
    ours = {name: value for name, value in environ.items() if name.startswith("ACP_BRIDGE_")}
    settings = {name: value for name, value in ours.items() if not _UNTRACED.fullmatch(name)}
    facts = {"home": str(home), "route": recorded, "agent": settings}
    _write(folder / "trace.json", json.dumps(facts, indent=2) + "\n")
    return recorded


def write_scenario(folder: Path, secrets: Secrets = Secrets()) -> None:  # noqa: B008 - a frozen value
    """Make a scenario of what a trace has noted, with the logs as they lie on the disk now, but for `secrets`."""

    def write(path: Path, text: str) -> None:
        _make(path.parent)
        _write(path, secrets.hidden_bytes(text.encode("utf-8", "surrogatepass"), mark=_MARK).decode("utf-8", "replace"))

    facts: Json = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
    text = (folder / "trace.txt").read_text(encoding="utf-8", errors="replace")
    lines = [Line(line[0], parsed_or_text(line[2:])) for line in text.split("\n") if line]
    trace = _Trace(lines, Path(facts["home"]))
    names = Names(trace.tokens(facts["route"]))
    logs = [log_records(trace.home / "sessions", session) for session in trace.sessions]
    write(folder / "scenario.toml", trace.scenario(names, facts["agent"]))
    for path, content in files_before(trace.cwd, [record for records in logs for record in records]):
        write(folder / "workspace" / path, content)
    for path in (folder / "model").glob("[0-9]*.json"):
        answer: Json = json.loads(path.read_text(encoding="utf-8"))
        answer.pop("request", None)  # a refresh says it as snapshots do
        write(path, names.named(json.dumps(answer, ensure_ascii=False, indent=2)) + "\n")
    ended = [*trace.as_played(), Line("#", "end of input, exit 0")]
    write(folder / "expected" / "frames.txt", frames_text(normal_frames(ended, names)))
    log = (record for records in logs if records for record in normal_log(records, names))
    write(folder / "expected" / "log.jsonl", "".join(f"{compact(record)}\n" for record in log))


def files_before(cwd: str, records: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """Yield the files that tools named as they were before the first change; those outside are left out."""
    found: dict[str, str | None] = {}
    for record in records:
        if record.get("type") != "tool/result":
            continue
        for block in record["data"].get("shown", ()):
            if block.get("type") == "diff":
                found.setdefault(block["path"], block.get("oldText"))
    for record in records:
        for path in record.get("data", {}).get("digests") or ():
            if path not in found:
                found[path] = _content(Path(path))
    for path, text in found.items():
        if text is not None and cwd and path.startswith(f"{cwd}/"):
            yield path[len(cwd) + 1 :], text


def _content(path: Path) -> str | None:
    """Return a file's text; None if it has none, or is not to be taken in."""
    data = read_regular(path)
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _make(folder: Path) -> None:
    """Make a folder, and those above it, for its owner alone, whatever the umask is."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700)


def _created(path: Path) -> int:
    """Return a descriptor of a file for its owner alone, emptied; a link in its place is not followed."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(fd, 0o600)
    return fd


def _write(path: Path, text: str) -> None:
    with open(_created(path), "w", encoding="utf-8") as file:
        file.write(text)


@dataclass(slots=True)
class _Trace:
    """The noted lines, and what a script can be made of."""

    lines: list[Line]
    home: Path
    cwd: str = ""
    sessions: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        news = {line.message["id"]: line for line in self.lines if line.way == ">" and line.method == "session/new"}
        for line in self.lines:
            if line.is_agents_answer and line.message["id"] in news and "sessionId" in line.result:
                self.sessions.append(line.result["sessionId"])
                self.cwd = self.cwd or str(news[line.message["id"]].params["cwd"]).rstrip("/")

    def tokens(self, route: str) -> dict[str, str]:
        """Return what the names of the scenario stood for."""
        named = {"<home>/bridge": str(self.home), "<workspace>": self.cwd, "replay:<run>/model": route}
        sessions = {f"<session-{number}>": session for number, session in enumerate(self.sessions, 1)}
        return {token: text for token, text in {**named, **sessions}.items() if text}

    def as_played(self) -> Iterator[Line]:
        """Yield the lines as a scenario plays them: the client's requests numbered from 1, in one form."""
        ids: dict[Any, int] = {}
        for line in self.lines:
            said = line.message
            if line.way == ">" and line.method:
                number = {"id": ids.setdefault(said["id"], len(ids) + 1)} if "id" in said else {}
                said = {"jsonrpc": "2.0", **number, "method": line.method, "params": said.get("params", {})}
            elif line.is_agents_answer and said["id"] in ids:
                said = {**said, "id": ids[said["id"]]}
            yield Line(line.way, said or line.said)

    # --- the script ---

    def scenario(self, names: Names, settings: Mapping[str, str]) -> str:
        """Return `scenario.toml`."""
        parts = ['about = "a conversation that was traced: say in one line what went wrong in it"\ntraced = true\n']
        if settings:
            parts.append("[agent]\n" + "".join(f"{_key(key)} = {_toml(value)}\n" for key, value in settings.items()))
        if buffers := self._buffers():
            parts.append(f"[editor]\nbuffers = {_toml(buffers)}\n")
        parts += [
            "[[step]]\n" + "".join(f"{_key(key)} = {_toml(value)}\n" for key, value in step.items())
            for step in self._steps()
        ]
        return names.named("\n".join(parts))

    def _steps(self) -> Iterator[Json]:
        """Yield a step for each line of the client's, behind waits for what it had seen by then."""
        for place, line in enumerate(self.lines):
            if line.way != ">" or not line.method:
                continue
            yield from self._waits(place)
            if "id" not in line.message:
                yield {"do": "notify", "method": line.method, "params": line.params}
                continue
            step: Json = {"do": "request", "method": line.method, "params": line.params}
            until = self._answered_at(line.message["id"], place)
            if any(other.way == ">" and other.method for other in self.lines[place + 1 : until]):
                step["background"] = True
            answers, forms = self._given(place, until)
            yield step | ({"answers": answers} if answers else {}) | ({"forms": forms} if forms else {})

    def _waits(self, place: int) -> Iterator[Json]:
        """Yield a wait for the last thing seen of a turn that was under way when the client spoke again."""
        seen = self.lines[place - 1].update if place else {}
        pending = [
            line
            for at, line in enumerate(self.lines[:place])
            if line.way == ">" and line.method and "id" in line.message
            if self._answered_at(line.message["id"], at) > place
        ]
        spoke = [at for at, line in enumerate(self.lines[:place]) if line.way == ">" and line.method]
        earlier = [at for at in spoke[:-1] if "id" in self.lines[at].message]
        if not pending and any(self._answered_at(self.lines[at].message["id"], at) > spoke[-1] for at in earlier):
            yield {"do": "wait", "response": True}
        if pending and seen:
            keep = ("sessionUpdate", "toolCallId", "status", "messageId", "currentModeId", "title")
            yield {"do": "wait", "update": {key: seen[key] for key in keep if key in seen}}
            if seen.get("status") == "in_progress":
                yield {"do": "wait", "event": {"type": "tool/call", "data": {"callId": seen["toolCallId"]}}}

    def _answered_at(self, request_id: Any, place: int) -> int:
        for at in range(place + 1, len(self.lines)):
            if self.lines[at].is_agents_answer and self.lines[at].message["id"] == request_id:
                return at
        return len(self.lines)

    def _given(self, start: int, end: int) -> tuple[list[str], list[Any]]:
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

    def _questions(self, start: int, end: int) -> Iterator[tuple[Line, Line | None]]:
        for line in self.lines[start:end]:
            if line.way == "<" and line.method and "id" in line.message:
                mine = (
                    o
                    for o in self.lines[start:]
                    if o.way == ">" and o.answers and o.message["id"] == line.message["id"]
                )
                yield line, next(mine, None)

    def _buffers(self) -> dict[str, str]:
        """Return what the editor had open, as the agent first read it."""
        found: dict[str, str] = {}
        for asked, answer in self._questions(0, len(self.lines)):
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
