"""A workspace on the disk, calls of tools in it, and commands whose leftovers are ended with the test."""

import os
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.content import Text
from acp_bridge.tools import (
    Call,
    Ended,
    Files,
    GuardedCommands,
    KnownFiles,
    LocalFiles,
    Tool,
    ToolOutput,
    Workspace,
    builtin_tools,
)
from acp_bridge.tools.guard import NOTHING_MORE
from acp_bridge.tools.tool import UserAnswer


class NoCommands:
    """Stands where no command is to run."""

    async def run(
        self,
        command: str,
        *,
        cwd: Path,
        timeout_s: float,
        name: str,
        progress: Callable[[str], None],
        env: Mapping[str, str] = NOTHING_MORE,
    ) -> Ended:
        raise AssertionError(f"{command!r} ran")

    async def aclose(self) -> None:
        """There is nothing to close."""


async def nobody(question: str, options: tuple[str, ...]) -> UserAnswer:
    """Stands where no question is to be asked."""
    raise AssertionError(f"{question!r} was asked")


@dataclass
class Desk:
    """A workspace with everything a tool gets; results' digests are remembered, as a session does."""

    workspace: Workspace
    files: Files = field(default_factory=LocalFiles)
    seen: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def root(self) -> Path:
        return self.workspace.cwd

    def tool(self, name: str) -> Tool:
        return next(tool for tool in builtin_tools() if tool.spec.name == name)

    async def use(self, name: str, *, commands: Any = None, call_id: str = "c1", **arguments: Any) -> ToolOutput:
        """Check, have permission for just what was asked, run."""
        tool = self.tool(name)
        checked = tool.check(arguments)
        access = tool.access(checked, self.workspace)
        call = Call(
            call_id=call_id,
            workspace=self.workspace,
            files=KnownFiles(self.files, self.seen, since_ms=0),
            commands=commands or NoCommands(),
            seen=self.seen,
            progress=lambda output: None,
            ask=nobody,
            permitted=access.paths,
        )
        output = await tool.run(checked, call)
        self.seen.update(output.digests)
        return output

    async def text(self, name: str, **arguments: Any) -> str:
        output = await self.use(name, **arguments)
        return "".join(block.text for block in output.content if isinstance(block, Text))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    root = (tmp_path / "project").resolve()
    root.mkdir()
    (tmp_path / "outside").mkdir()
    spill = tmp_path / "sessions" / "s1"
    return Desk(Workspace(cwd=root, roots=(root,), protected=(tmp_path / "sessions",), spill=spill))


@dataclass(frozen=True)
class Marked:
    """Processes known by a variable in their environment, which they hand on to all that they start."""

    token: str

    @property
    def env(self) -> Mapping[str, str]:
        return {"PATH": os.environ["PATH"], "MARK": self.token}

    def pids(self) -> list[int]:
        wanted = f"MARK={self.token}".encode()
        found: list[int] = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                try:
                    if wanted in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                        found.append(int(name))
                except OSError:
                    continue
        return found

    def all_gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not self.pids():
                return True
            time.sleep(0.01)
        return not self.pids()


@pytest.fixture
def marked() -> Marked:
    return Marked(secrets.token_hex(8))


@pytest.fixture
async def commands(marked: Marked, tmp_path: Path) -> AsyncGenerator[GuardedCommands]:
    made = GuardedCommands(marked.env, ("MARK",), spill=tmp_path / "sessions" / "s1", running=tmp_path / "s1.running")
    try:
        yield made
    finally:
        await made.aclose()
        assert marked.all_gone_within(2), "a test left processes behind"
