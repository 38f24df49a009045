"""What a log that broke off needs to be whole again: a pure function from a valid log to the events that close it.

Owns the classification of unfinished work (D33 to D36 of ARCHITECTURE.md) and the words for it. Appends nothing: its
caller does, marked synthetic and at the last real event's time, so that one log always gets the same closers. Nothing
is cut.
"""

from typing import assert_never

from acp_bridge.content import AnswerBlock, Effect, Failure, Text, Thought, ToolRequest

from .events import (
    AssistantDelta,
    AssistantMessage,
    Event,
    InputDropped,
    RequestFailed,
    ResultCode,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolResult,
    TurnEnded,
    TurnReason,
)
from .log import Log, State

NOT_STARTED = (
    "It never ran: the program stopped before it was begun. Nothing was changed by it. "
    "Do it again if it is still wanted."
)


def closers(log: Log, *, reason: TurnReason = "interrupted", failure: Failure | None = None) -> tuple[Event, ...]:
    """Return the events that close `log`, in order; none if it is balanced.

    Args:
        log: any log that its own nesting accepts.
        reason: how an open turn ends.
        failure: what `turn/end` says of it, for `error`.
    """
    state = log.state
    events: list[Event] = []
    if state.turn is not None and state.step is not None:
        if (message := _unfinished_message(log, state.turn, state.step)) is not None:
            events.append(message)
        events.extend(_results(state, state.turn, state.step))
    events.extend(InputDropped(id=input_id, reason="interrupted") for input_id in state.queued)
    if state.turn is not None:
        if state.step is not None:
            events.append(StepEnded(turn=state.turn, step=state.step))
        events.append(TurnEnded(turn=state.turn, reason=reason, failure=failure))
    return tuple(events)


def _unfinished_message(log: Log, turn: int, step: int) -> AssistantMessage | None:
    """Return the durable deltas of the attempt under way as a message; half-made tool requests are left out."""
    deltas = _deltas_under_way(log)
    content: list[AnswerBlock] = []
    for delta in deltas:
        last = content[-1] if content else None
        match delta.kind, last:
            case "text", Text():
                content[-1] = Text(text=last.text + delta.text)
            case "text", _:
                content.append(Text(text=delta.text))
            case "thought", Thought():
                content[-1] = Thought(text=last.text + delta.text)
            case "thought", _:
                content.append(Thought(text=delta.text))
            case "arguments", _:
                pass
            case _:
                assert_never(delta.kind)
    if not content:
        return None
    message_id = deltas[-1].message_id
    return AssistantMessage(turn=turn, step=step, id=message_id, content=tuple(content), interrupted=True)


def _deltas_under_way(log: Log) -> list[AssistantDelta]:
    """Return the deltas after the last attempt's start, oldest first; a failed attempt's are none of them."""
    deltas: list[AssistantDelta] = []
    for record in reversed(log.records):
        match record.event:
            case AssistantDelta() as delta:
                deltas.append(delta)
            case StepStarted() | AssistantMessage() | RequestFailed():
                break
            case _:
                pass
    return deltas[::-1]


def _results(state: State, turn: int, step: int) -> list[ToolResult]:
    results: list[ToolResult] = []
    for request in state.requests.values():
        code, text = _classify(request, state.called.get(request.call_id), barred="tool" in state.barriers)
        results.append(
            ToolResult(
                turn=turn, step=step, call_id=request.call_id, content=(Text(text=text),), is_error=True, code=code
            )
        )
    return results


def _classify(request: ToolRequest, call: ToolCalled | None, *, barred: bool) -> tuple[ResultCode, str]:
    """Return the code and words of a request without a result.

    "Never started" is sound only where the tool barrier was in force: there, no body began without its call on disk.
    """
    if call is None and barred:
        return "TOOL_NOT_STARTED", NOT_STARTED
    return "TOOL_OUTCOME_UNKNOWN", outcome_unknown(request.name, "write" if call is None else call.effect)


def outcome_unknown(name: str, effect: Effect) -> str:
    """Return what a model is told of a call that was begun and whose result did not survive."""
    begun = f"Outcome unknown: {name} was begun and no result survived; it may have run, in part or whole."
    match effect:
        case "read":
            return f"{begun} It only reads (effect: read), so it can be repeated."
        case "idempotent":
            return f"{begun} Repeating it changes nothing more (effect: idempotent), so it can be repeated."
        case "write":
            return (
                f"{begun} It may be irreversible (effect: write): look at the state of things outside first, or ask "
                "the user. Never repeat it blindly."
            )
        case _:
            assert_never(effect)
