"""What an agent is told it is, and how long it tries.

Owns the defaults. Knows nothing else.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The role, and the limits of a turn.

    Attributes:
        system: what the model is told it is, in place of the built-in role; workspace, mode and notes follow it.
        max_requests: model requests in one turn.
        max_attempts: tries of one request, the first included.
        retry_wait_s: seconds before the second try; doubled each time, unless the provider says how long.
        max_retry_wait_s: the longest wait; a provider that asks for more gets no retry.
    """

    system: str = ""
    max_requests: int = 200
    max_attempts: int = 5
    retry_wait_s: float = 1.0
    max_retry_wait_s: float = 120.0
