"""What every answer has to keep to, whoever gives it: whole characters, and bounds.

Owns the joining of characters that were cut between two pieces, and the count of what an answer has brought so far.
Pure: deltas in, deltas out. Knows no provider; what is beyond a bound ends the answer as broken off.
"""

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from acp_bridge.content import Failure
from acp_bridge.limits import ANSWER, BLOCKS, CALLS, MIB
from acp_bridge.text import mended_text

from .model import Delta, Failed, Finished, TextDelta, ThoughtDelta, ToolDelta

_Place: TypeAlias = int | str
"""Where a piece belongs: `"text"`, `"thought"` with its form, or the index of a tool request."""


@dataclass(slots=True)
class Sanitizer:
    """One answer on its way in. `name` is whose it is, for the message of what is beyond a bound.

    Attributes:
        size: bytes of text, thoughts and arguments so far.
    """

    name: str
    size: int = 0
    _halves: dict[_Place, str] = field(default_factory=dict[_Place, str])
    _calls: set[int] = field(default_factory=set[int])
    _blocks: int = 0
    _last: _Place = ""

    def take(self, delta: Delta) -> tuple[Delta, ...]:
        """Return what is passed on of a delta; a `Failed` among it ends the answer."""
        match delta:
            case TextDelta():
                passed = self._take_prose("text", delta)
            case ThoughtDelta():
                passed = self._take_prose(f"thought{delta.form}", delta)
            case ToolDelta():
                self._calls.add(delta.index)
                passed = self._take_piece(delta)
            case Finished() | Failed():
                return (*self._flush_halves(), delta)
        broken = self._check_bounds()
        return passed if broken is None else (broken,)

    def _take_prose(self, place: str, delta: TextDelta | ThoughtDelta) -> tuple[Delta, ...]:
        before = self._flush_halves() if place != self._last else ()  # its other half does not come from elsewhere
        if place != self._last or (isinstance(delta, ThoughtDelta) and delta.signature):
            self._blocks += 1
            self._last = place
        signature = delta.signature if isinstance(delta, ThoughtDelta) else ""
        text = self._join(place, delta.text, last=bool(signature))
        self.size += _size(text) + len(signature)
        if not text and not signature:
            return before
        return (*before, delta if text is delta.text else replace(delta, text=text))

    def _take_piece(self, delta: ToolDelta) -> tuple[Delta, ...]:
        arguments = self._join(delta.index, delta.arguments)
        self.size += _size(arguments) + len(delta.name)
        if not arguments and not delta.name:
            return ()
        return (delta if arguments is delta.arguments else replace(delta, arguments=arguments),)

    def _join(self, place: _Place, text: str, *, last: bool = False) -> str:
        """Return `text` behind the half that waits for it; a half at its end waits for what follows."""
        if text.isascii() and not self._halves:
            return text
        if text or last:
            text = self._halves.pop(place, "") + text
        if not last and "\ud800" <= text[-1:] <= "\udbff":
            self._halves[place] = text[-1]
            text = text[:-1]
        return mended_text(text)

    def _flush_halves(self) -> tuple[Delta, ...]:
        """Return the halves that nothing followed, each as the character that stands for one."""
        halves, self._halves = self._halves, {}
        return tuple(_replacement(place) for place in halves)

    def _check_bounds(self) -> Failed | None:
        if self.size > ANSWER:
            return self._break_off(f"the answer is longer than {ANSWER // MIB} MiB")
        if len(self._calls) > CALLS:
            return self._break_off(f"the answer asks for more than {CALLS} tool calls")
        if self._blocks > BLOCKS:
            return self._break_off(f"the answer changes between text and thoughts more than {BLOCKS:,} times")
        return None

    def _break_off(self, why: str) -> Failed:
        message = f"{self.name} was cut off: {why}"
        return Failed(Failure(kind="broken_stream", message=message), retryable=True)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _replacement(place: _Place) -> Delta:
    match place:
        case int():
            return ToolDelta(place, "", "\ufffd")
        case "text":
            return TextDelta("\ufffd")
        case thought:
            return ThoughtDelta("\ufffd", form=thought.removeprefix("thought"))
