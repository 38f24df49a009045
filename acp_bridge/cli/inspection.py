"""What other programs of the same user may see of this one: not its environment, not its memory.

Owns the one call that says so. A command that the agent runs is such a program, and the environment holds keys. Root is
not kept out, nor is the environment of whoever started this.
"""

import logging
import sys

logger = logging.getLogger(__name__)

_PR_SET_DUMPABLE = 4


def refuse_inspection() -> None:
    """Have the kernel refuse `/proc/PID/environ`, debuggers and core dumps; what is executed from here is not meant.

    Linux only. It is undone by every `exec`, so commands and servers are as they would be. Best effort: where it cannot
    be had, keys are still taken out of all output.
    """
    if sys.platform != "linux":
        return
    try:
        import ctypes

        if ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
            logger.debug("other programs may read this one's environment: the kernel did not take the request")
    except (ImportError, OSError, AttributeError) as exc:  # a Python without it, or a C library without prctl
        logger.debug("other programs may read this one's environment: %s", exc)
