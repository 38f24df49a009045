"""The standard descriptors, which belong to the protocol from the start of a process that serves it.

Owns the one claim. Knows no protocol, and imports nothing but the system's calls: `initialize` is answered with it.
"""

import os
from typing import NamedTuple


class Claimed(NamedTuple):
    """The two descriptors that lead to the client; whoever is given them owns them."""

    source: int
    sink: int


def claim_stdio() -> Claimed:
    """Take stdin and stdout for the protocol, so that nothing else in this process or its children can reach them.

    Missing descriptors 0 to 2 are opened on the null device. Afterwards 0 reads nothing and 1 goes where stderr goes.
    Call it first of all, before there is an event loop: what a loop opens for itself takes the missing numbers.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest free number, which is `fd`
    claimed = Claimed(os.dup(0), os.dup(1))  # closed in children
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)  # what lies unflushed in `sys.stdout` follows, and so cannot spoil the protocol
    return claimed
