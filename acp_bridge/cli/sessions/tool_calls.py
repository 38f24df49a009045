"""What became of each tool request in a session's log, as the card that a reader is shown.

Pure. Owns the words for a call's outcome, once for all renderings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from acp_bridge.content import ToolRequest
from acp_bridge.session import PermissionAsked, PermissionDecided, Record, ResultCode, ToolCalled, ToolResult

from .entries import Card, Level

_STATUS: Mapping[ResultCode, tuple[str, Level]] = {
    "DENIED": ("denied, not run", "warning"),
    "INVALID_ARGUMENTS": ("not run: its arguments were wrong", "error"),
    "UNKNOWN_TOOL": ("not run: there is no such tool", "error"),
    "ABORTED_BEFORE_DISPATCH": ("cancelled before it began", "warning"),
    "ABORTED": ("stopped on the way; it may have run in part", "warning"),
    "TIMED_OUT": ("took too long and was stopped; it may have run in part", "error"),
    "FAILED": ("failed", "error"),
    "NOT_SAVED": ("not run: it could not be saved first", "error"),
    "TOOL_NOT_STARTED": ("never started: the program stopped before it", "warning"),
    "TOOL_OUTCOME_UNKNOWN": ("outcome unknown: the program stopped after it began; it may have run", "warning"),
}


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """What the log says of its tool calls, each by its call's id.

    Attributes:
        begun: calls whose body may have run.
        permissions: answers to permission questions; None where nobody has answered yet.
    """

    results: Mapping[str, ToolResult]
    begun: frozenset[str]
    permissions: Mapping[str, PermissionDecided | None]

    @classmethod
    def of(cls, records: Sequence[Record]) -> "ToolCalls":
        """Return what `records` say."""
        results: dict[str, ToolResult] = {}
        begun: set[str] = set()
        permissions: dict[str, PermissionDecided | None] = {}
        for record in records:
            match record.event:
                case ToolResult() as event:
                    results[event.call_id] = event
                case ToolCalled() as event:
                    begun.add(event.call_id)
                case PermissionAsked() as event:
                    permissions[event.call_id] = None
                case PermissionDecided() as event:
                    permissions[event.call_id] = event
                case _:
                    pass
        return cls(results, frozenset(begun), permissions)

    def is_done(self, call_id: str) -> bool:
        """Return whether the call has a result that is no error."""
        result = self.results.get(call_id)
        return result is not None and not result.is_error

    def card(self, request: ToolRequest) -> Card:
        """Return the card of a request."""
        result = self.results.get(request.call_id)
        status, level = self._status(request.call_id)
        # what repair wrote is for the model; the status says the same to a person
        recovered = result is not None and result.code in ("TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN")
        return Card(
            title=request.title or request.name,
            name=request.name,
            arguments=request.arguments,
            status=status,
            level=level,
            permission=_permission(self.permissions.get(request.call_id)),
            shown=() if result is None or recovered else result.shown or result.content,
        )

    def _status(self, call_id: str) -> tuple[str, Level]:
        result = self.results.get(call_id)
        if result is not None and result.code is not None:
            return _STATUS[result.code]
        if result is not None:
            return ("failed", "error") if result.is_error else ("done", "info")
        if call_id in self.begun:
            return "begun, no result yet", "warning"
        is_asked = call_id in self.permissions and self.permissions[call_id] is None
        return ("waits for permission" if is_asked else "not begun"), "warning"


def _permission(decided: PermissionDecided | None) -> str:
    if decided is None:
        return ""
    if decided.grant is not None:
        return f"always allowed: {decided.grant.get('scope') or decided.grant.get('tool')}"
    return {"allowed": "allowed", "denied": "denied by you", "cancelled": "not decided"}[decided.outcome]
