"""The agent: prompts in, turns out.

Owns the inbox, the turn and step loop, and the assembly of a prompt. Knows neither the protocol nor a store nor a
provider: it logs to a journal, waits at the policy's barriers, asks a `Model`, runs tools through the pipeline, and
tells a `Frontend`.

Decision: nothing native cancels a loop. Every wait that may be cut short stands in a scope of the turn's
`Cancellation`; the code between the waits always runs, so that the closing events are the loop's own.

Decision: prompts that overlap in one session are queued; a cancel drops the queued ones with the running one.
"""

from acp_bridge.options import AgentOptions as Options

from .agent import Agent, Parts
from .assembly import Assembly, workspace_of
from .equipping import Severity
from .frontend import Frontend
from .inbox import Job, Outcome
from .models import Models
from .open_sessions import Front, NamedServers, OpenSession, OpenSessions, Taken
from .settings import Settings, UnknownOption, UnusableFolder, UnusableRoute, place_of

__all__ = [
    "Agent",
    "Assembly",
    "Front",
    "Frontend",
    "Job",
    "Models",
    "NamedServers",
    "OpenSession",
    "OpenSessions",
    "Options",
    "Outcome",
    "Parts",
    "Settings",
    "Severity",
    "Taken",
    "UnknownOption",
    "UnusableFolder",
    "UnusableRoute",
    "place_of",
    "workspace_of",
]
