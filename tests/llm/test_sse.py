"""Bytes as events: what is joined, what is parted, what is thrown away, and how much is held."""

import orjson
import pytest

from acp_bridge.limits import ERROR_BODY, EVENT, MIB
from acp_bridge.llm.sse import EventTooLarge, NoEvents, SseDecoder


def test_an_event_ends_with_its_empty_line_also_after_carriage_returns() -> None:
    assert SseDecoder().feed(b"data: 1\r\n\r\ndata:2\r\n\r\n") == [b"1", b"2"]


def test_data_lines_of_one_event_are_joined_and_events_without_empty_lines_parted() -> None:
    assert SseDecoder().feed(b'data: {"a":\ndata: 1}\n\n') == [b'{"a":\n1}']
    assert SseDecoder().feed(b'data: {"a":1}\ndata: {"b":2}\r\ndata: [DONE]\n\n') == [b'{"a":1}', b'{"b":2}', b"[DONE]"]


def test_a_byte_order_mark_costs_no_event() -> None:
    assert SseDecoder().feed(b"\xef\xbb\xbfdata: 1\n\n") == [b"1"]


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (b'error: {"code":500,"message":"out of memory"}\n\n', {"code": 500, "message": "out of memory"}),
        (b"error: out of memory\n\n", "out of memory"),
        (b'event: error\ndata: {"message":"m"}\n\n', {"message": "m"}),
        (b'event:error\ndata: {"message":\ndata: "m"}\n\n', {"message": "m"}),
    ],
)
def test_an_error_by_its_name_is_one_by_its_member(frame: bytes, error: object) -> None:
    (payload,) = SseDecoder().feed(frame)
    assert orjson.loads(payload) == {"error": error}
    decoder = SseDecoder()
    decoder.feed(frame)
    assert decoder.feed(b"data: 1\n\n") == [b"1"]


@pytest.mark.parametrize(
    ("held", "more"),
    [
        (b"data:" + b"x" * (EVENT - 5), b"x"),
        ((b"data: " + b"x" * (MIB - 1) + b"\n") * (EVENT // MIB), b"data:\n"),
        ((b"data: " + b"x" * (MIB - 1) + b"\n") * (EVENT // MIB - 1) + b"data:" + b"x" * (MIB - 5), b"x"),
    ],
    ids=["one line", "many lines", "many lines and one under way"],
)
def test_an_event_is_held_up_to_its_bound_and_not_beyond(held: bytes, more: bytes) -> None:
    decoder = SseDecoder()
    assert decoder.feed(held) == []
    with pytest.raises(EventTooLarge):
        decoder.feed(more)
    assert not decoder._lines.under_way
    assert not decoder._data


def test_what_is_no_event_is_thrown_away_from_its_bound_on() -> None:
    for junk in (b"<p>x</p>\n" * (ERROR_BODY // 9 + 1), b"x" * (ERROR_BODY + 1)):
        decoder = SseDecoder()
        with pytest.raises(NoEvents):
            decoder.feed(junk)
        assert len(decoder.junk) <= ERROR_BODY


def test_junk_among_events_is_left_out_however_much_it_is() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: 1\n\n") == [b"1"]
    for _ in range(40):
        assert decoder.feed(b"x" * (EVENT // 16)) == []
    assert decoder.feed(b"\njunk\n\ndata: 2\n\n") == [b"2"]
    assert len(decoder.junk) <= ERROR_BODY
