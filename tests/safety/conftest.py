"""Real agents that end with their test, and the one turn that most of these tests are about."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from support import log
from support.client import Client, Json, Permit, selected
from support.script import Answer, written

Start: TypeAlias = Callable[..., Client]


@dataclass
class Asking:
    """Answers every permission question with `kind`, and keeps what was asked."""

    kind: str
    before: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.asked: list[Json] = []

    def __call__(self, params: Json) -> Json:
        self.asked.append(params)
        self.before()
        return {"result": selected(params, self.kind)}


@dataclass
class Turn:
    """What a turn in one session left."""

    client: Client
    session: str
    reason: str

    def results(self) -> list[dict[str, Any]]:
        """Return the results in the log."""
        return [event["data"] for event in log.events(self.client.home, self.session, "tool/result")]

    def told(self) -> list[str]:
        """Return what the model was told of each call, in the order of asking; parallel calls settle in any."""
        results = sorted(self.results(), key=lambda result: [int(part) for part in result["callId"].split("_")[1:]])
        return ["".join(b.get("text", "") for b in result["content"]) for result in results]

    def bodies(self) -> int:
        """Return how many tool bodies were entered."""
        return log.kinds(self.client.home, self.session).count("tool/call")


TakeTurn: TypeAlias = Callable[..., Turn]


@pytest.fixture
def start(tmp_path: Path) -> Generator[Start]:
    """Starts agents, all with the same home."""
    started: list[Client] = []

    def starting(script: Path | str = "", **more: Any) -> Client:
        client = Client(tmp_path / "home", script, **more)
        started.append(client)
        return client

    yield starting
    for client in started:
        client.__exit__(None, None, None)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def take_turn(start: Start, tmp_path: Path, project: Path) -> TakeTurn:
    """Has a scripted model give `answers` in one turn in the project, in a process of its own."""

    def taking(*answers: Answer, mode: str = "ask", permit: Permit | None = None, **more: Any) -> Turn:
        environment = {"ACP_BRIDGE_MODE": mode, **more.pop("environment", {})}
        client = start(written(tmp_path / "script.json", *answers), permit=permit, environment=environment, **more)
        client.initialize()
        session = client.new_session(project)
        return Turn(client, session, client.prompted(session, "go", timeout_s=30))

    return taking
