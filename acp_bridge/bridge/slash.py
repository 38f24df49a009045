"""Slash commands: prompts that the bridge answers itself, without a model.

Owns their names and what they say. They come as ordinary prompt text (protocol: slash commands).
"""

from acp_bridge.agent import Agent
from acp_bridge.content import PromptBlock, Text
from acp_bridge.text import escaped

COMMANDS = (
    ("continue", "Go on with a turn that was interrupted by the program's end", None),
    ("permissions", "List what was allowed for good in this session, or take one back", "revoke ID"),
)
"""Name, description, hint for what follows."""


def slash_command(content: tuple[PromptBlock, ...]) -> tuple[str, str] | None:
    """Return the command's name and what follows it, if the prompt is one of ours and nothing else."""
    match content:
        case (Text(text=text),) if text.startswith("/"):
            name, _, rest = text[1:].strip().partition(" ")
            return (name, rest.strip()) if any(name == known for known, _, _ in COMMANDS) else None
        case _:
            return None


async def permissions(agent: Agent, argument: str) -> str:
    """Return the lasting grants in words, or take back the one that `revoke ID` names.

    Raises:
        BarrierFailed: it was taken back, but that could not be saved.
    """
    grants = agent.journal.log.state.grants
    word, _, grant_id = argument.partition(" ")
    match word, grant_id.strip():
        case "", _:
            if not grants:
                return "Nothing is allowed for good in this session."
            lines = [
                f"- `{grant_id}`: {grant['tool']}, {escaped(grant['scope'])}" for grant_id, grant in grants.items()
            ]
            return "\n".join(["Allowed for good in this session:", *lines, "", "Take one back: /permissions revoke ID"])
        case "revoke", known if known in grants:
            await agent.revoke(known)
            return f"Taken back: `{known}`."
        case "revoke", unknown:
            return f"There is no permission {unknown!r}; /permissions lists them."
        case _:
            return "Say /permissions, or /permissions revoke ID."
