"""What was cut short, in words for a person: the same in an editor, on a terminal and in an export.

Pure. Owns the sentences. Knows no update's shape and no rendering.
"""

from collections.abc import Mapping

from .events import DropReason
from .recovery import Interruption, Recovery

CUT_OFF = "Cut off here."
NEVER_RAN: Mapping[DropReason, str] = {
    "cancelled": "cancelled before it began",
    "interrupted": "never ran: the program stopped before it began",
    "refused": "refused, never ran",
}
"""What became of a prompt that was queued and dropped."""


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
        said.append(f"{_counted(recovery.dropped_inputs, 'prompt')} had not been begun and will not run.")
    if recovery.dropped_bytes:
        said.append(f"{_counted(recovery.dropped_bytes, 'byte')} at the end were incomplete and were left out.")
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
        said.append(f"{_counted(len(interruption.never_started), 'tool call')} never started.")
    if interruption.stopped:
        said.append(f"{_counted(len(interruption.stopped), 'tool call')} may have been done in part.")
    if interruption.unknown:
        calls = _counted(len(interruption.unknown), "tool call")
        said.append(f"{calls} may have run, in part or whole: look before repeating.")
    return said


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
