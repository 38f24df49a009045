"""Scripts for the `scripted:FILE` model."""

import json
from pathlib import Path
from typing import Any, TypeAlias

Answer: TypeAlias = dict[str, Any]

AWKWARD = 'a line\nanother\r\n\u2028 \u2029 \x00 \x07 "quoted" \\ é 😀'
"""Text with everything that could break a line of JSON in two."""


def say(text: str, *, when: str = "", **more: Any) -> Answer:
    """Return an answer of text."""
    return _for(when, {"text": text, **more})


def use(name: str, *, when: str = "", text: str = "", **arguments: Any) -> Answer:
    """Return an answer that asks for one tool."""
    return use_all((name, arguments), when=when, text=text)


def use_all(*calls: tuple[str, dict[str, Any]], when: str = "", text: str = "") -> Answer:
    """Return an answer that asks for several tools."""
    answer: Answer = {"tools": [{"name": name, "arguments": arguments} for name, arguments in calls]}
    return _for(when, {**answer, "text": text} if text else answer)


def pieces(*deltas: dict[str, Any], when: str = "", **more: Any) -> Answer:
    """Return an answer in pieces."""
    return _for(when, {"deltas": list(deltas), **more})


def hang(*before: str, when: str = "") -> Answer:
    """Return an answer that says something, piece by piece, and never ends."""
    return pieces(*({"text": text} for text in before), {"hang": True}, when=when)


def fail(kind: str, *, when: str = "", **more: Any) -> Answer:
    """Return an attempt that fails."""
    return pieces({"fail": {"kind": kind, **more}}, when=when)


def written(path: Path, *answers: Answer, otherwise: str = "Done.", context_window: int | None = None) -> Path:
    """Write a script: `answers`, and then `otherwise`, as often as anybody asks."""
    script: dict[str, Any] = {"answers": [*answers, *([{"text": otherwise}] * 300 if otherwise else [])]}
    if context_window is not None:
        script["context_window"] = context_window
    path.write_text(json.dumps(script))
    return path


def _for(when: str, answer: Answer) -> Answer:
    return {**answer, "when": when} if when else answer
