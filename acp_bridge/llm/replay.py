"""A recorded model: `replay:FOLDER`, and the `Recorder` that makes such a folder.

Owns the folder's format: `0001.json`, `0002.json`, …, each `{"request": summary, "deltas": [...]}`; the deltas as in a
script, so a recording can be edited by hand. The summary is for people. Which answer comes next is told by the same
rule as for a script.
"""

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any, assert_never

import orjson

from acp_bridge.content import JsonObject
from acp_bridge.errors import ConfigError
from acp_bridge.session import ModelRequest

from .model import Delta, Failed, Finished, Model, TextDelta, ThoughtDelta, ToolDelta
from .script import script_from
from .scripted import ScriptedModel, text_of

_SUMMARY = 400


def replayed(folder: str | os.PathLike[str]) -> ScriptedModel:
    """Open a recording.

    Raises:
        ConfigError: the folder cannot be read, holds no recording, or a file of it is malformed.
    """
    paths = sorted(Path(folder).glob("[0-9]*.json"))
    if not paths:
        raise ConfigError(f"no recording in {os.fspath(folder)!r}; it must hold files named 0001.json and so on")
    return ScriptedModel(script_from([_answer(path) for path in paths], os.fspath(folder)))


def _answer(path: Path) -> Any:
    try:
        value: Any = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as exc:
        raise ConfigError(f"cannot read the recording {os.fspath(path)!r}: {exc}") from exc
    if isinstance(value, dict):
        value.pop("request", None)  # pyright: ignore[reportUnknownMemberType]
    return value  # pyright: ignore[reportUnknownVariableType]


class Recorder:
    """A model that writes down what the model behind it answers. It owns that model.

    Only answers that came to an end are written: one that was cancelled was nobody's answer.
    """

    def __init__(self, model: Model, folder: str | os.PathLike[str]) -> None:
        self._model = model
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._count = len(list(self._folder.glob("[0-9]*.json")))

    @property
    def context_window(self) -> int | None:
        """What the model behind says."""
        return self._model.context_window

    @property
    def takes_images(self) -> bool:
        """What the model behind says."""
        return self._model.takes_images

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Yield the answer of the model behind, and write it down when it has ended."""
        deltas: list[Delta] = []
        async with aclosing(self._model.stream(request)) as stream:
            async for delta in stream:
                deltas.append(delta)
                if isinstance(delta, Finished | Failed):
                    self._write(request, deltas)
                yield delta

    async def aclose(self) -> None:
        """Close the model behind."""
        await self._model.aclose()

    def _write(self, request: ModelRequest, deltas: list[Delta]) -> None:
        self._count += 1
        value = {"request": _summary(request), **_recorded(deltas)}
        path = self._folder / f"{self._count:04}.json"
        path.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")


def _summary(request: ModelRequest) -> JsonObject:
    last = text_of(request.messages[-1]) if request.messages else ""
    return {
        "route": request.route,
        "messages": len(request.messages),
        "tools": [tool.get("name") for tool in request.tools],
        "last_message": last[:_SUMMARY],
    }


def _recorded(deltas: list[Delta]) -> JsonObject:
    pieces: list[JsonObject] = []
    answer: JsonObject = {"deltas": pieces}
    for delta in deltas:
        match delta:
            case TextDelta(text):
                pieces.append({"text": text})
            case ThoughtDelta(text, signature):
                pieces.append({"thought": text, "signature": signature} if signature else {"thought": text})
            case ToolDelta(index, name, arguments):
                tool = {"index": index, "arguments": arguments}
                pieces.append({"tool": {**tool, "name": name} if name else tool})
            case Failed(failure, retryable, retry_after_s):
                fail = {"kind": failure.kind, "message": failure.message, "retryable": retryable}
                known = {"status": failure.status, "retry_after_s": retry_after_s}
                pieces.append({"fail": {**fail, **{k: v for k, v in known.items() if v is not None}}})
            case Finished(cause, usage):
                answer["stop"] = cause
                if usage is not None:
                    answer["usage"] = asdict(usage)
            case _:
                assert_never(delta)
    return answer
