"""Tool cards: a file's text and a command's output are drawn as they are, whatever Markdown would make of them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.bridge.cards import Cards, fenced

BARE = ["", "begun", "begun\n", "[exit code 1]", "[no output]", "it is 3 o'clock, said she.", "/tmp/a_b_c/_d is"]
FENCED = [
    ("# Title", "```\n# Title\n```"),
    ("a\nb\n", "```\na\nb\n```"),
    ("- x", "```\n- x\n```"),
    ("1. x", "```\n1. x\n```"),
    ("    x", "```\n    x\n```"),
    ("see _this_ one", "```\nsee _this_ one\n```"),
    ("/tmp/__init__", "```\n/tmp/__init__\n```"),
    ("a&lt;b", "```\na&lt;b\n```"),
    ("[a](http://b)", "```\n[a](http://b)\n```"),
    ("a\rb", "```\na\rb\n```"),
    ("```\ncode\n```\n", "````\n```\ncode\n```\n````"),
    ("`" * 200 + "\n", "~~~\n" + "`" * 200 + "\n~~~"),
]


def card(name: str, text: str) -> list[dict[str, object]]:
    content = {"type": "content", "content": {"type": "text", "text": text}}
    return [
        {"sessionUpdate": "tool_call", "toolCallId": "c", "name": name},
        {"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": [content], "rawOutput": {"output": text}},
    ]


@pytest.mark.parametrize("text", BARE)
def test_a_line_that_markdown_leaves_alone_is_shown_bare(text: str) -> None:
    assert fenced(text) == text


@pytest.mark.parametrize(("text", "shown"), FENCED)
def test_what_markdown_would_draw_otherwise_is_put_in_a_fence(text: str, shown: str) -> None:
    assert fenced(text) == shown


@given(st.text(alphabet="`~ \n#a", max_size=60))
def test_no_text_closes_its_own_fence(text: str) -> None:
    shown = fenced(text)
    if shown != text:
        fence, _, rest = shown.partition("\n")
        body, _, last = rest.rpartition("\n")
        assert last == fence
        assert body.rstrip("\n") == text.rstrip("\n")
        sign, least = fence[0], len(fence)
        assert not re.search(f"^ {{0,3}}{re.escape(sign)}{{{least},}} *$", body, re.MULTILINE)


def test_a_text_that_would_need_an_endless_fence_is_shown_bare() -> None:
    text = "`" * 200 + "~" * 200
    assert fenced(text) == text


@pytest.mark.parametrize("name", ["run_command", "read_file", "search_files", "list_files"])
def test_what_a_file_or_a_command_holds_is_fenced_and_stays_bare_in_the_raw_output(name: str) -> None:
    cards = Cards(client_shows_plans=True)
    _, last = [cards.drawn(update) for update in card(name, "# A\n# B\n")]
    assert last is not None
    assert last["content"][0]["content"]["text"] == "```\n# A\n# B\n```"
    assert last["rawOutput"] == {"output": "# A\n# B\n"}


def test_what_other_tools_say_is_theirs_to_draw() -> None:
    cards, updates = Cards(client_shows_plans=True), card("mcp__docs__find", "# A\n# B\n")
    assert [cards.drawn(update) for update in updates] == updates


def test_an_update_of_a_file_or_a_diff_is_left_as_it_is() -> None:
    cards = Cards(client_shows_plans=True)
    diff = {"type": "diff", "path": "/a", "oldText": None, "newText": "# A\n"}
    first, _ = card("run_command", "")
    cards.drawn(first)
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": [diff]}
    assert cards.drawn(update) == update


@pytest.mark.parametrize("piece", [" _a", "a_ ", "_", "`a", "~`", " ", "a\n"])
def test_a_megabyte_of_signs_is_read_once_through(piece: str) -> None:
    """Reading it anew from each sign would take hours."""
    assert fenced(piece * (2**20 // len(piece)))
