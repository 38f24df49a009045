"""Real processes that end with their test."""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from support.client import Client

Start = Callable[..., Client]


@pytest.fixture
def start(tmp_path: Path) -> Generator[Start]:
    """Starts agents that end with the test, all with the same home, so that one can find another's work."""
    started: list[Client] = []

    def starting(script: Path | str, **more: Any) -> Client:
        client = Client(tmp_path / "home", script, **more)
        started.append(client)
        return client

    yield starting
    for client in started:
        client.__exit__(None, None, None)
