"""The fold into messages, whenever it is looked at."""

from hypothesis import given, settings
from hypothesis import strategies as st
from session.strategies import walked

from acp_bridge.session.transcript import Transcript


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 1 << 16), max_size=120), st.integers(1, 7))
def test_looking_in_between_changes_nothing(choices: list[int], every: int) -> None:
    """What is merged is kept between two requests; whatever changes behind it must be seen."""
    records, looked_at = walked(choices).records, Transcript()
    for place, record in enumerate(records):
        looked_at.add(record)
        if place % every == 0:
            untouched = Transcript()
            for earlier in records[: place + 1]:
                untouched.add(earlier)
            assert looked_at.messages == untouched.messages
