"""A project's notes for agents: text for the system prompt, never configuration.

Owns which files are looked for and how much of them is taken. A project can add instructions; it cannot add commands,
servers, keys or permissions.
"""

from pathlib import Path

import anyio.to_thread

from acp_bridge.limits import NOTES
from acp_bridge.text import mended_text

NAMES = ("AGENTS.md", "CLAUDE.md")
"""The first of these that a root has is taken."""


async def project_instructions(roots: tuple[Path, ...]) -> str:
    """Return the notes of all roots, each headed by its path and cut at the limit; empty if there are none."""
    return await anyio.to_thread.run_sync(_read_all, roots, abandon_on_cancel=True)


def _read_all(roots: tuple[Path, ...]) -> str:
    found: list[str] = []
    for root in roots:
        for name in NAMES:
            text = _read(root / name)
            if text:
                found.append(f"From {root / name}:\n\n{text}")
                break
    return "\n\n".join(found)


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            data = file.read(NOTES * 4)
    except OSError:
        return ""
    text = mended_text(data.decode(errors="replace")).strip()
    return text if len(text) <= NOTES else text[:NOTES] + "\n[cut here: the notes are longer]"
