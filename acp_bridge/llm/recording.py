"""A recorded model: `replay:FOLDER`, and the `Recorder` that makes such a folder.

Owns the folder's format: `0001.json`, `0002.json`, …, each `{"request": summary, "deltas": [...]}`; the deltas as in a
script, so a recording can be edited by hand. Which answer comes next is told by the same rule as for a script. The
summary says which request was answered so. `model.json`, if there is one, holds what the model behind said of itself:
`{"context_window": 8192, "takes_images": false}`.

Who plays a recording may want to know what it was asked: if there is a file `served.jsonl`, a line is added to it for
each request, `{"answer": "0001.json", "route": …, "system": …, "tools": [names], "messages": [...]}`; `answer` is null
where there was none, and a recording without answers is one of a model that is never asked. Snapshots compare it with
the summaries, and count what was consumed.
"""

import os
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any, assert_never

import orjson

from acp_bridge.content import AnswerBlock, JsonObject, PromptBlock, ToolRequest
from acp_bridge.errors import ConfigError
from acp_bridge.redaction import Secrets
from acp_bridge.session import FromAssistant, FromTools, FromUser, Message, ModelRequest

from .model import Delta, Failed, Finished, Model, TextDelta, ThoughtDelta, ToolDelta
from .script import Answer, Script
from .script_parser import script_from
from .scripted import ScriptedModel, text_of

_SUMMARY = 400
_SERVED = "served.jsonl"
_ABOUT = "model.json"


def open_recording(folder: str | os.PathLike[str]) -> ScriptedModel:
    """Open a recording.

    Raises:
        ConfigError: the folder cannot be read, holds no recording, or a file of it is malformed.
    """
    paths = sorted(Path(folder).glob("[0-9]*.json"))
    served = Path(folder) / _SERVED
    if not paths and not served.exists():
        raise ConfigError(f"no recording in {os.fspath(folder)!r}; it must hold files named 0001.json and so on")
    about = Path(folder) / _ABOUT
    facts: Any = _read(about) if about.exists() else {}
    script = script_from({**facts, "answers": [_answer(path) for path in paths]}, os.fspath(folder))
    if not served.exists():
        return ScriptedModel(script)
    named = {f"answer {place}": path.name for place, path in enumerate(paths, 1)}
    return _ObservedModel(script, served, named)


class _ObservedModel(ScriptedModel):
    """A recording that writes down what it is asked."""

    def __init__(self, script: Script, served: Path, named: Mapping[str, str]) -> None:
        super().__init__(script)
        self._served = served
        self._named = named
        self._request: ModelRequest | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Yield the answer that the request has come to."""
        self._request = request  # the choice is made before the first await
        async with aclosing(super().stream(request)) as deltas:
            async for delta in deltas:
                yield delta

    def _choose(self, messages: Sequence[Message]) -> Answer | None:
        answer = super()._choose(messages)
        assert self._request is not None, "only a request is answered"
        told = {
            "answer": None if answer is None else self._named[answer.at],
            "route": self._request.route,
            "system": self._request.system,
            "tools": [tool.get("name") for tool in self._request.tools],
            "messages": [message_json(message) for message in messages],
        }
        with self._served.open("ab") as file:
            file.write(orjson.dumps(told) + b"\n")
        return answer


def message_json(message: Message) -> JsonObject:
    match message:
        case FromUser(content):
            return {"role": "user", "content": [_block(block) for block in content]}
        case FromAssistant(content):
            return {"role": "assistant", "content": [_block(block) for block in content]}
        case FromTools(answers):
            return {
                "role": "tools",
                "content": [
                    {"call": answer.call_id, "error": answer.is_error, "content": [_block(b) for b in answer.content]}
                    for answer in answers
                ],
            }
        case _:
            assert_never(message)


def _block(block: PromptBlock | AnswerBlock) -> JsonObject:
    """Return a block as a provider would be told it; how a client draws it is none of that."""
    if isinstance(block, ToolRequest):
        return {"type": block.type, "call": block.call_id, "name": block.name, "arguments": block.arguments}
    return {"type": block.type, **{key: value for key, value in asdict(block).items() if value not in ("", None)}}


def _answer(path: Path) -> Any:
    value = _read(path)
    if isinstance(value, dict):
        value.pop("request", None)  # pyright: ignore[reportUnknownMemberType]
    return value  # pyright: ignore[reportUnknownVariableType]


def _read(path: Path) -> Any:
    try:
        return orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as exc:
        raise ConfigError(f"cannot read the recording {os.fspath(path)!r}: {exc}") from exc


class Recorder:
    """A model that writes down what the model behind it answers. It owns that model.

    An answer that was cancelled ends in `hang`: played, it waits there to be cancelled again. None of
    `secrets` is written.
    """

    def __init__(self, model: Model, folder: str | os.PathLike[str], *, secrets: Iterable[str] = ()) -> None:
        self._model = model
        self._secrets = Secrets({str(place): secret for place, secret in enumerate(secrets) if secret})
        self._folder = Path(folder)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._count = len(list(self._folder.glob("[0-9]*.json")))
        about = {"context_window": model.context_window, "takes_images": model.takes_images}
        known = {key: value for key, value in about.items() if value is not None}
        _write(self._folder / _ABOUT, orjson.dumps(known, option=orjson.OPT_INDENT_2) + b"\n")

    @property
    def context_window(self) -> int | None:
        """What the model behind says."""
        return self._model.context_window

    @property
    def takes_images(self) -> bool:
        """What the model behind says."""
        return self._model.takes_images

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Yield the answer of the model behind, and write it down when it has ended or is no longer wanted."""
        deltas: list[Delta] = []
        try:
            async with aclosing(self._model.stream(request)) as stream:
                async for delta in stream:
                    deltas.append(delta)
                    if isinstance(delta, Finished | Failed):
                        self._write(request, deltas)
                    yield delta
        finally:
            if not deltas or not isinstance(deltas[-1], Finished | Failed):
                self._write(request, deltas)

    async def aclose(self) -> None:
        """Close the model behind."""
        await self._model.aclose()

    def _write(self, request: ModelRequest, deltas: list[Delta]) -> None:
        self._count += 1
        value = {"request": _summary(request), **_answer_json(deltas)}
        path = self._folder / f"{self._count:04}.json"
        data = orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n"
        _write(path, self._secrets.hidden_bytes(data, mark=b"<secret>"))


def _write(path: Path, data: bytes) -> None:
    """Write a file for its owner alone: it holds a conversation. A link in its place is not followed."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        os.fchmod(fd, 0o600)
        file.write(data)


def _summary(request: ModelRequest) -> JsonObject:
    last = text_of(request.messages[-1]) if request.messages else ""
    return {
        "route": request.route,
        "messages": len(request.messages),
        "tools": [tool.get("name") for tool in request.tools],
        "last_message": last[:_SUMMARY],
    }


def _answer_json(deltas: list[Delta]) -> JsonObject:
    pieces: list[JsonObject] = []
    answer: JsonObject = {"deltas": pieces}
    for delta in deltas:
        match delta:
            case TextDelta(text):
                pieces.append({"text": text})
            case ThoughtDelta(text, signature, form):
                known = {"signature": signature, "form": form}
                pieces.append({"thought": text, **{k: v for k, v in known.items() if v}})
            case ToolDelta(index, name, arguments):
                tool = {"index": index, "arguments": arguments}
                pieces.append({"tool": {**tool, "name": name} if name else tool})
            case Failed(failure, retryable, retry_after_s):
                fail = {"kind": failure.kind, "message": failure.message, "retryable": retryable}
                known = {"status": failure.status, "retry_after_s": retry_after_s}
                pieces.append({"fail": {**fail, **{k: v for k, v in known.items() if v is not None}}})
            case Finished(cause, usage, kept):
                answer["stop"] = cause
                if usage is not None:
                    answer["usage"] = asdict(usage)
                if kept is not None:
                    calls = {str(place): members for place, members in kept.calls.items()}
                    answer["kept"] = {"message": kept.message, "calls": calls}
            case _:
                assert_never(delta)
    if not deltas or not isinstance(deltas[-1], Finished | Failed):
        pieces.append({"hang": True})
    return answer
