"""Lines to messages and back, without a wire."""

import itertools
import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_bridge.limits import DEPTH
from acp_bridge.rpc import (
    MAX_LINE_OUT,
    Failure,
    Invalid,
    LineDecoder,
    LineTooLong,
    Message,
    Notification,
    Request,
    RpcError,
    Success,
    encode,
)


def decoded(data: bytes) -> list[Message | Invalid]:
    return LineDecoder().feed(data)


def codes(data: bytes) -> list[tuple[Any, int]]:
    return [(found.id, found.code) for found in decoded(data) if isinstance(found, Invalid)]


def nested(levels: int) -> bytes:
    inner = b"[" * (levels - 2) + b"]" * (levels - 2)
    return b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":' + inner + b"}}\n"


@pytest.mark.parametrize(
    "message",
    [
        Request(1, "m", {"a": [1, None]}),
        Request("é", "m", {}),
        Request("", "m", {}),
        Request(0, "m", {}),
        Request(-1, "m", {}),
        Request(2**53 + 1, "m", {}),
        Request(2**63 - 1, "m", {}),
        Request(-(2**63), "m", {}),
        Request(None, "m", {}),
        Notification("m", {"text": "one\ntwo\u2028three\x00 𝄞"}),
        Success(1, None),
        Success("1", {"a": 1}),
        Failure(1, -32000, "log in first"),
        Failure(1, -32002, "no such session", {"sessionId": "x"}),
    ],
)
def test_a_message_comes_back_from_its_one_line_as_it_was(message: Message) -> None:
    line = encode(message)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    [back] = decoded(line)
    assert back == message
    assert type(back) is type(message)


def test_a_null_result_stays_and_missing_data_is_left_out() -> None:
    assert orjson.loads(encode(Success(1, None))) == {"jsonrpc": "2.0", "id": 1, "result": None}
    assert orjson.loads(encode(Failure(None, -32700, "no"))) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32700, "message": "no"},
    }


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"nonsense",
        b"\xef\xbb\xbf" + encode(Request(1, "m", {})).strip(),
        encode(Request(1, "m", {})).strip() + b"x",
        b"\x00" + encode(Request(1, "m", {})).strip(),
        b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1e999}}',
        b"\x0c",
    ],
)
def test_what_is_not_json_is_a_parse_error(line: bytes) -> None:
    assert codes(line + b"\n") == [(None, -32700)]


@pytest.mark.parametrize("bad_id", [b"true", b"1.0", b"1.5", b"{}", b"[]", b"18446744073709551616", b"9" * 40])
def test_an_id_that_could_be_taken_for_another_is_refused(bad_id: bytes) -> None:
    assert codes(b'{"jsonrpc":"2.0","method":"m","id":' + bad_id + b"}\n") == [(None, -32600)]


def test_an_unsigned_id_beyond_64_signed_bits_is_refused() -> None:
    assert codes(b'{"jsonrpc":"2.0","method":"m","id":%d}\n' % 2**63) == [(None, -32600)]


@pytest.mark.parametrize("line", [b"[]", b'[{"jsonrpc":"2.0","id":1,"method":"m"}]', b"1", b'"a"', b"null", b"true"])
def test_what_is_no_object_is_one_invalid_request(line: bytes) -> None:
    assert codes(line + b"\n") == [(None, -32600)]


def test_a_malformed_call_is_answered_with_its_id() -> None:
    assert codes(b'{"id":5,"method":"m"}\n') == [(5, -32600)]
    assert codes(b'{"jsonrpc":"1.0","id":"a","method":"m"}\n') == [("a", -32600)]
    assert codes(b'{"jsonrpc":"2.0","id":5,"method":7}\n') == [(5, -32600)]


def test_what_is_neither_a_call_nor_an_answer_is_invalid_and_its_id_is_not_used() -> None:
    assert codes(b'{"foo":"bar"}\n{}\n{"jsonrpc":"2.0","id":5}\n') == [(None, -32600)] * 3


def test_params_absent_or_null_are_empty() -> None:
    assert decoded(b'{"jsonrpc":"2.0","id":1,"method":"m"}\n') == [Request(1, "m", {})]
    assert decoded(b'{"jsonrpc":"2.0","id":1,"method":"m","params":null}\n') == [Request(1, "m", {})]


@pytest.mark.parametrize("params", [b"[]", b"1", b'"a"', b"false"])
def test_params_that_are_no_object_fail_a_request_and_silence_a_notification(params: bytes) -> None:
    assert codes(b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + params + b"}\n") == [(1, -32602)]
    assert decoded(b'{"jsonrpc":"2.0","method":"m","params":' + params + b"}\n") == []


def test_an_answer_without_an_id_is_ignored() -> None:
    assert decoded(b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}\n') == []
    assert decoded(b'{"jsonrpc":"2.0","id":1.5,"result":1}\n') == []
    assert decoded(b'{"jsonrpc":"2.0","id":true,"result":1}\n') == []


def test_of_an_answer_with_both_the_one_that_is_not_null_is_meant() -> None:
    assert decoded(b'{"jsonrpc":"2.0","id":1,"result":2,"error":null}\n') == [Success(1, 2)]
    assert decoded(b'{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"m"}}\n') == [
        Failure(1, 1, "m", None)
    ]
    [failure] = decoded(b'{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":"m"}}\n')
    assert failure == Failure(1, -32600, "the answer has both a result and an error")


def test_an_answer_whose_id_was_made_a_fraction_of_nought_answers_the_integer() -> None:
    assert decoded(b'{"jsonrpc":"2.0","id":1.0,"result":1}\n') == [Success(1, 1)]


HALF = "\ufffd"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"\ud83d", HALF),
        (r"\uDE00", HALF),
        (r"\ud83d\ude00", "\U0001f600"),
        (r"\ud83d\ud83d\ude00\ude00", f"{HALF}\U0001f600{HALF}"),
        (r"\\ud83d", r"\ud83d"),
        (r"\\\ud83d", "\\" + HALF),
        (r"\\ud83d\ude00", r"\ud83d" + HALF),
        (r"a\n\ud83dx", f"a\n{HALF}x"),
        (r"\ud83d\u0041", f"{HALF}A"),
    ],
)
def test_half_a_character_is_mended_and_the_message_is_taken(written: str, read: str) -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"%b"}}\n' % written.encode()
    assert decoded(line) == [Request(1, "m", {"a": read})]
    assert decoded(b'{"jsonrpc":"2.0","id":1,"result":{"%b":0}}\n' % written.encode()) == [Success(1, {read: 0})]


UNREADABLE = {
    "bytes that are no UTF-8": b'{"content":"\xe4"}',
    "a number that JSON has not": b'{"content":"","_meta":NaN}',
    "too deep": b'{"content":"","_meta":' + b"[" * DEPTH + b"]" * DEPTH + b"}",
    "deeper than the parser goes": b'{"content":"","_meta":' + b"[" * 2000 + b"]" * 2000 + b"}",
    "cut off": b'{"content":"and then',
}


@pytest.mark.parametrize("ends_with_id", [False, True])
@pytest.mark.parametrize("result", UNREADABLE.values(), ids=UNREADABLE)
def test_an_answer_that_cannot_be_read_says_whose_it_was(result: bytes, ends_with_id: bool) -> None:
    first, last = (b"", b',"id":7') if ends_with_id and not result.endswith(b"then") else (b'"id":7,', b"")
    [refusal] = decoded(b'{"jsonrpc":"2.0",' + first + b'"result":' + result + last + b"}\n")
    assert isinstance(refusal, Invalid)
    assert (refusal.id, refusal.answers) == (None, 7)


@pytest.mark.parametrize("ends_with_id", [False, True])
def test_a_line_that_is_too_long_says_whose_it_was(ends_with_id: bool) -> None:
    first, last = (b"", b',"id":"x"') if ends_with_id else (b'"id":"x",', b"")
    for member, whose in ((b'"method":"m","params"', ("x", None)), (b'"error"', (None, "x")), (b'"odd"', (None, None))):
        decoder = LineDecoder(max_line=20_000)
        head = b'{"jsonrpc":"2.0",' + first + member + b':{"id":1,"text":"\\"}id:2'
        found = decoder.feed(head)
        for _ in range(30):
            found += decoder.feed(b"x" * 1000)
        [refusal] = found + decoder.feed(b'"}' + last + b"}\n")
        assert isinstance(refusal, Invalid)
        assert (refusal.id, refusal.answers) == whose


def test_an_id_inside_of_params_is_nobodys() -> None:
    for line in (
        b'{"jsonrpc":"2.0","method":"m","params":{"id":5',
        b'{"jsonrpc":"2.0","method":"m","params":{"a":NaN,"id":5}}',
    ):
        [refusal] = decoded(line + b"\n")
        assert isinstance(refusal, Invalid)
        assert refusal[:2] == (None, -32700)


@pytest.mark.parametrize("error", [b"null", b"1", b"{}", b'{"code":"x","message":3}'])
def test_a_malformed_error_is_still_a_failure(error: bytes) -> None:
    [failure] = decoded(b'{"jsonrpc":"2.0","id":1,"error":' + error + b"}\n")
    assert failure == Failure(1, -32603, "the other side failed and did not say how", None)


def test_of_duplicate_keys_the_last_wins() -> None:
    assert decoded(b'{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}\n') == [Request(1, "b", {})]


def test_unknown_members_are_ignored() -> None:
    assert decoded(b'{"jsonrpc":"2.0","id":1,"method":"m","more":[1]}\n') == [Request(1, "m", {})]


def test_blank_lines_spaces_and_carriage_returns_are_tolerated() -> None:
    line = encode(Notification("m", {})).strip()
    assert decoded(b"\n  \n\r\n\t\r\n " + line + b" \r\n\n") == [Notification("m", {})]


def test_half_a_line_says_nothing() -> None:
    assert decoded(encode(Notification("m", {}))[:-1]) == []


def test_nesting_is_taken_up_to_the_limit_and_refused_beyond() -> None:
    assert len(decoded(nested(DEPTH))) == 1
    assert codes(nested(DEPTH)) == []
    assert codes(nested(DEPTH).replace(b'"a":', b'"b":[[],[]],"a":')) == []  # more brackets, not deeper
    for levels in (DEPTH + 1, 255, 1000, 1024, 1025, 100_000):
        assert codes(nested(levels)) == [(1, -32600)], levels


def test_brackets_side_by_side_or_in_text_are_no_nesting() -> None:
    assert codes(encode(Notification("m", {"a": [{}] * 1000, "text": "[{" * 1000}))) == []


def test_a_line_of_the_greatest_length_is_taken_and_a_longer_one_answered_once() -> None:
    line = encode(Notification("m", {}))
    decoder = LineDecoder(max_line=len(line) - 1)
    assert decoder.feed(line) == [Notification("m", {})]
    longer = b" " + line
    [refusal] = decoder.feed(longer)
    assert isinstance(refusal, Invalid)
    assert refusal[:2] == (None, -32600)
    assert decoder.feed(longer * 2 + line) == [refusal, refusal, Notification("m", {})]


def test_a_line_that_is_too_long_is_not_held() -> None:
    decoder = LineDecoder(max_line=1000)
    for _ in range(100):
        assert decoder.feed(b"x" * 999) == []
        assert len(decoder._lines.under_way) <= 1000
    assert len(decoder.feed(b"x\n")) == 1


STREAM = b"".join(
    [
        encode(Request(1, "é𝄞", {"a": "\u2028"})),
        b"\r\n  \n[1]\nnonsense\n" + b"x" * 70 + b"\n",
        encode(Success("a", None)),
        b'{"jsonrpc":"2.0","id":1.0,"method":"m"}\r\n',
        encode(Failure(2, -1, "no", [1])),
        encode(Notification("m", {})),
        b'{"half"',
    ]
)


@settings(max_examples=200, deadline=None, database=None)
@given(st.lists(st.integers(0, len(STREAM)), max_size=40))
def test_however_the_bytes_are_split_the_messages_are_the_same(cuts: list[int]) -> None:
    whole = LineDecoder(max_line=64).feed(STREAM)
    decoder = LineDecoder(max_line=64)
    found: list[Message | Invalid] = []
    for start, end in itertools.pairwise([0, *sorted(cuts), len(STREAM)]):
        found += decoder.feed(STREAM[start:end])
    assert len(whole) == 8
    assert found == whole


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None, database=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "jsonrpc": st.just("2.0") | json_values,
            "id": json_values,
            "method": st.just("m") | json_values,
            "params": json_values,
            "result": json_values,
            "error": json_values,
        },
    )
    | json_values
)
def test_any_json_on_a_line_gives_one_message_at_most_that_can_be_answered(document: Any) -> None:
    found = decoded(json.dumps(document).encode() + b"\n")
    assert len(found) <= 1
    for message in found:
        if isinstance(message, Invalid):
            encode(Failure(message.id, message.code, message.message))


@settings(max_examples=200, deadline=None, database=None)
@given(st.binary(max_size=40))
def test_any_bytes_are_answered_or_ignored(data: bytes) -> None:
    assert len(decoded(data + b"\n")) <= data.count(b"\n") + 1


def test_a_long_line_that_comes_one_byte_at_a_time_is_taken_in_linear_time() -> None:
    line = encode(Notification("m", {"a": "x" * 1_000_000}))
    decoder = LineDecoder()
    found: list[Message | Invalid] = []
    for at in range(len(line)):  # half a second; a decoder that copies what it holds needs minutes
        found += decoder.feed(line[at : at + 1])
    assert [encode(message) for message in found if not isinstance(message, Invalid)] == [line]


def test_a_line_beyond_what_clients_take_is_not_made() -> None:
    room = MAX_LINE_OUT - 1 - len(encode(Success(1, "")))
    assert len(encode(Success(1, "x" * room))) == MAX_LINE_OUT - 1
    with pytest.raises(LineTooLong) as caught:
        encode(Success(1, "x" * (room + 1)))
    assert isinstance(caught.value, RpcError)
    assert caught.value.code == -32603


@pytest.mark.parametrize("result", ["\ud800", 2**64, {1}, {1: 2}])
def test_what_no_json_can_say_is_a_type_error(result: Any) -> None:
    with pytest.raises(TypeError):
        encode(Success(1, result))
