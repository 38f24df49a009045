"""The stored sessions of this configuration, and which one the beginning of an id means.

Owns where they are. Reads names and nothing else; what is in a session, the store says.
"""

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from acp_bridge.composition import home_of
from acp_bridge.config import load
from acp_bridge.errors import ConfigError, SessionNotFound
from acp_bridge.storage import JsonlStore

_NAMED = 4
"""How many ids an error about an unclear one names."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_SESSIONS = ("tmp-", "trash-")


@dataclass(frozen=True, slots=True)
class SessionFolder:
    """A store and the folder that it keeps sessions in."""

    store: JsonlStore
    root: Path

    def ids(self) -> list[str]:
        """Return every session's id, readable or not."""
        try:
            with os.scandir(self.root) as entries:
                names = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []
        return sorted(name for name in names if _ID.fullmatch(name) and not name.startswith(_NOT_SESSIONS))

    def find(self, beginning: str) -> str:
        """Return the one id that begins so.

        Raises:
            SessionNotFound: none does, or several do.
        """
        ids = self.ids()
        if beginning in ids:  # even if others begin so too
            return beginning
        found = [session_id for session_id in ids if beginning and session_id.startswith(beginning)]
        if len(found) == 1:
            return found[0]
        if not found:
            raise SessionNotFound(
                f"no session {beginning[:64]!r} in {self.root}; `acp-bridge sessions list --all` shows those that are",
                session_id=beginning[:64],
            )
        named = ", ".join(found[:_NAMED]) + (" …" if len(found) > _NAMED else "")
        raise SessionNotFound(
            f"{len(found)} sessions begin with {beginning!r}: {named}; write more of the id", session_id=beginning
        )

    def images(self, session_id: str, names: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes of content files by name. One that is lost, or is not what its name says, is left out."""
        found: dict[str, bytes] = {}
        for name in names:
            try:
                data = (self.root / session_id / Path(name).name).read_bytes()
            except OSError:
                continue
            if hashlib.sha256(data).hexdigest() == name:  # else the page would show what the session never held
                found[name] = data
        return found


def open_folder() -> SessionFolder:
    """Return the sessions of this configuration.

    Raises:
        ConfigError: it is wrong, or keeps sessions in a way that these commands do not know.
    """
    config = load(os.environ)
    if config.storage != "jsonl":
        raise ConfigError(
            f"storage is {config.storage!r}; these commands look after sessions of the storage 'jsonl' only: "
            "set ACP_BRIDGE_STORAGE=jsonl to see those"
        )
    root = home_of(config) / "sessions"
    return SessionFolder(JsonlStore(root), root)
