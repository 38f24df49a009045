"""A scripted provider over HTTP for tests that drive the real process: it answers each request by what was said so far.

with provider(lambda asked: text("hi")) as server:
    Client(home, environment=environment(server))
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson
from anyio.from_thread import start_blocking_portal

from .dialects import KEY, OpenAIDialect
from .server import Reply, Request, Server, serving, sse

OPENAI = OpenAIDialect()


@dataclass(frozen=True)
class Asked:
    """One request to the model, as the provider reads it."""

    body: dict[str, Any]

    @property
    def system(self) -> str:
        """The instructions."""
        return "\n".join(m["content"] for m in self.body["messages"] if m["role"] == "system")

    @property
    def prompt(self) -> str:
        """What the user said last."""
        return [m for m in self.body["messages"] if m["role"] == "user"][-1]["content"]

    @property
    def turn(self) -> list[dict[str, Any]]:
        """The messages behind the user's last one."""
        messages = self.body["messages"]
        last = max(i for i, m in enumerate(messages) if m["role"] == "user")
        return messages[last + 1 :]

    @property
    def step(self) -> int:
        """How many answers the model has given in this turn."""
        return sum(m["role"] == "assistant" for m in self.turn)

    @property
    def results(self) -> list[str]:
        """The results of the last answer's tool requests, in their order."""
        last = max((i for i, m in enumerate(self.turn) if m["role"] == "assistant"), default=-1)
        return [m["content"] for m in self.turn[last + 1 :] if m["role"] == "tool"]


Payloads: TypeAlias = Sequence[Any]
Answering: TypeAlias = Callable[[Asked], Payloads | Reply]


def text(said: str) -> Payloads:
    """Return an answer of text."""
    return [*OPENAI.start(), *OPENAI.text(said), *OPENAI.end()]


def calls(*wanted: tuple[str, dict[str, Any]]) -> Payloads:
    """Return an answer that asks for tools."""
    pieces = (OPENAI.tool(i, name, orjson.dumps(args).decode()) for i, (name, args) in enumerate(wanted))
    return [*OPENAI.start(), *(part for piece in pieces for part in piece), *OPENAI.end("tools")]


@contextmanager
def provider(answering: Answering) -> Generator[Server]:
    """Serve in a thread of its own. An answer is payloads, or a whole reply in bytes."""

    def reply(request: Request) -> Reply:
        answer = answering(Asked(request.json))
        return answer if isinstance(answer[0], bytes) else sse(*answer)

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(serving(reply)) as server:
        yield server


def environment(server: Server, **more: str) -> dict[str, str]:
    """Return what leads an agent to the provider."""
    return {
        "ACP_BRIDGE_MODEL": "openai:gpt-4o",
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "OPENAI_API_KEY": KEY,
        **more,
    }


def asked_of(server: Server) -> list[Asked]:
    """Return every request so far."""
    return [Asked(request.json) for request in server.requests]
