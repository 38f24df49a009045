"""Parts of somebody else's, sound unless a test breaks them: a tool, a model, a store, observers."""

import os
from collections.abc import AsyncGenerator, Callable
from typing import Any

from acp_bridge.config import Config, load
from acp_bridge.content import JsonObject, Text
from acp_bridge.llm import Delta, Finished, TextDelta, ToolDelta
from acp_bridge.session import ModelRequest, Record
from acp_bridge.tools import Access, Call, Presentation, ToolOutput, ToolSpec, Workspace


def config(**settings: Any) -> Config:
    return load(
        {"ACP_BRIDGE_CONFIG": os.devnull, "PATH": os.environ["PATH"]},
        {"model": "demo", "storage": "memory", **settings},
    )


def spec(name: str = "greet", **more: Any) -> ToolSpec:
    known: dict[str, Any] = {
        "name": name,
        "description": "Greet somebody.",
        "parameters": {"type": "object", "properties": {"name": {"type": "string"}}},
        "effect": "idempotent",
        "kind": "other",
    }
    return ToolSpec(**{**known, **more})


class Greet:
    """A tool; `broken` replaces what a method returns or raises."""

    def __init__(self, broken: dict[str, Callable[[], Any]] | None = None, **of_spec: Any) -> None:
        self._broken = broken or {}
        self.spec = spec(**of_spec)
        self.ran = 0

    def check(self, arguments: JsonObject) -> JsonObject:
        return self._or("check", arguments)

    def present(self, arguments: JsonObject, workspace: Workspace) -> Presentation:
        return self._or("present", Presentation(title="Greet", kind="other"))

    def access(self, arguments: JsonObject, workspace: Workspace) -> Access:
        return self._or("access", Access(kind="none"))

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        self.ran += 1
        return self._or("run", ToolOutput(content=(Text(text="Greeted."),)))

    def _or(self, method: str, sound: Any) -> Any:
        return self._broken[method]() if method in self._broken else sound


class Asking:
    """A model that asks for one tool, then remembers what it was told and says so."""

    context_window = None
    takes_images = False

    def __init__(self, tool: str = "greet", arguments: str = "{}") -> None:
        self._tool, self._arguments = tool, arguments
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.requests.append(request)
        if len(self.requests) == 1:
            yield ToolDelta(0, self._tool, self._arguments)
            yield Finished("tools")
        else:
            yield TextDelta("Done.")
            yield Finished("end")

    async def aclose(self) -> None:
        pass


def raises(error: BaseException) -> Callable[[], Any]:
    def broken() -> Any:
        raise error

    return broken


class Audit:
    """Gives each session an observer that does what a test says."""

    def __init__(self, does: Callable[[], Any] = lambda: None) -> None:
        self.seen: list[str] = []
        self._does = does

    def observe(self, session_id: str) -> Any:
        return self

    def recorded(self, record: Record) -> None:
        self.seen.append(record.event.type)
        self._does()

    def streamed(self, message_id: str, kind: str, text: str) -> None:
        self._does()

    def durable(self, seq: int) -> None:
        self._does()
