"""A scenario as data: `scenario.toml`, read and checked, with errors that name the step and the nearest word.

Owns which steps there are and what each takes. Plays nothing. The file, which a person writes and reviews:

    about = "one line on what it pins"

    [agent]                         # settings of the agent, by their environment names; never a key
    ACP_BRIDGE_MODE = "edit"

    [editor]                        # what the client has open, and how it fails
    buffers = { "a.py" = "unsaved text" }
    unwritable = ["b.py"]           # also unreadable; silent: the client never answers for these

    [[step]]
    do = "initialize"               # client = {capabilities} | "zed" | "bare" | "full"

    [[step]]
    do = "new"                      # cwd, additional = [...], mcp = [...]

    [[step]]
    do = "prompt"                   # text or blocks; background = true goes on while the turn runs
    text = "Fix it"
    answers = ["allow_once"]        # to permission questions, by option kind; also cancelled, error, none
    forms = ["decline"]             # to elicitations: an answer = "text", or decline, cancel, error, none
    expect = { stop_reason = "end_turn", file = { "a.py" = "fixed\\n" } }

`<workspace>`, `<home>`, `<run>` (the folder that holds both) and `<session-1>` stand for what a run gives them, in the
scenario as in what is expected. Each step is sent once the one before is answered, and each wait watches for a fact.
"""

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

Json: TypeAlias = dict[str, Any]

EXPECTED = ("frames.txt", "log.jsonl", "requests.txt")
_TOP = ("traced", "about", "agent", "editor", "step", "expect", "whole_header", "unknown_tools")
_COMMON = ("do", "expect", "note")
_TURN = ("background", "answers", "forms", "session")
_OPEN = ("cwd", "additional", "mcp", "greeted")
STEPS: Mapping[str, tuple[str, ...]] = {
    "initialize": ("client", "version"),
    "new": _OPEN,
    "load": ("session", *_OPEN),
    "resume": ("session", *_OPEN),
    "list": ("cwd", "cursor"),
    "close": ("session", "background"),
    "delete": ("session", "background"),
    "prompt": ("text", "blocks", *_TURN),
    "continue": _TURN,
    "cancel": ("session", "request"),
    "set_mode": ("mode", "session"),
    "set_config_option": ("config", "value", "session"),
    "request": ("method", "params", "greeted", *_TURN),
    "notify": ("method", "params"),
    "raw": ("line", "lines", "responses"),
    "answer": ("with", "content"),
    "write": ("path", "text", "remove"),
    "wait": ("event", "update", "response", "file", "asked", "served", "session", "times"),
    "kill": (),
    "eof": (),
    "signal": ("name",),
    "restart": ("client", "agent"),
    "expect": (),
}
"""Each step and what it takes, beside `expect` and a `note` to the reader."""

EXPECT = (
    "stop_reason", "error", "error_contains", "result", "update", "no_update", "text", "no_text", "asked", "file",
    "file_contains", "no_file", "event", "no_event", "log_contains", "no_log_contains", "request_contains",
    "no_request_contains", "requests", "exit", "lines", "stderr_contains",
)  # fmt: skip
"""What may be asserted beside the frames."""

CLIENTS: Mapping[str, Json] = {
    "bare": {},
    "zed": {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
        "auth": {"terminal": True},
        "_meta": {"terminal_output": True, "terminal-auth": True},
    },
    "full": {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
        "session": {"notices": {}, "configOptions": {"boolean": {}}},
        "elicitation": {"form": {}, "url": {}},
    },
}
"""Capabilities of clients, by name."""

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)


class ScenarioFault(Exception):
    """A scenario is malformed, or a run of it did what it must not; the message says which step and what."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `place` counts from 1."""

    place: int
    do: str
    args: Mapping[str, Any]
    expect: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        """Name it as a message does."""
        return f"step {self.place} ({self.do})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario folder, read.

    Attributes:
        agent: environment variables of the agent.
        buffers: what the client has open, by path in the workspace.
        whole_header: the log shows system prompt and tool schemas whole.
        traced: written by `--trace`; what the model was asked is not known whole, and is not compared until a refresh.
        unknown_tools: names that the recorded model asks for although no tool has them.
    """

    folder: Path
    about: str
    steps: tuple[Step, ...]
    agent: Mapping[str, str] = field(default_factory=dict[str, str])
    buffers: Mapping[str, str] = field(default_factory=dict[str, str])
    unwritable: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    whole_header: bool = False
    traced: bool = False
    unknown_tools: tuple[str, ...] = ()
    expect: Mapping[str, Any] = field(default_factory=dict[str, Any])


def read_scenario(path: Path) -> Scenario:
    """Read `scenario.toml` and look over its folder.

    Raises:
        ScenarioFault: it is malformed, or the folder holds what belongs to nothing.
    """
    top = _read_toml(path)
    about = _about(top.get("about"))
    editor = _check_keys(top.get("editor", {}), ("buffers", "unwritable", "unreadable", "silent"), "[editor]")
    expect = _check_keys(top.get("expect", {}), EXPECT, "[expect]")
    steps = _steps(top.get("step", []))
    # a refresh accepts whatever frames there are, so without an `expect` nothing would be held for good
    if not expect and not top.get("traced") and not any(step.expect for step in steps):
        raise ScenarioFault("nothing is expected beside the frames: give a step an 'expect', which no refresh rewrites")
    require_no_orphans(path.parent)
    return Scenario(
        folder=path.parent,
        about=about,
        steps=steps,
        agent=_settings(top.get("agent", {}), recorded=(path.parent / "model").is_dir()),
        buffers=cast("dict[str, str]", editor.get("buffers", {})),
        unwritable=tuple(editor.get("unwritable", ())),
        unreadable=tuple(editor.get("unreadable", ())),
        silent=tuple(editor.get("silent", ())),
        whole_header=top.get("whole_header") is True,
        traced=top.get("traced") is True,
        unknown_tools=tuple(top.get("unknown_tools", ())),
        expect=expect,
    )


def _read_toml(path: Path) -> Json:
    try:
        top = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise ScenarioFault(f"{path} cannot be read: {exc}") from exc
    return _check_keys(top, _TOP, "the scenario")


def require_no_orphans(folder: Path) -> None:
    """Refuse files that no run would ever look at.

    Raises:
        ScenarioFault: there is one.
    """
    for path in sorted(folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        parts = path.relative_to(folder).parts
        match parts:
            case ("scenario.toml" | "trace.txt" | "trace.json",) | ("workspace", *_):
                continue
            case ("model", name) if re.fullmatch(r"\d{4}\.json|model\.json", name):
                continue
            case ("expected", name) if name in EXPECTED:
                continue
            case _:
                raise ScenarioFault(f"{'/'.join(parts)!r} belongs to nothing in a scenario; remove it")


def _about(about: Any) -> str:
    if not isinstance(about, str) or not about.strip() or "\n" in about.strip():
        raise ScenarioFault("'about' must say in one line what the scenario pins")
    return about.strip()


def _steps(items: list[Any]) -> tuple[Step, ...]:
    if not items:
        raise ScenarioFault("there is no [[step]]")
    return tuple(_step(place, item) for place, item in enumerate(items, 1))


def _step(place: int, item: Any) -> Step:
    if not isinstance(item, dict):
        raise ScenarioFault(f"step {place} must be a [[step]] table")
    step = cast("Json", item)
    do = step.get("do")
    if not isinstance(do, str) or do not in STEPS:
        raise ScenarioFault(f"'do' of step {place} is {do!r}{_near(str(do), tuple(STEPS))}")
    _check_keys(step, (*_COMMON, *STEPS[do]), f"step {place} ({do})")
    expect = _check_keys(step.get("expect", {}), EXPECT, f"'expect' of step {place} ({do})")
    args = {key: value for key, value in step.items() if key not in _COMMON}
    if do == "prompt" and ("text" in args) == ("blocks" in args):
        raise ScenarioFault(f"step {place} (prompt) takes either 'text' or 'blocks'")
    return Step(place, do, args, expect)


def _settings(table: Any, *, recorded: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in cast("Json", table).items():
        if _SECRET.search(name):
            raise ScenarioFault(f"[agent] names {name!r}: no key belongs into a scenario")
        if name.endswith("_BASE_URL") or (name == "ACP_BRIDGE_MODEL" and recorded):
            raise ScenarioFault(f"[agent] names {name!r}: the model is the recording in model/")
        found[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def _check_keys(value: Any, keys: tuple[str, ...], where: str) -> Json:
    if not isinstance(value, dict):
        raise ScenarioFault(f"{where} must be a table")
    table = cast("Json", value)
    for key in table:
        if key not in keys:
            raise ScenarioFault(f"{where} has an unknown key {key!r}{_near(key, keys)}")
    return table


def _near(word: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
