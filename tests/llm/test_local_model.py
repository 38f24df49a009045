"""A model file served by a child process: what is refused, and that the child never outlives its parent.

A stand-in for the native library shows what happens to the process; `test_local_server` runs a real model.
"""

import json
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.client import Client
from support.processes import alive, eventually, gone

from acp_bridge.content import Text
from acp_bridge.errors import ConfigError
from acp_bridge.llm import Delta, Failed, Finished, Model, Options, Route, TextDelta, open_model, parse_route
from acp_bridge.llm.options import options_from
from acp_bridge.session import FromUser, ModelRequest

pytestmark = pytest.mark.slow


LIBRARY = Path(__file__).with_name("fake_library")
REQUEST = ModelRequest(route="x", system="", messages=(FromUser((Text(text="hi"),)),))


@pytest.fixture(autouse=True)
def with_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(LIBRARY))


def model_file(folder: Path, behaviour: str) -> Path:
    """Return a "model" that notes the facts of its process."""
    path = folder / "model.gguf"
    path.write_text(f"GGUF {behaviour}\n{folder / 'facts'}\n")
    return path


def facts(folder: Path) -> dict[str, Any]:
    path = folder / "facts"
    eventually(path.exists, "the facts of the model's process")
    return json.loads(path.read_text())


@asynccontextmanager
async def opened(folder: Path, behaviour: str = "loads", **options: Any) -> AsyncGenerator[Model]:
    environ = {"PYTHONPATH": str(LIBRARY), **options.pop("environ", {})}
    model = open_model(Route("local", str(model_file(folder, behaviour))), Options(local_environ=environ, **options))
    try:
        yield model
    finally:
        with anyio.fail_after(5, shield=True):
            await model.aclose()


async def read(model: Model) -> list[Delta]:
    with anyio.fail_after(10):
        async with aclosing(model.stream(REQUEST)) as stream:
            return [delta async for delta in stream]


def failure_of(deltas: list[Delta]) -> Failed:
    assert isinstance(deltas[-1], Failed)
    return deltas[-1]


# --- what is refused when the route is opened ---


def test_a_route_to_a_file_may_have_colons_and_must_have_a_name() -> None:
    assert parse_route("local:/a/b:c.gguf") == Route("local", "/a/b:c.gguf")
    with pytest.raises(ConfigError, match=r"local:model\.gguf"):
        parse_route("local:")


def test_a_missing_file_is_named_before_anything_is_started(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no model file '.*gone\.gguf'"):
        open_model(f"local:{tmp_path}/gone.gguf")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_text("PK")
    with pytest.raises(ConfigError, match="GGUF"):
        open_model(f"local:{tmp_path}/x.gguf")
    with pytest.raises(ConfigError, match="cannot be read"):
        open_model(f"local:{tmp_path}")


def test_a_missing_extra_is_named_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'acp-stdio-bridge\[local\]'"):
        open_model(f"local:{model_file(tmp_path, 'loads')}")


def test_the_process_of_a_model_is_given_no_key() -> None:
    environ = {"PATH": "/bin", "OPENAI_API_KEY": "sk-1", "GGML_VK_VISIBLE_DEVICES": "0", "AWS_SECRET_ACCESS_KEY": "x"}
    assert options_from(environ).local_environ == {"PATH": "/bin", "GGML_VK_VISIBLE_DEVICES": "0"}


# --- while it serves ---


async def test_the_first_request_starts_it_and_the_next_finds_it(tmp_path: Path) -> None:
    async with opened(tmp_path, context_window=100_000) as model:
        assert not (tmp_path / "facts").exists()
        assert await read(model) == [TextDelta("Hello"), Finished("end")]
        first = facts(tmp_path)
        assert await read(model) == [TextDelta("Hello"), Finished("end")]
        assert facts(tmp_path) == first
        assert model.context_window == 8192  # what the model can, not what was asked for
        assert not model.takes_images
    gone([first["pid"]], within_s=2)


async def test_what_the_library_prints_is_not_taken_for_its_address(tmp_path: Path) -> None:
    async with opened(tmp_path, "noisy") as model:
        assert (await read(model))[-1] == Finished("end")


async def test_neither_arguments_nor_environment_hold_the_key_of_the_server(tmp_path: Path) -> None:
    """Who can read other processes' arguments, or open a page in a browser, cannot use the server."""
    async with opened(tmp_path) as model:
        await read(model)
        seen = facts(tmp_path)
        assert set(seen["env"]) - {"LC_CTYPE"} == {"PYTHONPATH"}
        key = model._child.key  # pyright: ignore[reportAttributeAccessIssue]
        assert key not in json.dumps(seen)


async def test_a_model_that_cannot_be_loaded_is_a_failure_with_the_librarys_words(tmp_path: Path) -> None:
    async with opened(tmp_path, "broken") as model:
        failed = failure_of(await read(model))
        assert not failed.retryable
        assert "unknown architecture 'odd'" in failed.failure.message
        assert failed.failure.kind == "unavailable"


async def test_a_crash_in_an_answer_says_so_and_the_next_request_starts_anew(tmp_path: Path) -> None:
    async with opened(tmp_path, "crashes") as model:
        failed = failure_of(await read(model))
        assert failed.retryable
        assert "SIGABRT" in failed.failure.message
        first = facts(tmp_path)["pid"]
        (tmp_path / "facts").unlink()
        model_file(tmp_path, "loads")
        assert (await read(model))[-1] == Finished("end")
        assert facts(tmp_path)["pid"] != first


async def test_a_cancel_while_it_loads_is_heeded_at_once_and_the_loading_goes_on(tmp_path: Path) -> None:
    async with opened(tmp_path, "stuck") as model:
        for _ in range(2):
            with anyio.move_on_after(0.3) as scope:
                await read(model)
            assert scope.cancelled_caught
        stuck = facts(tmp_path)["pid"]
        assert alive(stuck)
    gone([stuck], within_s=3)


async def test_a_cancel_in_an_answer_leaves_the_server_to_the_next(tmp_path: Path) -> None:
    async with opened(tmp_path, "endless") as model:
        for _ in range(2):
            with anyio.fail_after(5):
                async with aclosing(model.stream(REQUEST)) as stream:
                    async for delta in stream:
                        assert delta == TextDelta("Hello")
                        break
        assert alive(facts(tmp_path)["pid"])


@pytest.mark.parametrize("behaviour", ["loads", "stuck"])
def test_it_ends_with_its_parent_also_in_a_call_that_never_returns(tmp_path: Path, behaviour: str) -> None:
    """Durable sessions, 6: nobody is left behind, also after SIGKILL."""
    path = model_file(tmp_path, behaviour)
    script = tmp_path / "parent.py"
    script.write_text(
        "import anyio, sys\n"
        "from acp_bridge.llm.local_process import LocalProcess\n"
        "from pathlib import Path\n"
        "async def main():\n"
        f"    child = LocalProcess(Path({str(path)!r}), 512, {{'PYTHONPATH': {str(LIBRARY)!r}}})\n"
        "    await child.url()\n"
        "    await anyio.sleep(60)\n"
        "anyio.run(main)\n"
    )
    with subprocess.Popen([sys.executable, str(script)]) as parent:
        pid = facts(tmp_path)["pid"]
        assert alive(pid)
        parent.kill()
    gone([pid], within_s=3)


# --- behind the whole agent ---


def agent(tmp_path: Path, file: Path) -> Client:
    project = tmp_path / "project"
    project.mkdir()
    environment = {"ACP_BRIDGE_MODEL": f"local:{file}", "PYTHONPATH": str(LIBRARY)}
    return Client(tmp_path / "home", environment=environment)


@pytest.mark.parametrize("ending", ["end of input", "SIGKILL", "SIGTERM"])
def test_the_models_process_ends_with_the_agent(tmp_path: Path, ending: str) -> None:
    """Durable sessions, 6: children are ended with the runtime, and also after SIGKILL of the agent's group."""
    with agent(tmp_path, model_file(tmp_path, "loads")) as client:
        client.initialize()
        session = client.new_session(tmp_path / "project")
        assert client.prompted(session, "hi") == "end_turn"
        pid = facts(tmp_path)["pid"]
        assert alive(pid)
        match ending:
            case "SIGKILL":
                client.kill()
            case "SIGTERM":
                client.signal(signal.SIGTERM)
                assert client.wait() == 128 + signal.SIGTERM
            case _:
                client.close_stdin()
                assert client.wait() == 0
        gone([pid], within_s=3)


def test_a_client_is_told_which_file_is_missing_when_it_opens_a_session(tmp_path: Path) -> None:
    with agent(tmp_path, tmp_path / "gone.gguf") as client:
        client.initialize()
        failure = client.refused("session/new", {"cwd": str(tmp_path / "project"), "mcpServers": []})
        assert "gone.gguf" in failure.data["details"]


def test_a_cancel_while_the_model_loads_is_answered_at_once(tmp_path: Path) -> None:
    with agent(tmp_path, model_file(tmp_path, "stuck")) as client:
        client.initialize()
        session = client.new_session(tmp_path / "project")
        prompt = client.prompt(session, "hi")
        pid = facts(tmp_path)["pid"]
        client.cancel(session)
        assert client.result(prompt, timeout_s=2) == {"stopReason": "cancelled"}
    gone([pid], within_s=3)
