"""A conversation that happened, kept as a scenario: what `acp-bridge serve --trace FOLDER` writes for a bug report.

Owns the traced wire, which notes every line of both directions with known secrets left out, and the folder. While the
agent runs it grows: `trace.txt`, `trace.json`, and `model/` by a `record:` route. At the end, or later by
`python -m acp_bridge.testing FOLDER` if the agent was killed, `write_scenario` adds the rest: `scenario.toml` (made by
`scenario_writer`), the files that the tools read, and what is expected.

Replaying a trace runs its commands again, in a folder of the run: read a stranger's before you play it. What a trace
cannot hold: a session that was made before it, and files that no tool named.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from acp_bridge.errors import ConfigError
from acp_bridge.redaction import Secrets, secrets_in, secrets_in_arguments, together
from acp_bridge.rpc import Wire

from .artifacts import log_records, read_regular
from .frame import Frame, parse_or_text
from .log_normalization import normalize_log
from .normalization import Names, normalize_frames
from .scenario_writer import TracedExchange
from .snapshot import compact, frames_text

Json: TypeAlias = dict[str, Any]


class TracedWire(Wire):
    """A wire that notes what passes. Made before the one that it takes the place of was entered."""

    def __init__(self, wire: Wire, folder: Path, secrets: Secrets = Secrets()) -> None:  # noqa: B008 - a frozen value
        super().__init__(wire._source, wire._sink)  # noqa: SLF001  the same descriptors, which nobody reads yet
        _make(folder)
        self.secrets = secrets
        self._file = open(_create(folder / "trace.txt"), "wb", buffering=0)  # noqa: SIM115 - what is noted stays
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
            self.secrets = self.secrets.with_more(secrets_of_servers(parse_or_text(line.decode(errors="replace"))))
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
    args = [argument for argument in _as_list(server.get("args")) if isinstance(argument, str)]
    found = together(secrets_in_arguments(args), secrets_in({"URL": str(server.get("url", ""))}))
    for variable in (*_as_list(server.get("env")), *_as_list(server.get("headers"))):
        match variable:
            case {"name": str(name), "value": str(value)}:
                found = together(found, secrets_in({name: value}))
            case _:
                pass
    return found


def _as_list(value: Any) -> list[Any]:
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
    frames = [Frame(line[0], parse_or_text(line[2:])) for line in text.split("\n") if line]
    trace = TracedExchange(frames, Path(facts["home"]))
    names = Names(trace.tokens(facts["route"]))
    logs = [log_records(trace.home / "sessions", session) for session in trace.sessions]
    write(folder / "scenario.toml", trace.scenario(names, facts["agent"]))
    for path, content in files_before(trace.cwd, [record for records in logs for record in records]):
        write(folder / "workspace" / path, content)
    for path in (folder / "model").glob("[0-9]*.json"):
        answer: Json = json.loads(path.read_text(encoding="utf-8"))
        answer.pop("request", None)  # a refresh says it as snapshots do
        write(path, names.apply(json.dumps(answer, ensure_ascii=False, indent=2)) + "\n")
    ended = [*trace.as_played(), Frame("#", "end of input, exit 0")]
    write(folder / "expected" / "frames.txt", frames_text(normalize_frames(ended, names)))
    log = (record for records in logs if records for record in normalize_log(records, names))
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
        each.mkdir(mode=0o700)  # a conversation is nobody else's business


def _create(path: Path) -> int:
    """Return a descriptor of a file for its owner alone, emptied; a link in its place is not followed."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(fd, 0o600)
    return fd


def _write(path: Path, text: str) -> None:
    with open(_create(path), "w", encoding="utf-8") as file:
        file.write(text)
