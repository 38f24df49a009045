"""What a user is told of a recovery is no more than was kept."""

import pytest

from acp_bridge.bridge.recovery import recovery_text, was_barred
from acp_bridge.session import Record, Recovery, SessionOpened


def opened(*barriers: str) -> SessionOpened:
    return SessionOpened(version="1", barriers=barriers, cwd="/", roots=("/",))


@pytest.mark.parametrize(("barriers", "kept"), [(("tool", "turn"), True), (("turn",), False), ((), False)])
def test_that_all_was_kept_is_said_only_of_a_session_whose_calls_waited_for_the_disk(
    barriers: tuple[str, ...], kept: bool
) -> None:
    earlier, now = Record(0, 0, opened(*barriers)), Record(1, 0, opened("tool", "turn"))
    said = recovery_text(Recovery(interrupted=True), barred=was_barred([earlier, now]))
    assert ("All up to there was kept" in said) == kept
    assert "/continue" in said
