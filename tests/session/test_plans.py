"""Where the plan is shown to one who reads a session again."""

import pytest

from acp_bridge.session import Event, PlanUpdated, Record, TurnStarted, plan_left, plans_shown


def records(*events: Event) -> list[Record]:
    return [Record(seq, 0, event) for seq, event in enumerate(events)]


def plan(*statuses: str) -> PlanUpdated:
    return PlanUpdated(entries=tuple({"content": "do", "status": status} for status in statuses))


OPEN, DONE, NONE = plan("completed", "pending"), plan("completed", "completed"), plan()
ONE, TWO, THREE = (TurnStarted(turn=turn, continues=None) for turn in (1, 2, 3))


@pytest.mark.parametrize(
    ("events", "shown", "left"),
    [
        ((), set(), None),
        ((ONE, TWO), set(), None),
        ((ONE, OPEN, DONE, TWO, THREE), {2}, None),
        ((ONE, OPEN), {1}, None),
        ((ONE, OPEN, TWO), {1}, OPEN),
        ((ONE, OPEN, TWO, DONE, THREE, OPEN), {1, 3, 5}, None),
        ((ONE, OPEN, TWO, NONE, THREE), {1, 3}, None),
    ],
)
def test_each_turn_shows_its_last_plan_where_it_stood_and_an_unfinished_one_comes_again(
    events: tuple[Event, ...], shown: set[int], left: PlanUpdated | None
) -> None:
    assert (plans_shown(records(*events)), plan_left(records(*events))) == (shown, left)
