"""How calls are drawn and checked, whatever a model sends. S10."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_bridge.errors import ToolError
from acp_bridge.text import escaped
from acp_bridge.tools import Tool, Workspace, builtin_tools
from acp_bridge.tools.titles import TITLE, title

WORKSPACE = Workspace(cwd=Path("/p"), roots=(Path("/p"),))
TOOLS = tuple(tool for tool in builtin_tools() if tool.spec.name not in ("update_plan", "ask_user"))
NAMES = ("path", "offset", "command", "cwd", "pattern", "include", "old_text", "timeout_s")
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("tool", builtin_tools(), ids=lambda tool: tool.spec.name)
@settings(max_examples=50)
@given(arguments=st.dictionaries(st.sampled_from(NAMES) | st.text(), ANYTHING, max_size=5))
def test_drawing_takes_anything_and_gives_one_printable_line(tool: Tool, arguments: dict[str, Any]) -> None:
    presentation = tool.present(arguments, WORKSPACE)
    assert presentation.title
    assert presentation.title.isprintable()
    assert len(presentation.title) <= 2000
    for place in presentation.locations:
        assert place.path.startswith("/")
        place.path.encode()


@given(st.text(st.characters(codec=None)))
def test_an_escaped_text_is_printable(text: str) -> None:
    assert escaped(text).isprintable()


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b]52;c;eA==\x07", "\\e]52;c;eA==\\x07"),
        ("\x1b[2J", "\\e[2J"),
        ("a\rb\nc\td", "a\\rb\\nc\\td"),
        ("a\u202eb\u2066", "a\\u202eb\\u2066"),
        ("\x9b2J\x7f", "\\x9b2J\\x7f"),
        ("a\u200bb\u3164\U000e0041", "a\\u200bb\\u3164\\U000e0041"),
        ("Größe 漢字 ✓", "Größe 漢字 ✓"),
    ],
)
def test_what_could_move_hide_or_turn_text_is_escaped(raw: str, shown: str) -> None:
    assert escaped(raw) == shown


@given(st.text(min_size=TITLE))
def test_a_long_title_is_cut_in_its_middle_within_the_limit(text: str) -> None:
    assert len(title("Read", text)) <= TITLE


def test_the_end_of_a_long_command_stays_in_its_title() -> None:
    (tool,) = (tool for tool in builtin_tools() if tool.spec.name == "run_command")
    shown = tool.present({"command": "echo " + "a" * 9000 + "; rm -rf x"}, WORKSPACE).title
    assert shown.startswith("echo a")
    assert shown.endswith("; rm -rf x")
    assert "characters…" in shown


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("read_file", {}, "'path' is missing"),
        ("read_file", {"path": 3}, "'path'"),
        ("read_file", {"path": "a", "offset": "1"}, "'offset'"),
        ("read_file", {"path": "a", "offset": True}, "'offset'"),
        ("read_file", {"path": "a", "offset": 0}, "greater than or equal to 1"),
        ("read_file", {"file": "a", "path": "a"}, "unknown parameter 'file'"),
        ("edit_file", {"path": "a", "old_str": "a", "new_text": "b", "old_text": "c"}, "did you mean 'old_text'?"),
        ("run_command", {"command": "ls", "timeout": 5}, "did you mean 'timeout_s'?"),
        ("run_command", {"command": "ls", "timeout_s": 4000}, "less than or equal to 3600"),
        ("run_command", {"command": ["ls"]}, "'command'"),
        ("run_command", {"command": ""}, "'command'"),
    ],
)
def test_wrong_arguments_are_refused_with_the_parameter_named(name: str, arguments: dict[str, Any], words: str) -> None:
    (tool,) = (tool for tool in builtin_tools() if tool.spec.name == name)
    with pytest.raises(ToolError, match="parameter") as refused:
        tool.check(arguments)
    assert words in str(refused.value)
    assert refused.value.code == "INVALID_ARGUMENTS"


def test_an_optional_parameter_may_be_null() -> None:
    (tool,) = (tool for tool in builtin_tools() if tool.spec.name == "run_command")
    assert tool.check({"command": "ls", "cwd": None}) == {"command": "ls", "cwd": None, "timeout_s": None}


def test_schemas_name_exactly_the_parameters_that_are_taken() -> None:
    taken = {tool.spec.name: set(tool.spec.schema["properties"]) for tool in TOOLS}
    assert taken == {
        "read_file": {"path", "offset", "limit", "column"},
        "write_file": {"path", "content"},
        "edit_file": {"path", "old_text", "new_text", "replace_all"},
        "list_files": {"path", "pattern"},
        "search_files": {"pattern", "path", "include", "ignore_case"},
        "run_command": {"command", "cwd", "timeout_s"},
    }
    for tool in TOOLS:
        for name in taken[tool.spec.name]:
            with pytest.raises(ToolError) as refused:
                tool.check({name: object()})
            assert "unknown" not in str(refused.value)


def test_effects_say_what_a_repetition_would_do() -> None:
    assert {tool.spec.name: (tool.spec.effect, tool.spec.parallel) for tool in TOOLS} == {
        "read_file": ("read", True),
        "write_file": ("idempotent", False),
        "edit_file": ("write", False),
        "list_files": ("read", True),
        "search_files": ("read", True),
        "run_command": ("write", False),
    }
