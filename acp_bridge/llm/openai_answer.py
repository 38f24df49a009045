"""Reads the chunks of a streamed chat completion. Sans-IO: payloads in, deltas out.

Owns what servers do differently: reasoning under two names, tool calls whose ids and indices repeat or are missing,
errors inside a 200, an end without a reason. Knows no HTTP.
"""

from dataclasses import dataclass, field
from typing import Any, cast

from acp_bridge.content import JsonObject, Usage
from acp_bridge.limits import CALLS

from .error_bodies import says_error
from .failures import Provider
from .model import Delta, Failed, Finished, StopCause, TextDelta, ThoughtDelta, ToolDelta
from .opaque import Keeping, Kept, TooMuch, ids_in
from .payloads import DONE, Nesting, count_of, json_text, objects_in

_CAUSES: dict[str, StopCause] = {
    "stop": "end",
    "end_turn": "end",
    "eos": "end",
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refusal",
}


_MESSAGE = frozenset(("role", "content", "reasoning_content", "reasoning", "refusal", "tool_calls", "function_call"))
_CALL = frozenset(("index", "id", "type", "function"))
_FUNCTION = frozenset(("name", "arguments"))
"""Members that are read here; all others are kept for whoever gave them."""


@dataclass(slots=True)
class _Call:
    """A tool call under way. `key` is the index that the server gave it."""

    key: int | None
    id: str = ""
    name: str = ""
    nesting: Nesting = field(default_factory=Nesting)


@dataclass(slots=True)
class OpenAIAnswer:
    """One answer under way."""

    provider: Provider
    done: bool = False
    _calls: list[_Call] = field(default_factory=list[_Call])
    _has_text: bool = False
    _refused: bool = False
    _reason: str = ""
    _usage: Usage | None = None
    _chunks: int = 0
    _keeping: Keeping = field(default_factory=Keeping)

    def take(self, payload: bytes) -> list[Delta]:
        """Return the deltas that a payload holds. A `Failed` among them ends the answer."""
        if payload == DONE:
            self.done = True
            return []
        try:
            return [delta for chunk in objects_in(payload) for delta in self._chunk(chunk)]
        except (AttributeError, IndexError, KeyError, TypeError):
            return [self.provider.break_off("a piece of the answer has a shape that is not OpenAI's")]
        except TooMuch:
            return [self.provider.break_off("the answer brought more than is kept of what its provider wants back")]
        except ValueError as exc:
            return [self.provider.explain_unreadable(exc)]

    def end(self, junk: bytes = b"") -> Finished | Failed:
        """Return the last delta, once the stream has ended. `junk` is what came that was no event."""
        if not self._chunks:
            return self.provider.explain_body(junk) if junk.strip() else self.provider.explain_empty()
        if not self._reason and not self.done:
            return self.provider.break_off()
        if self._reason in ("error", "insufficient_system_resource"):
            return self.provider.fail("overloaded", f"{self.provider.name} gave up on the answer: {self._reason}")
        cause: StopCause = "refusal" if self._refused else _CAUSES.get(self._reason, "end")
        if cause in ("end", "tools"):
            if not self._calls and not self._has_text:
                return self.provider.explain_empty()
            cause = "tools" if self._calls else "end"
        return Finished(cause, self._usage, self._collect_kept())

    def _chunk(self, chunk: JsonObject) -> list[Delta]:
        self._chunks += 1
        if error := chunk.get("error"):
            return [self.provider.explain_error(error)]
        if "choices" not in chunk and says_error(chunk):
            return [self.provider.explain_error(chunk)]
        if isinstance(usage := chunk.get("usage"), dict) and usage:
            self._usage = _usage(cast("JsonObject", usage))
        choices: Any = chunk.get("choices")
        if not choices:
            return []
        choice: JsonObject = choices[0]
        if reason := choice.get("finish_reason"):
            self._reason = str(reason)
        if error := choice.get("error"):  # OpenRouter, when the server behind it breaks off
            return [self.provider.explain_error(error)]
        delta: Any = choice.get("delta") or choice.get("message")
        return self._delta(cast("JsonObject", delta)) if isinstance(delta, dict) else []

    def _delta(self, delta: JsonObject) -> list[Delta]:
        deltas: list[Delta] = []
        if delta.keys() - _MESSAGE:
            self._keep(delta)
        deltas += _thoughts(delta)
        if content := delta.get("content"):
            if isinstance(content, str):
                deltas.append(TextDelta(content) if not _is_thought(delta) else ThoughtDelta(_strip_tags(content)))
            else:
                deltas += _parts(content)
        if refusal := delta.get("refusal"):
            self._refused = True
            deltas.append(TextDelta(_text(refusal)))
        if not self._has_text:
            self._has_text = any(isinstance(d, TextDelta) and d.text.strip() for d in deltas)
        for call in delta.get("tool_calls") or ():
            deltas += self._tool(call)
            if len(self._calls) > CALLS:  # the border refuses them
                break
        if function := delta.get("function_call"):  # the name before there were several
            deltas += self._tool({"index": 0, "function": function})
        return deltas

    def _keep(self, delta: JsonObject) -> None:
        """Keep what is not read here."""
        unknown = {name: value for name, value in delta.items() if name not in _MESSAGE}
        if not _is_thought(delta):  # a mark of this piece alone, on the message it would make a thought of all of it
            self._keeping.message(unknown)

    def _collect_kept(self) -> Kept | None:
        """Return what has to go back, with the server's own ids of those calls that it speaks of."""
        kept = self._keeping.whole()
        named = ids_in(kept.message)
        for place, call in enumerate(self._calls):
            if call.id in named:
                kept.calls.setdefault(place, {})["id"] = call.id
        return kept or None

    def _tool(self, piece: JsonObject) -> list[Delta]:
        function: JsonObject = piece.get("function") or {}
        name, arguments = str(function.get("name") or ""), function.get("arguments")
        if not isinstance(arguments, str):
            arguments = json_text(arguments) if arguments else ""
        place = self._place(piece.get("index"), str(piece.get("id") or ""), name)
        call = self._calls[place]
        self._keep_of_call(place, piece, function)
        told = name if not call.name else ""
        call.name = call.name or name
        call.nesting.feed(arguments)
        return [ToolDelta(place, told, arguments)] if told or arguments else []

    def _keep_of_call(self, place: int, piece: JsonObject, function: JsonObject) -> None:
        unknown = {name: value for name, value in piece.items() if name not in _CALL}
        if inner := {name: value for name, value in function.items() if name not in _FUNCTION}:
            unknown["function"] = inner
        if unknown:
            self._keeping.call(place, unknown)

    def _place(self, key: int | None, call_id: str, name: str) -> int:
        """Return which call a piece belongs to; it may be a new one."""
        place = self._find_call(key, call_id)
        if place is not None and name and not _goes_on(self._calls[place], key, call_id, name):
            place = None
        if place is None:
            self._calls.append(_Call(key, call_id))
            return len(self._calls) - 1
        self._calls[place].id = self._calls[place].id or call_id
        return place

    def _find_call(self, key: int | None, call_id: str) -> int | None:
        """Return the latest call that index and id point at, as far as the server gives them."""
        places = range(len(self._calls) - 1, -1, -1)
        by_id = [p for p in places if call_id and self._calls[p].id == call_id]
        by_key = [p for p in places if key is not None and self._calls[p].key == key]
        both = [p for p in by_id if p in by_key]
        last = list(places[:1]) if key is None else []
        return next(iter((*both, *by_id, *by_key, *last)), None)


def _goes_on(call: _Call, key: int | None, call_id: str, name: str) -> bool:
    """Whether a piece with a name is more of `call`, since servers repeat the name, and not the next one."""
    if not call.name:
        return True
    if call_id and call.id:
        return call_id == call.id and (key is None or key == call.key)
    return name == call.name and not call.nesting.closed


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value)


def _thoughts(delta: JsonObject) -> list[Delta]:
    """Read reasoning under its names; in details alone it is shown, and goes back as a detail."""
    for name in ("reasoning_content", "reasoning"):
        if thought := delta.get(name):
            return [ThoughtDelta(thought, form=name) if isinstance(thought, str) else ThoughtDelta(_text(thought))]
    details: Any = delta.get("reasoning_details")
    if not isinstance(details, list):
        return []
    return [ThoughtDelta(text) for text in map(_inner_text, cast("list[Any]", details)) if text]


def _is_thought(delta: JsonObject) -> bool:
    """Whether content is marked as thought, as Gemini does."""
    match delta.get("extra_content"):
        case {"google": {"thought": True}}:
            return True
        case _:
            return False


def _strip_tags(text: str) -> str:
    return text.replace("<thought>", "").replace("</thought>", "")


def _parts(content: Any) -> list[Delta]:
    """Read content in parts, as Mistral's reasoning models stream it."""
    deltas: list[Delta] = []
    if not isinstance(content, list):
        raise TypeError("content is neither text nor parts")
    for part in cast("list[Any]", content):
        match part:
            case {"type": "text", "text": str(text)}:
                deltas.append(TextDelta(text))
            case {"type": "thinking", "thinking": [*thoughts]}:
                deltas += [ThoughtDelta(text, form="content") for text in map(_inner_text, thoughts) if text]
            case _:
                pass
    return deltas


def _inner_text(part: Any) -> str:
    match part:
        case {"text": str(text)} | {"summary": str(text)}:
            return text
        case _:
            return ""


def _usage(usage: JsonObject) -> Usage:
    """Return disjoint counts: here the cached are within the prompt's, the reasoning within the completion's."""
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    details = _inner(usage, "prompt_tokens_details")
    cached = _count(details, "cached_tokens") or _count(usage, "prompt_cache_hit_tokens")
    written = _count(details, "cache_write_tokens")
    thought = _count(_inner(usage, "completion_tokens_details"), "reasoning_tokens")
    return Usage(
        input_tokens=max(0, prompt - cached - written),
        output_tokens=completion - thought if thought <= completion else completion,  # xAI counts them beside
        cached_read_tokens=cached,
        cached_write_tokens=written,
        thought_tokens=thought,
    )


def _count(value: JsonObject, key: str) -> int:
    return count_of(value.get(key)) or 0


def _inner(usage: JsonObject, key: str) -> JsonObject:
    details: Any = usage.get(key)
    return cast("JsonObject", details) if isinstance(details, dict) else {}
