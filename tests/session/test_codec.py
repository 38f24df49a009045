"""Every event and header goes to JSON and back unchanged, and what is no record is refused by name."""

from dataclasses import replace
from typing import Any, get_args

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import EVENTS, HEADER, records, texts, values

from acp_bridge.session import (
    Event,
    Header,
    MalformedRecord,
    Record,
    StepEnded,
    UnknownEvent,
    decode_header,
    decode_record,
    encode_header,
    encode_record,
)
from acp_bridge.session.codec import dump_record, encode_event
from acp_bridge.text import MAX_SAFE_INTEGER, mended


def test_the_strategies_know_every_event_of_the_union() -> None:
    assert set(EVENTS) == set(get_args(Event))


@settings(max_examples=200, deadline=None)
@given(records)
def test_every_record_survives_json(record: Record) -> None:
    assert decode_record(orjson.loads(orjson.dumps(encode_record(record)))) == record


@settings(max_examples=100, deadline=None)
@given(records)
def test_a_record_is_the_same_bytes_whether_its_event_was_encoded_before_or_not(record: Record) -> None:
    on_its_way = replace(record, encoded=encode_event(record.event))
    assert on_its_way == record
    assert dump_record(on_its_way) == dump_record(record) == orjson.dumps(encode_record(record))


@settings(max_examples=100, deadline=None)
@given(st.builds(Header, created=st.integers(0, 2**53), session_id=texts, version=texts, cwd=texts,
                 roots=st.lists(texts, max_size=3).map(tuple), forked_from=st.none() | texts))  # fmt: skip
def test_every_header_survives_json(header: Header) -> None:
    assert decode_header(orjson.loads(orjson.dumps(encode_header(header)))) == header


@given(records, texts, values)
def test_an_unknown_member_is_ignored(record: Record, key: str, value: Any) -> None:
    envelope = encode_record(record)
    envelope["data"] = {f"x-{key}": value, **envelope["data"]}
    assert decode_record(envelope) == record


@given(records, st.data())
def test_a_record_that_lacks_a_member_is_malformed_or_means_its_default(record: Record, data: st.DataObject) -> None:
    envelope = encode_record(record)
    members: dict[str, Any] = envelope["data"]
    if not members:
        return
    missing = data.draw(st.sampled_from(sorted(members)))
    del members[missing]
    try:
        decoded = decode_record(envelope)
    except MalformedRecord:
        return
    assert decoded is not None
    assert missing not in encode_record(decoded)["data"]


@pytest.mark.parametrize("data", [None, [], "x", 7, {"turn": 1}])
def test_data_of_another_shape_is_malformed(data: object) -> None:
    with pytest.raises(MalformedRecord):
        decode_record({"type": "step/end", "seq": 0, "time": 0, "data": data})


@pytest.mark.parametrize("missing", ["type", "seq", "time", "data"])
def test_an_envelope_that_lacks_a_member_is_malformed(missing: str) -> None:
    envelope = encode_record(Record(0, 0, StepEnded(turn=1, step=1)))
    del envelope[missing]
    with pytest.raises(MalformedRecord):
        decode_record(envelope)


def test_an_unknown_type_is_refused_unless_it_may_be_ignored() -> None:
    envelope: dict[str, Any] = {"type": "weather/changed", "seq": 0, "time": 0, "data": {}}
    with pytest.raises(UnknownEvent, match="weather/changed"):
        decode_record(envelope)
    for almost in (False, 1, "true", None):
        with pytest.raises(UnknownEvent):
            decode_record({**envelope, "ignorable": almost})
    assert decode_record({**envelope, "ignorable": True}) is None


def test_a_synthetic_record_says_so_and_a_real_one_says_nothing() -> None:
    event = StepEnded(turn=1, step=1)
    assert encode_record(Record(3, 5, event, synthetic=True)) == {
        "type": "step/end",
        "seq": 3,
        "time": 5,
        "data": {"turn": 1, "step": 1},
        "synthetic": True,
    }
    assert "synthetic" not in encode_record(Record(3, 5, event))


def test_the_header_needs_its_members() -> None:
    with pytest.raises(MalformedRecord):
        decode_header({key: value for key, value in encode_header(HEADER).items() if key != "cwd"})


# --- mending ---

wild = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(st.characters(), max_size=4) | st.integers(), inner, max_size=3)
    ),
    max_leaves=12,
)


def _plain(value: object) -> bool:
    match value:
        case None | bool() | str():
            return True
        case int():
            return abs(value) <= MAX_SAFE_INTEGER
        case float():
            return value == value and value not in (float("inf"), float("-inf"))
        case list():
            return all(map(_plain, value))
        case dict():
            return all(isinstance(key, str) and _plain(item) for key, item in value.items())
        case _:
            return False


@settings(max_examples=150, deadline=None)
@given(wild)
def test_what_is_mended_is_lossless_json_and_is_mended_once(value: object) -> None:
    once = mended(value)
    assert _plain(once)
    assert orjson.loads(orjson.dumps(once)) == once
    assert mended(once) == once


@given(values)
def test_what_is_whole_is_left_as_it_is(value: object) -> None:
    assert mended(value) == value


def test_what_lies_too_deep_is_kept_as_text() -> None:
    deep: object = "end"
    for _ in range(200):
        deep = [deep]
    assert orjson.loads(orjson.dumps(mended(deep))) == mended(deep)
