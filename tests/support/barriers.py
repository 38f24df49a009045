"""By which method of a checkpoint policy each kind of barrier is waited for; a result's is a question, not a wait."""

from acp_bridge.session import BarrierKind

METHODS: dict[BarrierKind, str] = {
    "request": "before_request",
    "tool": "before_tool",
    "turn": "after_turn",
    "open": "after_open",
    "answer": "before_answer",
}
