"""Parts of somebody else's that do not keep their port: each failure is named, told, and nobody else's."""

import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.parts import Asking, Audit, Greet, config, raises

from acp_bridge.config import load
from acp_bridge.content import Diff, Image, Text
from acp_bridge.errors import ConfigError, StoreError
from acp_bridge.headless import allow_nothing, open_runtime
from acp_bridge.llm import Delta, Finished, TextDelta, ToolDelta
from acp_bridge.session import AssistantMessage, ModelRequest, Record, ToolCalled, ToolResult
from acp_bridge.session.store import SessionFilter
from acp_bridge.storage import MemoryStore
from acp_bridge.tools import Access, Choice, Drawing, Presentation, Question, ToolOutput, contained

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # what is refused does not hang on the loop; how parts are left does: see `test_parts_lives`


async def turn_with(tool: Any, tmp_path: Path, permit: Any = allow_nothing) -> tuple[Any, dict[type, Any]]:
    """Have the tool called once; return the outcome and the last event of each type."""
    with anyio.fail_after(10):
        async with open_runtime(config(), tools=[tool], open_model=lambda _route: Asking()) as runtime:
            session = await runtime.new_session(str(tmp_path), permit=permit)
            async with session.prompt("Greet.") as turn:
                events = {type(item.event): item.event async for item in turn if isinstance(item, Record)}
    return turn.outcome, events


OUTPUTS: dict[str, Callable[[], Any]] = {
    "a text": lambda: "Greeted.",
    "nothing": lambda: None,
    "an error": raises(KeyError("name")),
    "an exit": raises(SystemExit(2)),
    "text that is none": lambda: ToolOutput(content=(Text(text=3),)),  # pyright: ignore[reportArgumentType]
    "a bare text as content": lambda: ToolOutput(content="Greeted."),  # pyright: ignore[reportArgumentType]
    "no block": lambda: ToolOutput(content=(object(),)),  # pyright: ignore[reportArgumentType]
    "a diff as content": lambda: ToolOutput(content=(Diff(path="/a", new_text=""),)),  # pyright: ignore[reportArgumentType]
    "an image that is shown": lambda: ToolOutput(content=(), shown=(Image(mime_type="", file="", size=0),)),  # pyright: ignore[reportArgumentType]
    "an unknown code": lambda: ToolOutput(content=(), code="BAD"),  # pyright: ignore[reportArgumentType]
    "digests by number": lambda: ToolOutput(content=(), digests={1: "a"}),  # pyright: ignore[reportArgumentType]
    "a plan of texts": lambda: ToolOutput(content=(), plan=("first",)),  # pyright: ignore[reportArgumentType]
}


@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
async def test_a_tool_that_returns_what_cannot_be_used_is_named_to_model_and_user(
    output: Callable[[], Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outcome, events = await turn_with(Greet({"run": output}), tmp_path)
    assert outcome.reason == "completed"
    result = events[ToolResult]
    assert (result.is_error, result.code) == (True, "FAILED")
    assert "greet" in result.content[0].text
    assert "a defect of the tool ('Greet')" in result.content[0].text
    assert "greet" in caplog.text


@pytest.mark.parametrize("method", ["check", "access"])
@pytest.mark.parametrize("broken", [raises(ValueError("bad")), raises(SystemExit(2)), lambda: None, lambda: "yes"])
async def test_a_tool_that_cannot_say_what_a_call_means_is_not_run(
    method: str, broken: Callable[[], Any], tmp_path: Path
) -> None:
    tool = Greet({method: broken})
    outcome, events = await turn_with(tool, tmp_path)
    assert (outcome.reason, tool.ran) == ("completed", 0)
    assert ToolCalled not in events
    assert f"{method}()" in events[ToolResult].content[0].text
    assert "('Greet')" in events[ToolResult].content[0].text


@pytest.mark.parametrize(
    "access",
    [Access(kind="all"), Access(kind="read", paths=("/a",)), Access(kind="none", scope=None)],  # pyright: ignore[reportArgumentType]
)
async def test_an_access_that_no_mode_can_judge_is_no_leave(access: Access, tmp_path: Path) -> None:
    tool = Greet({"access": lambda: access})
    _, events = await turn_with(tool, tmp_path)
    assert tool.ran == 0
    assert events[ToolResult].is_error


@pytest.mark.parametrize(
    "broken",
    [raises(RuntimeError("no pen")), lambda: None, lambda: "Greet", lambda: Presentation(title=None, kind="other")],  # pyright: ignore[reportArgumentType]
)
async def test_a_tool_that_cannot_be_drawn_runs_and_is_drawn_by_its_name(
    broken: Callable[[], Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tool = Greet({"present": broken})
    outcome, events = await turn_with(tool, tmp_path)
    assert (outcome.reason, tool.ran, events[ToolResult].is_error) == ("completed", 1, False)
    assert "greet ('Greet')" in caplog.text


class Drawn(Greet):
    """A tool as it was written for an earlier port."""

    present: Any = None

    def draw(self, arguments: Any, workspace: Any) -> Any:
        return Drawing(title="Greet", kind="other")


def test_a_tool_with_the_former_name_of_present_is_refused_by_name() -> None:
    assert Drawing is Presentation
    with pytest.raises(ConfigError, match=r"'mine:Drawn' is a \w+, .* draw is now present"):
        contained(Drawn(), "'mine:Drawn'")


class Showing(Greet):
    """A tool that asks, and shows what it would do."""

    def __init__(self, preview: Callable[[], Any]) -> None:
        super().__init__({"access": lambda: Access(kind="edit", inside=False)})
        self._preview = preview

    async def preview(self, arguments: Any, call: Any) -> Any:
        return self._preview()


@pytest.mark.parametrize("broken", [raises(OSError("gone")), lambda: None, lambda: ("text",)])
async def test_who_is_asked_is_told_that_a_tool_could_not_show_what_it_would_do(
    broken: Callable[[], Any], tmp_path: Path
) -> None:
    asked: list[Question] = []

    async def permit(question: Question) -> Choice:
        asked.append(question)
        return Choice("allow_once")

    tool = Showing(broken)
    outcome, _ = await turn_with(tool, tmp_path, permit)
    assert (outcome.reason, tool.ran) == ("completed", 1)
    [block] = asked[0].shown
    assert isinstance(block, Text)
    assert "greet could not show what it would do" in block.text


async def test_an_interrupt_that_a_tool_raises_is_not_swallowed(tmp_path: Path) -> None:
    class Interrupt(BaseException):  # as KeyboardInterrupt, which would end the test's own loop
        pass

    with pytest.raises(BaseExceptionGroup) as caught:
        await turn_with(Greet({"run": raises(Interrupt())}), tmp_path)
    assert caught.group_contains(Interrupt)


UNOFFERABLE: dict[str, Any] = {
    "a blank in its name": Greet(name="greet me"),
    "no name": Greet(name=""),
    "a name of 65 letters": Greet(name="g" * 65),
    "a name of another script": Greet(name="grüße"),
    "an MCP server's name": Greet(name="mcp__a__greet"),
    "a name that is none": Greet(name=3),
    "a description that is none": Greet(description=None),
    "a schema of another type": Greet(parameters={"type": "array"}),
    "no schema": Greet(parameters={}),
    "properties that are a list": Greet(parameters={"type": "object", "properties": ["name"]}),
    "a required that is a text": Greet(parameters={"type": "object", "required": "name"}),
    "a schema that JSON cannot carry": Greet(parameters={"type": "object", "default": object()}),
    "an unknown kind": Greet(kind="writing"),
    "an unknown effect": Greet(effect="none"),
    "a class": Greet,
    "no tool": object(),
}


@pytest.mark.parametrize("tool", UNOFFERABLE.values(), ids=UNOFFERABLE)
async def test_a_tool_that_no_provider_would_take_is_refused_before_there_is_a_session(tool: Any) -> None:
    with pytest.raises(ConfigError, match=r"the tool '?(Greet|type|object)"):
        async with open_runtime(config(), tools=[tool]):
            raise AssertionError("it was composed")


async def test_the_longest_name_that_providers_take_is_taken() -> None:
    async with open_runtime(config(), tools=[Greet(name="g" * 64)]) as runtime:
        assert runtime.assembly.tools[-1].spec.name == "g" * 64


async def test_two_tools_of_one_name_are_refused_with_both_named(tmp_path: Path) -> None:
    class Salute(Greet):
        pass

    with pytest.raises(ConfigError, match="two tools are named 'greet': 'Greet' and 'Salute'"):
        async with open_runtime(config(), tools=[Greet(), Salute()]):
            raise AssertionError("it was composed")


async def test_a_tool_may_stand_in_the_place_of_a_built_in_one(tmp_path: Path) -> None:
    async with open_runtime(config(), tools=[Greet(name="read_file")]) as runtime:
        assert [tool.spec.description for tool in runtime.assembly.tools if tool.spec.name == "read_file"] == [
            "Greet somebody."
        ]


# --- models ---


class Speaking:
    """A model whose answer a test gives."""

    context_window: Any = None
    takes_images: Any = False

    def __init__(self, *deltas: Any) -> None:
        self._deltas = deltas

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        for delta in self._deltas:
            if isinstance(delta, BaseException):
                raise delta
            yield delta

    async def aclose(self) -> None:
        pass


class Plain(Speaking):
    """A model whose `stream` is no generator."""

    async def stream(self, request: ModelRequest) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return "Hello."


MODELS: dict[str, tuple[Any, str]] = {
    "an error": (Speaking(TextDelta("He"), RuntimeError("no power")), "failed inside: RuntimeError: no power"),
    "an exit": (Speaking(TextDelta("He"), SystemExit(2)), "failed inside: SystemExit: 2"),
    "a text": (Speaking("Hello."), "gave a value of type str"),
    "a delta of none": (Speaking(TextDelta(None)), "gave a TextDelta"),  # pyright: ignore[reportArgumentType]
    "a place that is none": (Speaking(ToolDelta(None, "t")), "gave a ToolDelta"),  # pyright: ignore[reportArgumentType]
    "a place before the first": (Speaking(ToolDelta(-1, "t")), "gave a ToolDelta"),
    "an unknown cause": (Speaking(Finished("done")), "gave a Finished"),  # pyright: ignore[reportArgumentType]
    "counts that are a dict": (Speaking(Finished("end", {"input": 1})), "gave a Finished"),  # pyright: ignore[reportArgumentType]
    "a coroutine": (Plain(), "failed inside: TypeError"),
}


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize(("model", "said"), MODELS.values(), ids=MODELS)
async def test_a_model_that_gives_what_is_no_answer_ends_the_turn_and_is_named(
    model: Any, said: str, tmp_path: Path
) -> None:
    with anyio.fail_after(10):
        async with open_runtime(config(), open_model=lambda _route: model) as runtime:
            session = await runtime.new_session(str(tmp_path))
            async with session.prompt("Speak.") as turn:
                _ = [item async for item in turn]
    assert turn.outcome is not None
    assert turn.outcome.failure is not None
    assert (turn.outcome.failure.kind, turn.outcome.reason) == ("internal", "error")
    assert "the model 'demo' " + said in turn.outcome.failure.message


async def test_a_model_that_cannot_be_opened_is_said_when_a_session_wants_it(tmp_path: Path) -> None:
    answers: list[Callable[[], Any]] = [raises(ValueError("no file")), lambda: None, lambda: Speaking, lambda: "demo"]
    for answer in answers:
        async with open_runtime(config(), open_model=lambda _route, answer=answer: answer()) as runtime:
            with pytest.raises(ConfigError, match="the model 'demo'"):
                await runtime.new_session(str(tmp_path))


async def test_facts_of_a_model_that_are_none_are_unknown(tmp_path: Path) -> None:
    model = Speaking(TextDelta("Hello."), Finished("end"))
    model.context_window, model.takes_images = "large", "perhaps"
    with anyio.fail_after(10):
        async with open_runtime(config(), open_model=lambda _route: model) as runtime:
            session = await runtime.new_session(str(tmp_path))
            async with session.prompt("Speak.") as turn:
                _ = [item async for item in turn]
            opened = await runtime.assembly.models.opened("demo")
            assert (opened.context_window, opened.takes_images) == (None, False)
    assert turn.outcome is not None
    assert turn.outcome.reason == "completed"


# --- stores ---


class Broken(MemoryStore):
    """A store one of whose methods does what a test says."""

    def __init__(self, method: str, does: Callable[[], Any]) -> None:
        super().__init__()

        async def broken(*_args: Any, **_more: Any) -> Any:
            return does()

        setattr(self, method, broken)


@pytest.mark.parametrize("does", [raises(OSError("no disk")), lambda: None], ids=["raises", "returns None"])
async def test_a_store_whose_sweep_fails_ends_nothing(
    does: Callable[[], Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with anyio.fail_after(10):
        async with open_runtime(config(), store=Broken("sweep", does)) as runtime:
            await anyio.wait_all_tasks_blocked()
            await runtime.new_session(str(tmp_path))
    assert "the store 'Broken'" in caplog.text
    assert "sweep()" in caplog.text


@pytest.mark.parametrize("does", [raises(OSError("no disk")), raises(SystemExit(2)), lambda: None, list])
async def test_a_store_whose_listing_fails_is_named(does: Callable[[], Any]) -> None:
    async with open_runtime(config(), store=Broken("list", does)) as runtime:
        with pytest.raises(StoreError, match=r"the store 'Broken' .* list\(\)"):
            await runtime.sessions.store.list(SessionFilter())


async def test_a_listing_that_fails_is_not_taken_for_a_bad_cursor() -> None:
    async with open_runtime(config(), store=Broken("list", raises(ValueError("bad row")))) as runtime:
        with pytest.raises(StoreError, match="bad row"):
            await runtime.sessions.store.list(SessionFilter())
        with pytest.raises(ValueError, match="bad row"):
            await runtime.sessions.store.list(SessionFilter(), cursor="c")


@pytest.mark.parametrize("does", [raises(OSError("no disk")), lambda: None, lambda: "held"])
async def test_a_session_that_a_store_does_not_make_is_named(does: Callable[[], Any], tmp_path: Path) -> None:
    async with open_runtime(config(), store=Broken("create", does)) as runtime:
        with pytest.raises(StoreError, match=r"the store 'Broken' .* create\(\)"):
            await runtime.new_session(str(tmp_path))


@pytest.mark.parametrize("does", [raises(OSError("no disk")), lambda: None], ids=["raises", "returns None"])
async def test_a_hold_that_does_not_say_what_it_wrote_is_poison_by_its_name(
    does: Callable[[], Any], tmp_path: Path
) -> None:
    async def broken(_records: Any) -> Any:
        return does()

    with anyio.fail_after(10):
        async with open_runtime(config(), store=MemoryStore(), open_model=lambda _route: Asking()) as runtime:
            session = await runtime.new_session(str(tmp_path))
            held: Any = runtime.sessions.get(session.id)
            held.held.inner.append = broken
            async with session.prompt("Greet.") as turn:
                _ = [item async for item in turn]
            assert turn.outcome is not None
            assert turn.outcome.failure is not None
            assert turn.outcome.failure.kind == "not_saved"
            assert "the store 'MemoryStore'" in turn.outcome.failure.message
            del held.held.inner.append


async def test_a_part_that_is_none_of_its_kind_is_refused_with_what_it_lacks() -> None:
    for replaced, said in (
        ({"store": object()}, "storage 'object' is a object, which has no create, delete, fork"),
        ({"store": MemoryStore}, "storage 'type' is a class; give one that is made: MemoryStore"),
        ({"policy": object()}, "checkpoint policy 'object' is a object, which has no after_open, after_turn, barriers"),
        ({"observers": [object()]}, "observer 'object' is a object, which has no observe"),
    ):
        parts: dict[str, Any] = replaced
        with pytest.raises(ConfigError, match=said):
            async with open_runtime(config(), **parts):
                raise AssertionError("it was composed")


# --- the role ---


@pytest.mark.parametrize("given", ["Python", "configuration"])
async def test_an_agent_of_a_persona_of_its_own_is_told_so_and_of_its_workspace_still(
    given: str, tmp_path: Path
) -> None:
    model, role = Asking(), "You are a librarian."
    settings = config(**{"agent.system": role}) if given == "configuration" else config()
    more: dict[str, Any] = {"system": role} if given == "Python" else {}
    with anyio.fail_after(10):
        async with open_runtime(settings, open_model=lambda _route: model, tools=[Greet()], **more) as runtime:
            session = await runtime.new_session(str(tmp_path))
            async with session.prompt("Greet.") as turn:
                _ = [item async for item in turn]
    system = model.requests[0].system
    assert system.startswith(role)
    assert "coding agent" not in system
    assert f"Working directory: {tmp_path}" in system


def test_a_command_that_is_an_agent_again_is_not_confused_by_its_calls_key() -> None:
    assert load({"ACP_BRIDGE_CONFIG": os.devnull, "ACP_CALL_KEY": "s:c"}).mode == "ask"


# --- observers ---


@pytest.mark.parametrize("error", [RuntimeError("no audit"), SystemExit(2)])
async def test_an_observer_is_told_of_a_session_from_its_opening_on_and_changes_nothing_by_failing(
    error: BaseException, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sound, failing = Audit(), Audit(raises(error))

    class Refusing(Audit):
        def observe(self, session_id: str) -> Any:
            raise RuntimeError("not this one")

    class Deaf:
        def observe(self, session_id: str) -> Any:
            return object()

    observers: list[Any] = [Refusing(), Deaf(), failing, sound]
    with anyio.fail_after(10):
        async with open_runtime(config(), observers=observers, open_model=lambda _route: Asking()) as runtime:
            session = await runtime.new_session(str(tmp_path))
            async with session.prompt("Greet.") as turn:
                _ = [item async for item in turn]
    assert turn.outcome is not None
    assert turn.outcome.reason == "completed"
    assert sound.seen == failing.seen
    assert (sound.seen[0], sound.seen[-1]) == ("session/opened", "turn/end")
    for name in ("Audit.recorded failed", "Refusing failed", "object has no recorded()"):
        assert name in caplog.text


# --- by configuration ---

MODULE = '''
"""Parts by name."""
from support.parts import Audit, Greet
from cases.test_third_parties import Speaking
from acp_bridge.llm import Finished, TextDelta
from acp_bridge.storage import MemoryStore

made = []

class EchoModel(Speaking):
    def __init__(self):
        super().__init__(TextDelta("echo"), Finished("end"))

class Dsn(Greet):
    def __init__(self, settings, environ):
        super().__init__()
        made.append((settings, environ.get("MINE_TOKEN")))

class Store(MemoryStore):
    def __init__(self, config, settings):
        super().__init__()
        made.append((config.mode, settings))

class Fails(Greet):
    def __init__(self):
        raise OSError("no network")

class Wants(Greet):
    def __init__(self, dsn):
        super().__init__()

number = 3
'''


CONFIGURED = """
tools = ["mine_parts:Dsn"]
storage = "mine_parts:Store"
[plugins.mine_parts]
dsn = "db://x"
[plugins.mine_parts.pool]
size = 3
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "mine_parts.py").write_text(MODULE)
    (tmp_path / "mine_script.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "mine_broken.py").write_text("import no_such_thing\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("mine_parts", "mine_script", "mine_broken"):
        sys.modules.pop(name, None)


async def test_a_model_of_ones_own_is_named_by_module_and_name(mine: Path) -> None:
    with anyio.fail_after(10):
        async with open_runtime(config(model="mine_parts:EchoModel")) as runtime:
            session = await runtime.new_session(str(mine))
            async with session.prompt("Speak.") as turn:
                said = [
                    item.event.content
                    async for item in turn
                    if isinstance(item, Record) and isinstance(item.event, AssistantMessage)
                ]
    assert said == [(Text(text="echo"),)]


async def test_a_registered_provider_wins_over_a_module_of_its_name(mine: Path) -> None:
    (mine / "demo.py").write_text("def Echo(): raise AssertionError('it was made')")
    async with open_runtime(config(model="demo:Echo")) as runtime:
        await runtime.assembly.settings.require_usable("demo:Echo")


@pytest.mark.parametrize(
    ("route", "said"),
    [
        ("mine_parts:EchoMadel", "did you mean 'EchoModel'"),
        ("mine_absent:Model", "no module 'mine_absent'"),
        ("mine_broken:Model", "no_such_thing"),
        ("mine_script:Model", "SystemExit"),
        ("mine_parts:number", "cannot be called"),
        ("mine_parts:Fails", "OSError: no network"),
        ("mine_parts:Audit", "has no aclose, context_window"),
    ],
)
async def test_a_model_that_cannot_be_had_by_its_name_says_why_and_how_models_are_named(
    mine: Path, route: str, said: str
) -> None:
    async with open_runtime(config(model=route)) as runtime:
        with pytest.raises(ConfigError, match=said) as caught:
            await runtime.new_session(str(mine))
    assert route in str(caught.value)


@pytest.mark.parametrize("setting", ["tools", "observers", "storage", "checkpoint.policy"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mine_parts:Gret", "did you mean 'Greet'"),
        ("mine_absent:Thing", "no module 'mine_absent'"),
        ("mine_parts:number", "cannot be called"),
        ("mine_script:Tool", "SystemExit"),
        ("mine_parts:Wants", "dsn|could not be made|which has no|does not fit"),
    ],
)
async def test_a_part_that_cannot_be_had_by_its_name_is_refused_with_the_setting(
    mine: Path, setting: str, name: str, said: str
) -> None:
    value: Any = [name] if setting in ("tools", "observers") else name
    with pytest.raises(ConfigError, match=said) as caught:
        async with open_runtime(config(**{setting: value})):
            raise AssertionError("it was composed")
    assert name in str(caught.value)


async def test_a_table_of_a_parts_package_is_handed_to_its_factory_and_secrets_come_from_the_environment(
    mine: Path,
) -> None:
    (mine / "config.toml").write_text(CONFIGURED)
    environ = {"ACP_BRIDGE_CONFIG": str(mine / "config.toml"), "MINE_TOKEN": "secret", "ACP_BRIDGE_MODEL": "demo"}
    async with open_runtime(load(environ)):
        import mine_parts  # pyright: ignore[reportMissingImports]

        table = {"dsn": "db://x", "pool": {"size": 3}}
        assert mine_parts.made == [("ask", table), (table, "secret")]


async def test_a_table_for_no_part_is_an_error_that_names_the_nearest(mine: Path) -> None:
    settings: dict[str, Any] = {"tools": ["mine_parts:Greet"], "plugins.mine_part": {"dsn": "x"}}
    with pytest.raises(ConfigError, match=r"\[plugins.mine_part\].*'mine_parts'"):
        async with open_runtime(config(**settings)):
            raise AssertionError("it was composed")


def test_only_tables_stand_under_plugins() -> None:
    with pytest.raises(ConfigError, match=r"plugins.mine\] must be a table"):
        config(**{"plugins.mine": 3})
    with pytest.raises(ConfigError, match=r"'plugin\.mine'"):
        config(**{"plugin.mine": {}})


def test_a_name_that_replaces_nothing_is_refused_at_once() -> None:
    wrong: dict[str, Any] = {"tool": ()}
    with pytest.raises(TypeError, match="tool"):
        open_runtime(config(), **wrong)
