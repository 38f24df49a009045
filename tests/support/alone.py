"""An agent in the test's own process, in front of a scripted model: what the client side sees, without a client."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from acp_bridge.config import load
from acp_bridge.content import Text
from acp_bridge.headless import Session, allow_nothing, open_runtime
from acp_bridge.tools import Choice, Question

from .script import Answer, written


@dataclass
class Alone:
    """A session, and what can be known of it."""

    session: Session
    home: Path
    asked: list[Question]

    async def prompted(self, text: str = "go") -> Any:
        """Take one turn and return its outcome."""
        with anyio.fail_after(30):
            async with self.session.prompt(text) as turn:
                async for _happened in turn:
                    pass
        return turn.outcome

    def results(self) -> list[Any]:
        """Return the tool results in the log."""
        return self._events("tool/result")

    def requests(self) -> list[Any]:
        """Return the tool requests as they were logged."""
        blocks = [block for event in self._events("assistant/message") for block in event.content]
        return [block for block in blocks if block.type == "tool_request"]

    def calls(self) -> list[Any]:
        """Return the calls whose bodies were entered."""
        return self._events("tool/call")

    def told(self) -> list[str]:
        """Return what the model was told of each call."""
        return ["".join(b.text for b in result.content if isinstance(b, Text)) for result in self.results()]

    def kept(self) -> str:
        """Return all that lies on the disk below the program's folder."""
        files = [path for path in self.home.rglob("*") if path.is_file()]
        return "\n".join(path.read_bytes().decode(errors="replace") for path in files)

    def _events(self, kind: str) -> list[Any]:
        records = self.session._agent.journal.log.records
        return [record.event for record in records if record.event.type == kind]


@asynccontextmanager
async def alone(
    tmp_path: Path, *answers: Answer, environ: Mapping[str, str] | None = None, allow: bool = True, mode: str = "full"
) -> AsyncGenerator[Alone]:
    """Open a session in `tmp_path/project`, whose model gives `answers`; questions are answered by `allow`."""
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir(exist_ok=True)
    script = written(tmp_path / "script.json", *answers)
    ours = {"ACP_BRIDGE_HOME": str(home), "ACP_BRIDGE_MODEL": f"scripted:{script}", "ACP_BRIDGE_MODE": mode}
    asked: list[Question] = []

    async def permit(question: Question) -> Choice:
        asked.append(question)
        return Choice("allow_once") if allow else await allow_nothing(question)

    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **ours, **(environ or {})}
    async with open_runtime(load(variables)) as runtime:
        session = await runtime.new_session(str(project), permit=permit)
        yield Alone(session, home, asked)
        await session.close()
