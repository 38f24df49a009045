"""Where a turn stands, as a table.

Owns which phase follows which. Knows nothing of what happens in one.
"""

from enum import Enum, auto

from acp_bridge.errors import IllegalEvent


class Phase(Enum):
    """What an agent is doing."""

    IDLE = auto()
    SAVING = auto()  # at the request barrier
    ASKING = auto()  # the model is at work
    RETRYING = auto()  # waiting to ask again
    ACTING = auto()  # tools, or their permissions, are under way
    CLOSING = auto()  # turn/end is logged, its barrier not yet passed


class Sign(Enum):
    """What moves a turn on."""

    BEGAN = auto()
    SENT = auto()
    FAILED = auto()
    RETRIED = auto()
    ANSWERED = auto()
    SETTLED = auto()
    ENDED = auto()
    CLOSED = auto()


NEXT: dict[tuple[Phase, Sign], Phase] = {
    (Phase.IDLE, Sign.BEGAN): Phase.SAVING,
    (Phase.SAVING, Sign.SENT): Phase.ASKING,
    (Phase.ASKING, Sign.FAILED): Phase.RETRYING,
    (Phase.RETRYING, Sign.RETRIED): Phase.SAVING,
    (Phase.ASKING, Sign.ANSWERED): Phase.ACTING,
    (Phase.ACTING, Sign.SETTLED): Phase.SAVING,
    (Phase.SAVING, Sign.ENDED): Phase.CLOSING,
    (Phase.ASKING, Sign.ENDED): Phase.CLOSING,
    (Phase.RETRYING, Sign.ENDED): Phase.CLOSING,
    (Phase.ACTING, Sign.ENDED): Phase.CLOSING,
    (Phase.CLOSING, Sign.CLOSED): Phase.IDLE,
}


def advance(phase: Phase, sign: Sign) -> Phase:
    """Return the phase that follows.

    Raises:
        IllegalEvent: none does; the caller's phase is as it was.
    """
    following = NEXT.get((phase, sign))
    if following is None:
        raise IllegalEvent(f"{sign.name} is not legal in {phase.name}")
    return following
