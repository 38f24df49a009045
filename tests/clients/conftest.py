"""What every client is given: the installed command, a folder to work in, and an environment with a scripted model."""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.client import clean_environment
from support.script import Answer, hang, pieces, say, use, use_all, written

COMMAND = str(Path(sys.executable).with_name("acp-bridge"))

BOTH = (
    ("update_plan", {"entries": [{"content": "Change the greeting", "status": "in_progress"}]}),
    ("read_file", {"path": "greeting.txt"}),
    ("edit_file", {"path": "greeting.txt", "old_text": "hello", "new_text": "good day"}),
    ("run_command", {"command": "cat greeting.txt > copied.txt; echo copied"}),
)

SCRIPT: tuple[Answer, ...] = (
    use_all(*BOTH, when="change and run", text="I do both."),
    use("run_command", command="touch begun; exec sleep 600", when="sleep"),
    use("ask_user", question="Which colour?", options=["red", "blue"], when="ask me"),
    use("write_file", path="greeting.txt", content="overwritten", when="very long essay"),  # acplint's words
    hang("I begin", when="stream"),
    pieces({"fail": {"kind": "auth", "message": "bad key", "status": 401}}, when="fail now"),
    say("One."),
    say("Two."),  # an answer that only a conversation which has had the first one comes to
    say("Three."),
)


@dataclass(frozen=True)
class Desk:
    """A folder with a file to change, and the environment in which an agent is to be started."""

    folder: Path
    environment: dict[str, str]
    command: tuple[str, ...] = (COMMAND, "serve")

    @property
    def greeting(self) -> str:
        """What is in the file now."""
        return (self.folder / "greeting.txt").read_text()

    @property
    def copied(self) -> bool:
        """Whether the command was run."""
        return (self.folder / "copied.txt").exists()

    @property
    def begun(self) -> bool:
        """Whether the command that never ends has begun."""
        return (self.folder / "begun").exists()

    def command_line(self) -> tuple[str, ...]:
        """Return the agent's command for a client that hands its own environment on."""
        pairs = (f"{name}={value}" for name, value in self.environment.items())
        return ("/usr/bin/env", "-i", *pairs, *self.command)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "greeting.txt").write_text("hello\n")
    script = written(tmp_path / "script.json", *SCRIPT)
    return Desk(folder, clean_environment(tmp_path / "home", f"scripted:{script}"))
