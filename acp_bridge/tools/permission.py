"""Who may do what: modes and grants decide, purely; the Permit port asks a person.

Owns the verdicts and the options of a question. Knows neither a client nor the log.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, assert_never

from acp_bridge.content import JsonObject, Mode, ShownBlock
from acp_bridge.text import escaped

from .tool import Access, Presentation

Verdict: TypeAlias = Literal["allow", "ask", "deny"]
OptionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]

MODES: Mapping[Mode, tuple[str, str]] = {
    "ask": ("Ask", "Reading inside the project is free; changes, commands and anything outside ask first"),
    "edit": ("Edit", "Edits inside the project are free; commands and anything outside ask first"),
    "plan": ("Plan", "Reads and plans; changes nothing and runs nothing"),
    "full": ("Full", "Asks nothing"),
}
"""Name and description of each mode, by id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionOption:
    """One answer that a person may give."""

    option_id: str
    name: str
    kind: OptionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person is asked before a call; `shown` is what it would do, if that is known."""

    call_id: str
    presentation: Presentation
    arguments: JsonObject
    options: tuple[PermissionOption, ...]
    shown: tuple[ShownBlock, ...] = ()

    @property
    def drawing(self) -> Presentation:
        """The former name of `presentation`; to be removed after 0.2."""
        return self.presentation


@dataclass(frozen=True, slots=True)
class Choice:
    """What came back.

    Attributes:
        option_id: None where nobody chose: an error, a disconnect. What is no id of the question's is a rejection.
        dismissed: the question was taken back because the turn is being cancelled.
    """

    option_id: str | None
    dismissed: bool = False


class Permit(Protocol):
    """Asks a person, or answers for one."""

    async def ask(self, question: Question) -> Choice:
        """Return the answer."""
        ...


def decide(mode: Mode, access: Access, *, tool: str, grants: Iterable[JsonObject]) -> Verdict:
    """Return whether a call is free, asks, or is denied. Decides, never asks."""
    if access.kind == "none":
        return "allow"
    match mode:
        case "full":
            return "allow"
        case "plan" if access.kind != "read":
            return "deny"
        case "plan" | "ask" | "edit":
            pass
        case _:
            assert_never(mode)
    if access.protected:
        return "ask"
    if access.kind == "read" and access.inside:
        return "allow"
    if mode == "edit" and access.kind == "edit" and access.inside:
        return "allow"
    granted = access.scope and any(g.get("tool") == tool and g.get("scope") == access.scope for g in grants)
    return "allow" if granted else "ask"


def options_for(access: Access) -> tuple[PermissionOption, ...]:
    """Return the answers to offer; a lasting one only where its scope is exact, and with the scope in its name."""
    once = PermissionOption(option_id="allow_once", name="Allow once", kind="allow_once")
    reject = PermissionOption(option_id="reject_once", name="Reject", kind="reject_once")
    if not access.scope or access.protected:
        return once, reject
    always = PermissionOption(
        option_id="allow_always", name=f"Always allow in this session: {escaped(access.scope)}", kind="allow_always"
    )
    return once, always, reject


def denial(mode: Mode, verdict_by: Literal["mode", "person", "nobody"]) -> str:
    """Return what the model is told of a denied call."""
    match verdict_by:
        case "mode":
            return f"Denied: in {mode} mode nothing may be changed or run. Go on without it, or say what you would do."
        case "person":
            return (
                "Denied: the user rejected this call. It was not run. Go on without it or ask what they want instead."
            )
        case "nobody":
            return "Denied: nobody could be asked for permission. It was not run. Go on without it."
        case _:
            assert_never(verdict_by)
