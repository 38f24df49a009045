"""Reads the events of a streamed Anthropic message. Sans-IO: payloads in, deltas out.

Owns the meaning of blocks, signatures, stop reasons and counts. Knows no HTTP.
"""

from dataclasses import dataclass, field
from typing import Any, cast

from acp_bridge.content import JsonObject, Usage

from .failures import Provider
from .model import Delta, Failed, Finished, StopCause, TextDelta, ThoughtDelta, ToolDelta
from .opaque import Keeping, TooMuch
from .payloads import DONE, count_of, json_text, objects_in

_CAUSES: dict[str, StopCause] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "end",
    "tool_use": "tools",
    "max_tokens": "length",
    "refusal": "refusal",
}
_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cached_read_tokens",
    "cache_creation_input_tokens": "cached_write_tokens",
}
_TOOL_USE = frozenset(("type", "id", "name", "input"))
"""Members that are read here; all others are kept for whoever gave them."""


@dataclass(slots=True)
class AnthropicAnswer:
    """One answer under way."""

    provider: Provider
    done: bool = False
    _calls: dict[int, int] = field(default_factory=dict[int, int])  # the event's block index → which request it is
    _others: set[int] = field(default_factory=set[int])  # the indices of blocks that are no requests
    _begun: int = 0  # requests; the indices may be said again, by servers that imitate the API
    _has_text: bool = False
    _reason: str = ""
    _counts: dict[str, int] = field(default_factory=dict[str, int])
    _events: int = 0
    _keeping: Keeping = field(default_factory=Keeping)

    def take(self, payload: bytes) -> list[Delta]:
        """Return the deltas that a payload holds. A `Failed` among them ends the answer."""
        if payload == DONE:  # not Anthropic's own; some servers that imitate the API end so
            self.done = True
            return []
        try:
            return [delta for event in objects_in(payload) for delta in self._event(event)]
        except (AttributeError, KeyError, TypeError):
            return [self.provider.break_off("a piece of the answer has a shape that is not Anthropic's")]
        except TooMuch:
            return [self.provider.break_off("the answer brought more than is kept of what its provider wants back")]
        except ValueError as exc:
            return [self.provider.explain_unreadable(exc)]

    def end(self, junk: bytes = b"") -> Finished | Failed:
        """Return the last delta, once the stream has ended. `junk` is what came that was no event."""
        if not self._events:
            return self.provider.explain_body(junk) if junk.strip() else self.provider.explain_empty()
        if not self.done and not self._reason:
            return self.provider.break_off()
        if self._reason == "model_context_window_exceeded":
            return self.provider.fail("context_overflow", f"{self.provider.name}: the context window is full")
        cause = _CAUSES.get(self._reason, "end")
        if cause in ("end", "tools"):
            if not self._begun and not self._has_text:
                return self.provider.explain_empty()
            cause = "tools" if self._begun else "end"
        return Finished(cause, Usage(**self._counts) if self._counts else None, self._keeping.whole() or None)

    def _event(self, event: JsonObject) -> list[Delta]:
        match event:
            case {"type": "content_block_delta", "delta": {"type": str()} as delta}:
                found = self._delta(event.get("index"), cast("JsonObject", delta))
            case {"type": "content_block_start", "content_block": {"type": str()} as block}:
                found = self._start(event.get("index"), cast("JsonObject", block))
            case {"type": "message_start", "message": message}:
                self._count(message.get("usage"))
                found = []
            case {"type": "message_delta", "delta": delta}:
                self._reason = str(delta.get("stop_reason") or self._reason)
                self._count(event.get("usage"))
                found = []
            case {"type": "message_stop"}:
                self.done = True
                found = []
            case {"error": error} if error:
                return [self.provider.explain_error(error)]
            case {"type": "ping" | "content_block_stop"}:
                return []
            case _:
                return []  # an event of a later version, which its makers ask to leave out
        self._events += 1
        return found

    def _start(self, index: Any, block: JsonObject) -> list[Delta]:
        if block["type"] == "tool_use":
            self._others.discard(index)
            return self._call(index, block)
        self._others.add(index)
        match block["type"]:
            case "redacted_thinking":
                return [ThoughtDelta("", _text_of(block["data"]), "redacted_thinking")]
            case "thinking" if block.get("thinking") or block.get("signature"):
                thinking, signature = _text_of(block.get("thinking")), _text_of(block.get("signature"))
                return [ThoughtDelta(thinking, signature, "thinking")]
            case "text":
                return self._text(_text_of(block.get("text")))
            case _:
                return []

    def _call(self, index: Any, block: JsonObject) -> list[Delta]:
        place = self._calls[index] = self._begun
        self._begun += 1
        self._keep(place, block)
        given = block.get("input")  # whole here with some servers that imitate the API
        return [ToolDelta(place, _text_of(block["name"]), _arguments(given) if given else "")]

    def _delta(self, index: Any, delta: JsonObject) -> list[Delta]:
        match delta["type"]:
            case "text_delta":
                return self._text(_text_of(delta["text"]))
            case "thinking_delta":
                return [ThoughtDelta(_text_of(delta["thinking"]), form="thinking")]
            case "signature_delta":
                return [ThoughtDelta("", _text_of(delta["signature"]), "thinking")]
            case "input_json_delta" if index not in self._others:  # of a block without a beginning it raises
                more = _arguments(delta["partial_json"])
                return [ToolDelta(self._calls[index], "", more)] if more else []
            case _:
                return []

    def _keep(self, place: int, block: JsonObject) -> None:
        if unknown := {name: value for name, value in block.items() if name not in _TOOL_USE}:
            self._keeping.call(place, unknown)

    def _text(self, text: str) -> list[Delta]:
        self._has_text = self._has_text or bool(text.strip())
        return [TextDelta(text)] if text else []

    def _count(self, usage: Any) -> None:
        """Take over counts: they are cumulative, and already disjoint. What is no count breaks no answer."""
        counts = cast("JsonObject", usage) if isinstance(usage, dict) else {}
        for theirs, ours in _COUNTS.items():
            if (count := count_of(counts.get(theirs))) is not None:
                self._counts[ours] = count


def _text_of(value: Any) -> str:
    """Return a text that an event holds, empty for none.

    Raises:
        TypeError: it is none, and what it would have said is missing.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError("a text is no text")
    return value


def _arguments(value: Any) -> str:
    """Return arguments as text: some servers give them as the object that they are."""
    return value if isinstance(value, str) else "" if value is None else json_text(value)
