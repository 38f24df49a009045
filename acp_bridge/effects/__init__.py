"""Set-up that can be undone, in order: parts, their services, tear-down within one deadline, cancellation.

Knows no domain: what the parts are, and how long they may take, is said by whoever composes them.

Decision: a part bounds its own tear-down, in a shield within its own `finally`. `compose` cannot do it for the part: a
shield around the exit of an older task group corrupts the scopes on both event loops.

Decision: parts are entered as they are listed, and nothing sorts them. A part gets what the earlier ones gave and can
get nothing else, so two parts that need one another in the wrong order fail at set-up, by name.
"""

from .cancellation import Cancellation, StrayCancellation, no_stray_cancellation
from .composition import Key, Part, Services, compose, flatten_exceptions
from .garbage import pause_gc, unfreeze_gc
from .host import Host, open_host
from .teardown import Deadline, close_together, shielded_cleanup

__all__ = [
    "Cancellation",
    "Deadline",
    "Host",
    "Key",
    "Part",
    "Services",
    "StrayCancellation",
    "close_together",
    "compose",
    "flatten_exceptions",
    "no_stray_cancellation",
    "open_host",
    "pause_gc",
    "shielded_cleanup",
    "unfreeze_gc",
]
