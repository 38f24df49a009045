"""Pieces of what is not ours become whole again as their maker cut them."""

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_bridge.content import JsonObject
from acp_bridge.llm.opaque import Keeping, Kept, ids_in, with_ids


def joined(*pieces: JsonObject) -> JsonObject:
    keeping = Keeping()
    for piece in pieces:
        keeping.message(orjson.loads(orjson.dumps(piece)))
    return keeping.whole().message


def details(*items: JsonObject) -> list[JsonObject]:
    """Join items that come one a piece, as OpenRouter sends them."""
    return joined(*({"reasoning_details": [item]} for item in items))["reasoning_details"]


def test_text_is_joined_and_what_names_a_thing_is_said_once() -> None:
    assert joined({"t": "a", "type": "x"}, {"t": "b", "type": "x"}, {"t": "b", "type": "x"}) == {
        "t": "abb",
        "type": "x",
    }


def test_objects_are_joined_by_member_and_other_values_are_the_last_said() -> None:
    assert joined({"o": {"a": "1", "n": 1}}, {"o": {"a": "2", "n": 2, "b": True}}) == {
        "o": {"a": "12", "n": 2, "b": True}
    }


def test_nothing_is_kept_of_what_says_nothing() -> None:
    assert joined({"a": None, "b": "", "c": [], "d": {}}, {"a": None}) == {}
    assert not Kept()


def test_a_value_is_not_undone_by_a_later_null() -> None:
    assert joined({"o": {"a": "1"}}, {"o": {"a": None}}) == {"o": {"a": "1"}}


def test_a_signature_in_a_piece_of_its_own_ends_the_reasoning_of_its_index() -> None:
    text = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
    assert details(
        {**text, "text": "Let", "signature": None},
        {**text, "text": " me"},
        {**text, "signature": "sig"},
        {**text, "text": "Then", "index": 1},
    ) == [{**text, "text": "Let me", "signature": "sig"}, {**text, "text": "Then", "index": 1}]


def test_pieces_of_two_indices_may_alternate() -> None:
    assert details(
        {"index": 0, "text": "a"}, {"index": 1, "text": "x"}, {"index": 0, "text": "b"}, {"index": 1, "text": "y"}
    ) == [{"index": 0, "text": "ab"}, {"index": 1, "text": "xy"}]


def test_two_kinds_or_two_ids_under_one_index_stay_two() -> None:
    summary, encrypted = {"type": "s", "index": 0, "summary": "a"}, {"type": "e", "index": 0, "data": "x", "id": "1"}
    other = {"type": "e", "index": 0, "data": "y", "id": "2"}
    assert details(summary, encrypted, other, summary) == [{**summary, "summary": "aa"}, encrypted, other]


def test_reasoning_without_an_index_goes_on_until_it_is_signed() -> None:
    piece = {"type": "thinking", "thinking": "a", "signature": ""}
    assert details(piece, piece, {**piece, "thinking": "", "signature": "s"}, piece) == [
        {"type": "thinking", "thinking": "aa", "signature": "s"},
        piece,
    ]


def test_other_items_without_an_index_are_never_joined() -> None:
    citation = {"type": "url_citation", "url": "u"}
    assert details(citation, citation) == [citation, citation]
    assert joined({"l": [1, "a"]}, {"l": ["a", 2]}) == {"l": [1, "a", "a", 2]}


def test_the_parts_of_calls_are_kept_by_place() -> None:
    keeping = Keeping()
    keeping.call(1, {"extra_content": {"google": {"thought_signature": "s"}}})
    keeping.call(0, {"x": None})
    assert keeping.whole() == Kept({}, {1: {"extra_content": {"google": {"thought_signature": "s"}}}})


def test_ids_of_calls_are_found_and_replaced_wherever_they_stand() -> None:
    members = {"l": [{"id": "a", "text": "a"}, {"o": {"call_id": "b"}}], "id": 7}
    assert ids_in(members) == {"a", "b"}
    assert with_ids(members, {"a": "ours"}) == {"l": [{"id": "ours", "text": "a"}, {"o": {"call_id": "b"}}], "id": 7}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["index", "type", "id", "text", "signature", "x"]), inner, max_size=4)
    ),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.sampled_from("ab"), JSON, max_size=2)


# Whichever text is drawn first has hypothesis make its tables of Unicode, for more than a second where none are cached.
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(OBJECTS, max_size=5))
def test_no_shape_of_pieces_raises_and_what_is_made_is_json(pieces: list[Any]) -> None:
    orjson.dumps(joined(*pieces))


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1))
def test_text_comes_back_however_it_was_cut(pieces: list[str]) -> None:
    assert joined(*({"o": {"signed": piece}} for piece in pieces)) == {"o": {"signed": "".join(pieces)}}


@pytest.mark.parametrize("depth", [31, 100, 200])
def test_deep_nesting_is_kept_as_it_came(depth: int) -> None:
    value: Any = "x"
    for level in range(depth):
        value = {"a": value} if level % 2 else [value]
    assert joined({"deep": value}) == {"deep": value}
