"""Modes and config options as a client is offered them.

Pure. Modes are a config option inside; the protocol's older `modes` are derived from it, and both are kept in step.
"""

from acp_bridge.acp import outbound
from acp_bridge.acp.outbound import Json
from acp_bridge.agent import Agent
from acp_bridge.tools import MODES

_THINKING = {"default": "As suits the model", "off": "No thinking before an answer"}


def config_options(agent: Agent, routes: tuple[str, ...]) -> list[Json]:
    """Return every option with its value now."""
    current = agent.route
    offered = tuple(dict.fromkeys((*routes, current))) if current else routes
    options = [
        outbound.select_option(
            "mode",
            name="Mode",
            category="mode",
            current=agent.mode,
            values=[(mode, name, description) for mode, (name, description) in MODES.items()],
        )
    ]
    if offered:
        options.append(
            outbound.select_option(
                "model",
                name="Model",
                category="model",
                current=current or offered[0],
                values=[(route, route, None) for route in offered],
            )
        )
    if levels := agent.thought_levels:
        options.append(
            outbound.select_option(
                "thought_level",
                name="Thinking",
                category="thought_level",
                current=agent.thought_level,
                values=[(level, level.capitalize(), _THINKING.get(level)) for level in levels],
            )
        )
    return options


def session_state(agent: Agent, routes: tuple[str, ...]) -> Json:
    """Return the modes and options that new, load and resume answer with."""
    return {"modes": outbound.modes(agent.mode, MODES), "configOptions": config_options(agent, routes)}
