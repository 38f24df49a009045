"""What a person is told between two attempts at one answer: what went wrong, when it is asked again, what counts.

Pure. Owns the words, so that live, a load and a shell say the same. Knows no update's shape.
"""

from typing import Final

from acp_bridge.content import FailureKind

from .events import RequestFailed

_WENT_WRONG: Final[dict[FailureKind, str]] = {
    "broken_stream": "The answer broke off",
    "connection": "The model's provider could not be reached",
    "empty": "The answer was empty",
    "overloaded": "The model's provider is overloaded",
    "rate_limit": "The model's provider asks to wait",
    "timeout": "The model's provider did not answer in time",
}
_SAID_S: Final = 1.0
"""A shorter wait is not worth a word."""


def retry_text(event: RequestFailed) -> str:
    """Return in a line that an attempt failed and the next one follows; empty if none does."""
    if event.retry_after_s is None:
        return ""
    said = _WENT_WRONG.get(event.failure.kind, "The request failed")
    when = f" in {event.retry_after_s:.0f} s" if event.retry_after_s >= _SAID_S else ""
    of = f" of {event.attempts}" if event.attempts is not None else ""
    discarded = " What it had said so far does not count." if event.discarded else ""
    return f"{said}; asking again{when}, {event.attempt + 1}{of}.{discarded}"
