"""Where a scenario is played: a folder made for the run and removed after it, and an environment made from nothing.

Owns what the names `<workspace>`, `<home>` and `<run>` stand for. Starts nothing.
"""

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .scenario import Scenario


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of one run."""

    run: Path

    @property
    def workspace(self) -> Path:
        """Where the session works."""
        return self.run / "workspace"

    @property
    def home(self) -> Path:
        """The agent's home folder."""
        return self.run / "home"

    @property
    def model(self) -> Path:
        """The recording that the agent's model plays."""
        return self.run / "model"

    @property
    def sessions(self) -> Path:
        """Where the logs lie."""
        return self.home / "bridge" / "sessions"

    def tokens(self) -> dict[str, str]:
        """Return what the names in a scenario stand for."""
        return {"<workspace>": str(self.workspace), "<home>": str(self.home), "<run>": str(self.run)}


@contextmanager
def made_place(scenario: Scenario) -> Generator[Place]:
    """Make the folders of a run; they are removed at its end."""
    run = Path(tempfile.gettempdir()).resolve() / f"acp-{secrets.token_hex(6)}"  # no name that Markdown could read
    run.mkdir(mode=0o700)
    place = Place(run)
    try:
        for folder in (place.home, run / "tmp", place.model):
            folder.mkdir()
        source = scenario.folder / "workspace"
        if source.is_dir():
            shutil.copytree(source, place.workspace, symlinks=True)
        else:
            place.workspace.mkdir()
        for file in sorted((scenario.folder / "model").glob("*.json")):
            text = file.read_text(encoding="utf-8")
            for token, path in place.tokens().items():
                text = text.replace(token, json.dumps(path)[1:-1])
            (place.model / file.name).write_text(text, encoding="utf-8")
        (place.model / "served.jsonl").touch()
        yield place
    finally:
        shutil.rmtree(run, ignore_errors=True)


def environment(place: Place, route: str, settings: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Return the agent's environment: nothing of the surroundings but the way to programs."""
    made = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LANG": "C.UTF-8",
        "HOME": str(place.home),
        "TMPDIR": str(place.run / "tmp"),
        "XDG_CONFIG_HOME": str(place.home / "config"),
        "ACP_BRIDGE_HOME": str(place.home / "bridge"),
        "ACP_BRIDGE_LOG": "warning",
    }
    told = dict(settings)
    for token, path in place.tokens().items():
        told = {name: value.replace(token, path) for name, value in told.items()}
    return {**made, **more, **told, "ACP_BRIDGE_MODEL": route}
