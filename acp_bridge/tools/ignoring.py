"""What `.gitignore` leaves out of a search: looked into when it is named, else said to be left out."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio.to_thread

from acp_bridge.errors import ToolError
from acp_bridge.text import escaped

from .confirming import confirm_names
from .ripgrep import ripgrep
from .tool import Call, Workspace

_LOOK_S = 2.0
"""How long is looked for what was left out, when nothing else was found."""
_NAMED = 5


async def is_ignored(path: Path, workspace: Workspace) -> bool:
    """Whether `.gitignore` leaves out all of a folder: who names it means what is in it."""
    files = ("--files", "--null")
    return not (await ripgrep(files, path, workspace, only=None, max_bytes=1)).output


async def describe_ignored(nothing: str, options: Sequence[str], path: Path, call: Call, only: str | None) -> str:
    """Return in words that nothing was found, and which ignored files would have been.

    Args:
        nothing: what to say.
        options: have `rg` list files, with `--null`.
        path: resolved.
        call: for its workspace.
        only: a glob; other files are left out.
    """
    try:
        found = await ripgrep(options, path, call.workspace, only=only, max_bytes=4000, ignored=True, limit_s=_LOOK_S)
    except ToolError:
        return f"[{nothing}; what .gitignore names was left out: give such a file or folder as path to include it]"
    confirm = partial(confirm_names, path, call.workspace, found.output.split(b"\0")[:-1])
    there = await anyio.to_thread.run_sync(confirm, abandon_on_cancel=True)
    names = [escaped(os.fsdecode(name).removeprefix("./")) for name in there]
    if not names:
        return f"[{nothing}]"
    more = ", …" if len(names) > _NAMED else ""
    return (
        f"[{nothing}, but files that .gitignore names were left out: {', '.join(names[:_NAMED])}{more}. "
        "Give such a file, or an ignored folder, as path to include it]"
    )
