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
class Sandbox:
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
def make_sandbox(scenario: Scenario) -> Generator[Sandbox]:
    """Make the folders of a run; they are removed at its end."""
    run = Path(tempfile.gettempdir()).resolve() / f"acp-{secrets.token_hex(6)}"  # no name that Markdown could read
    run.mkdir(mode=0o700)
    sandbox = Sandbox(run)
    try:
        for folder in (sandbox.home, run / "tmp", sandbox.model):
            folder.mkdir()
        source = scenario.folder / "workspace"
        if source.is_dir():
            shutil.copytree(source, sandbox.workspace, symlinks=True)
        else:
            sandbox.workspace.mkdir()
        for file in sorted((scenario.folder / "model").glob("*.json")):
            text = file.read_text(encoding="utf-8")
            for token, path in sandbox.tokens().items():
                text = text.replace(token, json.dumps(path)[1:-1])
            (sandbox.model / file.name).write_text(text, encoding="utf-8")
        (sandbox.model / "served.jsonl").touch()
        yield sandbox
    finally:
        shutil.rmtree(run, ignore_errors=True)


def environment(sandbox: Sandbox, route: str, settings: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Return the agent's environment: nothing of the surroundings but the way to programs."""
    # no key, no proxy and no configuration of whoever runs the tests: a run must be the same everywhere
    made = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LANG": "C.UTF-8",
        "HOME": str(sandbox.home),
        "TMPDIR": str(sandbox.run / "tmp"),
        "XDG_CONFIG_HOME": str(sandbox.home / "config"),
        "ACP_BRIDGE_HOME": str(sandbox.home / "bridge"),
        "ACP_BRIDGE_LOG": "warning",
    }
    told = dict(settings)
    for token, path in sandbox.tokens().items():
        told = {name: value.replace(token, path) for name, value in told.items()}
    return {**made, **more, **told, "ACP_BRIDGE_MODEL": route}
