"""What was recovered when a session was taken, in words for its user.

Pure. Knows no update's shape.
"""

from collections.abc import Sequence

from acp_bridge.session import Record, Recovery, SessionOpened


def was_barred(records: Sequence[Record]) -> bool:
    """Return whether calls waited for the disk in a session that has just been taken, before it was."""
    opened = [record.event for record in records if isinstance(record.event, SessionOpened)]
    return len(opened) > 1 and "tool" in opened[-2].barriers


def recovery_text(recovery: Recovery, *, barred: bool) -> str:
    """Return in words what was recovered and what to do; `barred` says whether no call ran before it was on disk."""
    said: list[str] = []
    if recovery.interrupted:
        kept = "All up to there was kept" if barred else "What was on disk was kept, the rest of the turn is lost"
        said.append(f"The program stopped in the middle of a turn. {kept}, and nothing was run.")
    if recovery.never_started:
        said.append(f"{_counted(len(recovery.never_started), 'tool call')} never started.")
    if recovery.unknown:
        calls = _counted(len(recovery.unknown), "tool call")
        said.append(f"{calls} may have run, in part or whole: look before repeating.")
    if recovery.dropped_inputs:
        said.append(f"{_counted(recovery.dropped_inputs, 'prompt')} had not been begun and will not run.")
    if recovery.dropped_bytes:
        said.append(f"{recovery.dropped_bytes} bytes at the end were incomplete and were left out.")
    if recovery.interrupted:
        said.append("Say /continue to go on, or ask for something else.")
    return " ".join(said)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
