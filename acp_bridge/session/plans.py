"""The plan as a fold of the log: where one who reads the session again is shown it. Pure."""

from collections.abc import Sequence

from .events import PlanUpdated, Record, TurnStarted


def plans_shown(records: Sequence[Record]) -> frozenset[int]:
    """Return the seqs of the plans to show: of each turn the one that it ended with, where it stood."""
    shown: set[int] = set()
    last: int | None = None
    for record in records:
        match record.event:
            case TurnStarted():
                last = None
            case PlanUpdated():
                shown.discard(-1 if last is None else last)
                shown.add(last := record.seq)
            case _:
                pass
    return frozenset(shown)


def plan_left(records: Sequence[Record]) -> PlanUpdated | None:
    """Return the plan that later turns have left unfinished: it still holds, under all that was said since."""
    plan: PlanUpdated | None = None
    turns_since = False
    for record in records:
        match record.event:
            case PlanUpdated() as event:
                plan, turns_since = event, False
            case TurnStarted():
                turns_since = True
            case _:
                pass
    if plan is None or not turns_since or all(entry.get("status") == "completed" for entry in plan.entries):
        return None
    return plan
