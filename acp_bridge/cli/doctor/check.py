"""What was looked at, how it stands, and what to do. Pure."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line.

    Attributes:
        name: what was looked at.
        detail: how it stands.
        remedy: what to do, empty if nothing.
    """

    name: str
    level: Level = "ok"
    detail: str
    remedy: str = ""
