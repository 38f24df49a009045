"""The cards of calls that update the plan: a client that shows plans has no use for them.

Decision: every client is sent the protocol's plan updates, and no capability says whether it draws them. Those known to
draw none are known by the name that they give themselves; they are shown the calls, with the entries as content.
"""

from collections.abc import Mapping

UPDATE_PLAN = "update_plan"


class PlanCards:
    """Leaves out what a client need not be shown, of updates in the order in which they are sent."""

    def __init__(self, *, client_shows_plans: bool) -> None:
        self._left_out: set[str] | None = set() if client_shows_plans else None

    def leaves_out(self, update: Mapping[str, object]) -> bool:
        """Whether `update` is about the card of such a call."""
        if self._left_out is None:
            return False
        call_id = update.get("toolCallId")
        if update.get("sessionUpdate") == "tool_call" and update.get("name") == UPDATE_PLAN:
            self._left_out.add(str(call_id))
        return call_id in self._left_out
