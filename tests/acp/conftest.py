"""One agent for a module's checks; each test has sessions of its own in it."""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from support.client import Client
from support.script import AWKWARD, fail, hang, pieces, say, use, use_all, written

ANSWERS = (
    say("Hello, you.", when="say hello"),
    say(AWKWARD, when="say something awkward"),
    pieces({"thought": "Hm. "}, {"thought": "So."}, {"text": "One, "}, {"text": "two."}, when="think first"),
    hang("I begin", " and never end", when="never end"),
    hang(when="say nothing at all"),
    use("write_file", path="made.txt", content="made\n", when="make a file"),
    use("edit_file", path="kept.txt", old_text="old", new_text="new", when="edit the file"),
    use("read_file", path="kept.txt", when="read the file"),
    use("run_command", command="pwd", when="where are you"),
    use("run_command", command="touch ran", when="run a command"),
    use("run_command", command=r"printf '\377\376 \360\237\230\200 \000 end'", when="print odd bytes"),
    use("no_such_tool", when="use what is not there"),
    use_all(
        ("read_file", {"path": "kept.txt"}),
        ("write_file", {"path": "made.txt", "content": "made\n"}),
        ("run_command", {"command": "touch ran"}),
        when="do three things",
        text="Three things.",
    ),
    fail("bad_request", message="the provider said no", when="fail for good"),
    fail("auth", message="the key was refused", when="fail to sign in"),
)


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("script") / "script.json", *ANSWERS)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, script: Path) -> Generator[Client]:
    with Client(tmp_path_factory.mktemp("home"), script) as client:
        client.initialize()
        yield client


@pytest.fixture
def agent(shared: Client) -> Generator[Client]:
    """The module's agent, which has shaken hands with a client that can do nothing special."""
    yield shared
    shared.permit = None
    shared.check()


@pytest.fixture
def session(agent: Client, tmp_path: Path) -> str:
    """A session of the test's own, in its own folder, which holds `kept.txt`."""
    (tmp_path / "kept.txt").write_text("old\n")
    return agent.new_session(tmp_path)


Start = Callable[..., Client]


@pytest.fixture
def start(tmp_path: Path, script: Path) -> Generator[Start]:
    """Starts agents that end with the test; `home` names a folder, so that a second one can find the first's work."""
    started: list[Client] = []

    def starting(*, home: str = "home", script: Path | str = script, **more: Any) -> Client:
        client = Client(tmp_path / home, script, **more)
        started.append(client)
        return client

    yield starting
    for client in started:
        client.__exit__(None, None, None)
