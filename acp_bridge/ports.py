"""What is asked of somebody else's part: every member of its port, under the name that it has today.

Owns the names that ports had in earlier versions. Knows no port's meaning.

Decision: a part that was written for an earlier version is refused when it is composed. It may well inherit the new
names from a class of this program; then its own methods would never be called, and a checkpoint policy, say, would wait
for nothing that its author wrote.
"""

from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import get_protocol_members

from acp_bridge.errors import ConfigError

FORMER_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "Policy": {
        "request": "before_request",
        "tool": "before_tool",
        "settled": "may_show_result",
        "turn": "after_turn",
        "open": "after_open",
        "answer": "before_answer",
    },
    "Tool": {"draw": "present"},
}
"""By port, what a member was called and what it is called today."""


def require_port(part: object, port: type, name: str, what: str) -> None:
    """Refuse a part that lacks what its port has, or has it under a former name.

    Args:
        part: what was made or given.
        port: the protocol that it has to keep.
        name: what the part is named by, for the message.
        what: what it is used as, e.g. `checkpoint policy`.

    Raises:
        ConfigError: it names the part and what it lacks, or each former name with today's.
    """
    if isinstance(part, type):
        raise ConfigError(f"the {what} {name} is a class; give one that is made: {part.__name__}()")
    require_current_names(part, port.__name__, f"the {what} {name}")
    if missing := [member for member in sorted(get_protocol_members(port)) if not hasattr(part, member)]:
        raise ConfigError(
            f"the {what} {name} is a {type(part).__name__}, which has no {', '.join(missing)}: it is no {port.__name__}"
        )


def require_current_names(part: object, port: str, whole_name: str) -> None:
    """Refuse a part whose author wrote a member of `port` under a former name alone.

    A part that has both names at one level of its classes serves both versions, and is taken.

    Args:
        part: what was made or given.
        port: the port's name, a key of `FORMER_NAMES`.
        whole_name: what the part is and is named by, for the message.

    Raises:
        ConfigError: it names each former name and what it is called today.
    """
    if renamed := [f"{old} is now {new}" for old, new in FORMER_NAMES.get(port, {}).items() if _hides(part, old, new)]:
        raise ConfigError(
            f"{whole_name} is a {type(part).__name__}, which has former names of {port}: {', '.join(renamed)}. "
            "Rename them: under the old names they would never be called"
        )


def _hides(part: object, old: str, new: str) -> bool:
    """Whether `old` was written later than `new`, so that who wrote it counts on its being called."""
    return hasattr(part, old) and _level(part, old) < _level(part, new)


def _level(part: object, member: str) -> float:
    """Return how far up the part's classes a member is found: 0 is the part itself, infinity nowhere."""
    homes: list[Any] = [part, *type(part).__mro__]
    found = (level for level, home in enumerate(homes) if getattr(home, "__dict__", {}).get(member) is not None)
    return next(found, float("inf"))
