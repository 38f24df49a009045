"""The examples of the ports run as they stand, and the whole of them by configuration."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.parts import Asking

from acp_bridge.config import load
from acp_bridge.content import JsonObject
from acp_bridge.headless import Session, open_runtime
from acp_bridge.session import AssistantMessage, Record, ToolResult
from acp_bridge.testing.store_contract import OpenStore, StoreContract
from acp_bridge.tools import Choice, Question

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parent.parent / "fixtures" / "examples"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
sys.path.insert(0, str(FOLDER))

from noting_store import NotingStore  # noqa: E402  # pyright: ignore[reportMissingImports]

sys.path.remove(str(FOLDER))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(FOLDER)
    yield FOLDER
    for name in NAMES:
        sys.modules.pop(name, None)


async def allow(question: Question) -> Choice:
    return Choice("allow_once")


async def records_of(session: Session, text: str) -> list[Any]:
    with anyio.fail_after(20):
        async with session.prompt(text) as turn:
            events = [item.event async for item in turn if isinstance(item, Record)]
    assert turn.outcome is not None
    assert turn.outcome.reason == "completed"
    return events


def test_every_example_is_told_of_and_the_readme_leads_there() -> None:
    told = re.findall(r"^\| `(\w+)\.py`", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert sorted(told) == NAMES
    assert "fixtures/examples/README.md" in (FOLDER.parent.parent / "README.md").read_text()


async def test_the_configuration_that_is_shown_composes_an_agent_of_all_of_them(examples: Path, tmp_path: Path) -> None:
    shown = re.search(r"```toml\n(.*?)```", (examples / "README.md").read_text(), re.DOTALL)
    assert shown is not None
    (tmp_path / "config.toml").write_text(shown[1])
    async with open_runtime(load({"ACP_BRIDGE_CONFIG": str(tmp_path / "config.toml")})) as runtime:
        session = await runtime.new_session(str(tmp_path), permit=allow)
        events = await records_of(session, "Say this back")
        store: Any = runtime.sessions.store
        assert store.inner.opened
        policy: Any = runtime.assembly.policy
        assert set(policy.policy.costs) == {"request", "turn"}
    assert not store.inner.opened
    [answer] = [event for event in events if isinstance(event, AssistantMessage)]
    assert "".join(getattr(block, "text", "") for block in answer.content) == "Say this back "


async def call(tmp_path: Path, tool: str, arguments: str, *, audit: Any = None) -> ToolResult:
    settings: JsonObject = {
        "model": "demo",
        "storage": "memory",
        "tools": ["greeting_tool:Greet", "checklist_tool:Checklist"],
        "plugins.greeting_tool": {"greeting": "Good morning"},
    }
    model = Asking(tool, arguments)
    observers = [audit] if audit else []
    config = load({}, settings)
    async with open_runtime(config, open_model=lambda _route: model, observers=observers) as runtime:
        session = await runtime.new_session(str(tmp_path), permit=allow)
        [result] = [event for event in await records_of(session, "Go") if isinstance(event, ToolResult)]
    return result


async def test_the_tool_greets_with_what_is_configured_and_the_observer_notes_it(
    examples: Path, tmp_path: Path
) -> None:
    import audit_observer  # pyright: ignore[reportMissingImports]

    audit = audit_observer.Audit()
    result = await call(tmp_path, "greet", '{"name": "Ada"}', audit=audit)
    assert not result.is_error
    assert (tmp_path / "greeting.txt").read_text() == "Good morning, Ada!\n"
    assert [line.partition(" ")[2] for line in audit.lines] == ["call_1_1_1 began: greet", "call_1_1_1 ended: ok"]


async def test_the_tool_of_tools_makes_a_checklist_and_adds_to_it(examples: Path, tmp_path: Path) -> None:
    for entry in ("Look", "Leap"):
        result = await call(tmp_path, "add_to_checklist", f'{{"entry": "{entry}"}}')
        assert not result.is_error, result.content
    assert (tmp_path / "CHECKLIST.md").read_text() == "- [ ] Look\n- [ ] Leap\n"


def test_the_program_of_ones_own_runs(tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(FOLDER), "PATH": "/usr/bin:/bin", "ACP_BRIDGE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    argv = [sys.executable, str(FOLDER / "librarian.py"), "Say", "this"]
    run = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stdout) == (0, "Say this \ncompleted\n"), run.stderr


async def test_the_agent_inside_a_program_is_spoken_to_as_by_an_editor(
    examples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import embedded_agent  # pyright: ignore[reportMissingImports]

    with anyio.fail_after(20):
        await embedded_agent.main("Say this", load({}, {"model": "echo_model:EchoModel", "home": str(tmp_path)}))
    assert capsys.readouterr().out == "Say this \nend_turn\n"
    [log] = tmp_path.glob("sessions/*/log.jsonl")
    assert '"turn/end"' in log.read_text()


class TestNotingStore(StoreContract):
    @pytest.fixture
    def open_store(self) -> OpenStore:
        store = NotingStore()
        return lambda: store
