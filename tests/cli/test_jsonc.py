"""Settings are merged into text without losing a byte of it."""

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_bridge.cli.setup.jsonc import NotJsonc, parse
from acp_bridge.cli.setup.merge import Setting, merge, merge_plain

names = st.text(st.characters(exclude_categories=("Cs",)), max_size=4) | st.sampled_from(["agent_servers", "env", "a"])
plain_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(names, plain_values, max_size=4)
SPACES = ("", "", " ", "\n", "\n    ", "\t", "\r\n", '// a "comment", {\n', "/* another } */", " /* \n */ ")
paths = st.lists(names, min_size=1, max_size=3).map(tuple)
wanted = st.lists(st.builds(Setting, paths, plain_values, st.booleans()), min_size=1, max_size=4)


def written(value: Any, luck: Random) -> str:
    """A value as somebody may have written it."""

    def blank() -> str:
        return luck.choice(SPACES)

    def joined(parts: list[str]) -> str:
        end = luck.choice(("", ",")) if parts else ""
        return blank() + f"{blank()},{blank()}".join(parts) + blank() + end + blank()

    match value:
        case dict():
            members = [
                f"{json.dumps(name, ensure_ascii=luck.random() < 0.5)}{blank()}:{blank()}{written(inner, luck)}"
                for name, inner in value.items()
            ]
            return f"{{{joined(members)}}}"
        case list():
            return f"[{joined([written(inner, luck) for inner in value])}]"
        case _:
            return json.dumps(value)


def text_of(value: Any, luck: Random) -> tuple[str, Any]:
    """A text and what it means."""
    ends = "".join(luck.choice(SPACES) for _ in range(2))
    return luck.choice(("", "\ufeff")) + luck.choice(SPACES) + written(value, luck) + ends, value


texts = st.builds(text_of, objects, st.integers(0, 2**32).map(Random))


def plain_of(text: str) -> Any:
    value = parse(text)
    return {} if value is None else value.plain


def substance(text: str) -> str:
    return "".join(text.split())


def is_within(part: str, whole: str) -> bool:
    """Whether all of `part` is in `whole`, in order."""
    rest = iter(whole)
    return all(char in rest for char in part)


def distinct(settings: list[Setting]) -> bool:
    """Whether none of the settings changes another."""
    return not any(
        one is not other and one.path == other.path[: len(one.path)] for one in settings for other in settings
    )


@settings(max_examples=150, deadline=None)
@given(texts, wanted)
def test_a_merge_means_the_same_and_ours_and_a_second_one_changes_nothing(
    text: tuple[str, Any], wanted: list[Setting]
) -> None:
    before, value = text
    assert plain_of(before) == value
    try:
        after = merge(before, wanted)
    except NotJsonc:
        return  # something else stands where an object must be
    assert plain_of(after) == merge_plain(value, wanted)
    if distinct(wanted):
        assert merge(after, wanted) == after


@settings(max_examples=150, deadline=None)
@given(texts, wanted)
def test_a_merge_of_what_is_absent_only_adds(text: tuple[str, Any], wanted: list[Setting]) -> None:
    before, additions = text[0], [replace(setting, only_if_absent=True) for setting in wanted]
    try:
        after = merge(before, additions)
    except NotJsonc:
        return
    assert is_within(substance(before), substance(after))
    assert before.count("/* \n */") <= after.count("/* \n */")  # the space inside a comment stays, too


@settings(max_examples=100, deadline=None)
@given(objects, st.sampled_from([None, 2, "\t"]), wanted)
def test_plain_json_stays_plain_json(value: Any, indent: int | str | None, wanted: list[Setting]) -> None:
    try:
        after = merge(json.dumps(value, indent=indent), wanted)
    except NotJsonc:
        return
    assert json.loads(after) == merge_plain(value, wanted)


SERVER = [
    Setting(("agent_servers", "ACP Bridge", "command"), "/bin/acp-bridge"),
    Setting(("agent_servers", "ACP Bridge", "args"), ["serve"]),
    Setting(("agent_servers", "ACP Bridge", "env"), {}, only_if_absent=True),
]
COMMENTED = """\
// my settings
{
    "theme": "One", // dark
    "agent_servers": {
        "Other": { "command": "x" }, // keep me
        // and me
    },
    /* the end */
}
"""
COMMENTED_AFTER = """\
// my settings
{
    "theme": "One", // dark
    "agent_servers": {
        "Other": { "command": "x" }, // keep me
        // and me
        "ACP Bridge": {
            "command": "/bin/acp-bridge",
            "args": ["serve"],
            "env": {}
        },
    },
    /* the end */
}
"""

MADE = """\
{
  "agent_servers": {
    "ACP Bridge": {
      "command": "/bin/acp-bridge",
      "args": ["serve"],
      "env": {}
    }
  }
}
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (COMMENTED, COMMENTED_AFTER),
        (COMMENTED.replace("\n", "\r\n"), COMMENTED_AFTER.replace("\n", "\r\n")),
        (
            "",
            MADE,
        ),
        (
            '{"a": 1}',
            '{"a": 1, "agent_servers": {"ACP Bridge": {"command": "/bin/acp-bridge", "args": ["serve"], "env": {}}}}',
        ),
        (
            '{\n\t"a": 1 // one\n}\n',
            MADE.replace("  ", "\t").replace("{", '{\n\t"a": 1, // one', 1),
        ),
        (
            '{"agent_servers": {"ACP Bridge": {"command": "/old", "env": {"K": "me"}}}}',
            '{"agent_servers": {"ACP Bridge": {"command": "/bin/acp-bridge", "env": {"K": "me"}, "args": ["serve"]}}}',
        ),
    ],
)
def test_what_is_added_has_the_style_of_its_surroundings(before: str, after: str) -> None:
    assert merge(before, SERVER) == after


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1', "line 1, column 8: a comma or '}' is expected here"),
        ('{\n"a" 1}', "line 2, column 5: a colon is expected here"),
        ("{'a': 1}", "line 1, column 2: a name in double quotes is expected here"),
        ('{"a": tru}', "line 1, column 7: a value is expected here"),
        ('{"a": "x\n"}', "line 1, column 7: a text that does not end on its line"),
        ('{"a": 1} /* x', "line 1, column 10: a comment that does not end"),
        ("{} {}", "line 1, column 4: something follows the end"),
        ("[" * 200, "line 1, column 102: it is nested more than 100 deep"),
        ("[]", "it is no object"),
        ('{"agent_servers": []}', "agent_servers is no object"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, why: str) -> None:
    with pytest.raises(NotJsonc) as refused:
        merge(text, SERVER)
    assert str(refused.value) == why


def test_of_a_name_that_comes_twice_the_last_one_counts() -> None:
    text = '{"agent_servers": {}, "agent_servers": {"ACP Bridge": {"command": "/old"}}}'
    assert plain_of(merge(text, SERVER)) == merge_plain(plain_of(text), SERVER)
