"""The agents of one front, be it a bridge or a program: each in a task of its own, stopped all at once.

Owns their tasks. Knows no session's place and nobody who watches.
"""

import logging

from anyio.abc import TaskGroup

from acp_bridge.effects import no_stray_cancellation

from .agent import Agent, CancelCause

logger = logging.getLogger(__name__)


class Agents:
    """Runs agents in `tasks`; one that fails is logged and is not another's trouble."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._agents: list[Agent] = []
        self._stopping: CancelCause | None = None

    def start(self, agent: Agent) -> None:
        """Run an agent; one that comes after `stop` is stopped at once."""
        self._agents = [known for known in self._agents if not known.is_quiet]
        self._agents.append(agent)
        if self._stopping is not None:
            agent.stop(self._stopping)
        self._tasks.start_soon(self._run, agent)

    async def _run(self, agent: Agent) -> None:
        try:
            async with no_stray_cancellation():  # else it would end the agents of all other sessions
                await agent.run()
        except Exception:
            logger.exception("the agent of session %s failed", agent.journal.session_id)

    @property
    def busy(self) -> bool:
        """Whether a turn is under way in any of them."""
        return any(agent.busy for agent in self._agents)

    def stop(self, cause: CancelCause) -> None:
        """Stop all of them, at once; those that come later too."""
        self._stopping = cause
        for agent in self._agents:
            agent.stop(cause)

    async def quiet(self) -> None:
        """Wait until every one has closed its turn and come to its end, those that came meanwhile too."""
        while late := [agent for agent in self._agents if not agent.is_quiet]:
            await late[0].quiet()

    def late(self) -> list[str]:
        """Return the session ids of those that have not come to their end."""
        return [agent.journal.session_id for agent in self._agents if not agent.is_quiet]

    def abandon(self) -> None:
        """End what did not come to quiet in time."""
        for agent in self._agents:
            agent.abandon()
