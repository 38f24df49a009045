"""What the program's end cut short: a fold of the log, the same for whoever reads it and however often.

Owns which turns were interrupted and what became of their parts, and since when that is no news any more. Pure: knows
neither the process that repaired a log nor anybody who is told. Owns the sentences, too, so that an editor, a terminal
and an export say the same; it knows no update's shape and no rendering.

Decision: an interruption is *news* until the next turn begins, be it the user's next prompt or going on with the one
that was cut short. Every load, resume and export until then tells it behind everything else, with the way to go on.
From then on it is *history*: told in its place, as the end of its turn, and no longer at the end of the conversation.
A prompt that never ran and an answer that was cut off are marked where they stand, for ever.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from acp_bridge.content import JsonObject
from acp_bridge.text import quantity

from .events import (
    AssistantMessage,
    DropReason,
    InputDropped,
    Record,
    ResultCode,
    SessionOpened,
    SessionSalvaged,
    ToolResult,
    TurnEnded,
    TurnStarted,
)
from .log import State

CUT_OFF = "Cut off here."
NEVER_RAN: Mapping[DropReason, str] = {
    "cancelled": "cancelled before it began",
    "interrupted": "never ran: the program stopped before it began",
    "refused": "refused, never ran",
}
"""What became of a prompt that was queued and dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """A turn that the program's end cut short.

    Attributes:
        orderly: whether the program itself wrote the turn's end, as it does when it is asked to end.
        barred: whether calls waited for the disk, so that none ran that the log does not know.
        cut_off: the message of the answer that was under way; empty if none was.
        never_started, unknown, stopped: call ids by what became of them.
        gone_on_in: the turn that goes on with it, if one does.
    """

    turn: int
    orderly: bool
    barred: bool = True
    cut_off: str = ""
    never_started: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    gone_on_in: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What is news about a session that is taken: all that was cut short since its last turn began.

    Attributes:
        last: the last turn, if it was interrupted.
        dropped_inputs: prompts that were queued and will not run.
        continuable: the turn that can be gone on with, None if there is none.
        dropped_bytes: what followed the last record that holds; it was not known durable. Only whoever cut it off
            knows of it: no log holds what it lost.
    """

    last: Interruption | None = None
    dropped_inputs: int = 0
    continuable: int | None = None
    dropped_bytes: int = 0

    @property
    def interrupted(self) -> bool:
        """Whether the last turn was cut short."""
        return self.last is not None

    @property
    def never_started(self) -> tuple[str, ...]:
        """Calls of the last turn that never began."""
        return self.last.never_started if self.last is not None else ()

    @property
    def unknown(self) -> tuple[str, ...]:
        """Calls of the last turn that were begun and whose outcome nobody knows."""
        return self.last.unknown if self.last is not None else ()

    @property
    def clean(self) -> bool:
        """Whether there is nothing to tell."""
        return not (self.interrupted or self.dropped_inputs or self.dropped_bytes)

    def members(self) -> JsonObject:
        """Return it as a program reads it."""
        return {
            "interrupted": self.interrupted,
            "neverStarted": list(self.never_started),
            "outcomeUnknown": list(self.unknown),
            "stopped": list(self.last.stopped) if self.last is not None else [],
            "cutOff": (self.last.cut_off or None) if self.last is not None else None,
            "droppedInputs": self.dropped_inputs,
            "droppedBytes": self.dropped_bytes,
            "continuable": self.continuable,
        }


def continuable(state: State) -> int | None:
    """Return the turn that can be gone on with: the last one, if the program's end cut it short, at most once."""
    last = state.last_end
    if last is None or state.turn is not None or not state.due:
        return None
    return last.turn if _was_cut_short(last) else None


def recovery_of(records: Sequence[Record], state: State, *, dropped_bytes: int = 0) -> Recovery:
    """Return what is news in a log whose fold is `state`; looks no further back than its last turn."""
    begun = next((at for at in reversed(range(len(records))) if isinstance(records[at].event, TurnStarted)), 0)
    since = records[begun:]
    return Recovery(
        last=interruptions(since, barred="tool" in state.turn_barriers).get(state.turns),
        dropped_inputs=sum(
            isinstance(record.event, InputDropped) and record.event.reason == "interrupted" for record in since
        ),
        continuable=continuable(state),
        dropped_bytes=dropped_bytes,
    )


def interruptions(records: Iterable[Record], *, barred: bool = False) -> dict[int, Interruption]:
    """Return the turns that the program's end cut short, by number.

    Args:
        records: from a log's beginning, or from that of a turn.
        barred: whether calls waited for the disk where `records` begin.
    """
    found: dict[int, Interruption] = {}
    turn = _Turn(barred)
    for record in records:
        match record.event:
            case SessionOpened() as event:
                barred = "tool" in event.barriers
            case SessionSalvaged():
                barred = False
            case TurnStarted() as event:
                turn = _Turn(barred)
                if event.continues in found:
                    found[event.continues] = replace(found[event.continues], gone_on_in=event.turn)
            case AssistantMessage(interrupted=True) as event:
                turn.cut_off = event.id
            case ToolResult() as event if event.code is not None:
                turn.results.append(event)
            case TurnEnded() as event if _was_cut_short(event):
                found[event.turn] = turn.end(event)
            case _:
                pass
    return found


@dataclass(slots=True)
class _Turn:
    """What is known so far of a turn under way."""

    barred: bool
    cut_off: str = ""
    results: list[ToolResult] = field(default_factory=list[ToolResult])

    def end(self, end: TurnEnded) -> Interruption:
        return Interruption(
            turn=end.turn,
            orderly=end.reason == "cancelled",
            barred=self.barred,
            cut_off=self.cut_off,
            never_started=self._with("TOOL_NOT_STARTED", "ABORTED_BEFORE_DISPATCH"),
            unknown=self._with("TOOL_OUTCOME_UNKNOWN"),
            stopped=self._with("ABORTED"),
        )

    def _with(self, *codes: ResultCode) -> tuple[str, ...]:
        return tuple(result.call_id for result in self.results if result.code in codes)


def _was_cut_short(end: TurnEnded) -> bool:
    return end.reason == "interrupted" or (end.reason == "cancelled" and end.by == "shutdown")


def recovery_title(recovery: Recovery) -> str:
    """Return in a few words what is news."""
    if recovery.interrupted:
        return "The last turn was interrupted"
    return "Not everything was begun" if recovery.dropped_inputs else "The end of the log was incomplete"


def recovery_text(recovery: Recovery, *, way_on: str = "") -> str:
    """Return what is news in sentences; `way_on` is said where there is a turn that can be gone on with."""
    said: list[str] = []
    if recovery.last is not None:
        said += [_what(recovery.last), *_calls(recovery.last)]
        if recovery.last.cut_off:
            said.append("Its last answer is cut off.")
    if recovery.dropped_inputs:
        said.append(f"{quantity(recovery.dropped_inputs, 'prompt')} had not been begun and will not run.")
    if recovery.dropped_bytes:
        said.append(f"{quantity(recovery.dropped_bytes, 'byte')} at the end were incomplete and were left out.")
    if recovery.continuable is not None and way_on:
        said.append(way_on)
    return " ".join(said)


def interruption_text(interruption: Interruption) -> str:
    """Return what became of a turn that is history by now, for the place where it ended."""
    said = ["The program stopped here, in the middle of the turn.", *_calls(interruption)]
    if interruption.orderly:
        said[0] = "The program was ended here, in the middle of the turn."
    if interruption.gone_on_in is not None:
        said.append(f"Turn {interruption.gone_on_in} goes on with it.")
    return " ".join(said)


def _what(interruption: Interruption) -> str:
    if interruption.orderly:
        return "The program was ended in the middle of a turn, and closed it. All up to there was kept."
    kept = (
        "All up to there was kept" if interruption.barred else "What was on disk was kept, the rest of the turn is lost"
    )
    return f"The program stopped in the middle of a turn. {kept}, and nothing was run."


def _calls(interruption: Interruption) -> list[str]:
    said: list[str] = []
    if interruption.never_started:
        said.append(f"{quantity(len(interruption.never_started), 'tool call')} never started.")
    if interruption.stopped:
        said.append(f"{quantity(len(interruption.stopped), 'tool call')} may have been done in part.")
    if interruption.unknown:
        calls = quantity(len(interruption.unknown), "tool call")
        said.append(f"{calls} may have run, in part or whole: look before repeating.")
    return said
