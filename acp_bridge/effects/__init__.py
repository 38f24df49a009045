"""Set-up that can be undone, in order: composed parts, bounded last words, one deadline, cancellation, registration.

Knows no domain: what the parts are, and how long they may take, is said by whoever composes them.

Decision: a part bounds its own tear-down, in a shield within its own `finally`. `composed` cannot do it for the part: a
shield around the exit of an older task group corrupts the scopes on both event loops.

Decision: parts are entered as they are listed, and nothing sorts them. A part gets what the earlier ones gave and can
get nothing else, so two parts that need one another in the wrong order fail at set-up, by name.
"""

from .cancellation import Cancellation, StrayCancellation, no_stray_cancellation
from .closing import close_together
from .composition import Given, Key, Part, composed, leaves
from .deadline import Deadline, last_words
from .hosting import Hosting, hosting, manages_itself
from .long_lived import let_go, long_lived

__all__ = [
    "Cancellation",
    "Deadline",
    "Given",
    "Hosting",
    "Key",
    "Part",
    "StrayCancellation",
    "close_together",
    "composed",
    "hosting",
    "last_words",
    "leaves",
    "let_go",
    "long_lived",
    "manages_itself",
    "no_stray_cancellation",
]
