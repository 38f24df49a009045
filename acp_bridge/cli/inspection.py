"""What other programs of the same user may see of this one: not its environment, not its memory.

Owns the one call that says so. A command that the agent runs is such a program, and the environment holds keys. Root is
not kept out, nor is the environment of whoever started this.
"""

import logging
import sys

logger = logging.getLogger(__name__)

_PR_SET_DUMPABLE = 4


def refuse_inspection() -> None:
    """Have the kernel refuse others this process's `/proc/PID/environ`, debuggers and core dumps.

    Linux only, and best effort: where it cannot be had, keys are still taken out of all output. An `exec` undoes it, so
    commands and servers that this process starts are not affected.
    """
    if sys.platform != "linux":
        return
    try:
        import ctypes  # here, since no other platform needs it

        if ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
            logger.debug("other programs may read this one's environment: the kernel did not take the request")
    except (ImportError, OSError, AttributeError) as exc:  # a Python without it, or a C library without prctl
        logger.debug("other programs may read this one's environment: %s", exc)
