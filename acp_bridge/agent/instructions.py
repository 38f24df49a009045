"""A project's notes for agents: text for the system prompt, never configuration.

Owns which files are looked for, how much of them is taken, and what is said of those that are left out. A project can
add instructions; it cannot add commands, servers, keys or permissions. Its notes are read by the rules of `read_file`:
what a model could not read without asking is no instruction either, whatever it is called.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import anyio.to_thread

from acp_bridge.errors import ToolError
from acp_bridge.limits import NOTES
from acp_bridge.redaction import Secrets
from acp_bridge.text import escaped
from acp_bridge.tools import LocalFiles, Workspace, accessed, resolved

NAMES = ("AGENTS.md", "CLAUDE.md")
"""The first of these that a root has is taken."""


@dataclass(frozen=True, slots=True)
class Notes:
    """What was found.

    Attributes:
        text: the notes of all roots, each headed by its path and cut at the limit; empty if there are none.
        left_out: in words for a person, each file that was not taken and why.
    """

    text: str = ""
    left_out: tuple[str, ...] = ()


async def project_notes(workspace: Workspace, secrets: Secrets) -> Notes:
    """Return the notes of all roots, without secrets: they are logged, and sent to whoever makes the model."""
    texts: list[str] = []
    left_out: list[str] = []
    for root in workspace.roots:
        for name in NAMES:
            path = root / name
            if not await anyio.to_thread.run_sync(os.path.lexists, path, abandon_on_cancel=True):
                continue
            try:
                text = _cut(secrets.hidden(await _read(path, replace(workspace, cwd=root)))).strip()
            except ToolError as exc:
                left_out.append(f"{escaped(str(path))}: {escaped(str(exc))}")
                continue
            if text:
                texts.append(f"From {escaped(str(path))}:\n\n{text}")
                break
    return Notes("\n\n".join(texts), tuple(left_out))


async def _read(path: Path, workspace: Workspace) -> str:
    """Return a file's text.

    Raises:
        ToolError: it is not to be read without asking, or it cannot be.
    """
    access = accessed("read", await anyio.to_thread.run_sync(resolved, path.name, workspace, abandon_on_cancel=True))
    [target] = access.paths
    if not access.inside:
        raise ToolError(f"it leads to {target}, which lies outside the project")
    if access.protected:
        raise ToolError(f"it leads to {target}, which is read only after asking")
    return (await LocalFiles().look(target)).text or ""


def _cut(text: str) -> str:
    return text if len(text) <= NOTES else text[:NOTES] + "\n[cut here: the notes are longer]"
