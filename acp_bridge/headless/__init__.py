"""An agent without an editor: the same runtime in process, for programs and for `acp-bridge run`.

Owns the face that a program drives: open, make or resume a session, prompt, iterate over what happens, answer
permissions, close. The ordered effect is the server's: leaving stops the agents, then runtime, policy and storage go.

    async with open_runtime(load(os.environ)) as runtime:
        session = await runtime.new_session("/path/to/project", permit=allow_nothing)
        async with session.prompt("what is here?") as turn:
            async for event in turn:
                ...
        print(turn.outcome)
"""

from .router import PermitFunction, Streamed, TurnEvent, allow_nothing
from .runtime import Runtime, open_runtime
from .session import CLOSE_S, Session, Turn

Happened = TurnEvent
"""The name of `TurnEvent` before 0.2; it goes with that version."""

__all__ = [
    "CLOSE_S",
    "Happened",
    "PermitFunction",
    "Runtime",
    "Session",
    "Streamed",
    "Turn",
    "TurnEvent",
    "allow_nothing",
    "open_runtime",
]
