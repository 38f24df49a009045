"""Every member of a provider's events in every type that JSON has: an answer, or one that broke off; never a defect."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import orjson
import pytest

from acp_bridge.content import Usage
from acp_bridge.limits import EVENT_DEPTH
from acp_bridge.llm import Delta, Failed, Finished, Sanitizer, ToolDelta
from acp_bridge.llm.anthropic_answer import AnthropicAnswer
from acp_bridge.llm.contained import problem_of
from acp_bridge.llm.failures import Provider
from acp_bridge.llm.openai_answer import OpenAIAnswer

PROVIDER = Provider("server", "http://127.0.0.1:1")
SIGNED = {"google": {"thought_signature": "s"}}
DETAIL = {"type": "reasoning.text", "text": "a", "index": 0, "signature": "s"}
PARTS = [{"type": "text", "text": "x"}, {"type": "thinking", "thinking": [{"type": "text", "text": "y"}]}]
FUNCTION = {"name": "read_file", "arguments": '{"path":'}


def chunk(reason: str | None = None, /, **delta: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


OPENAI: list[Any] = [
    chunk(role="assistant", content="hi", reasoning_content="th", reasoning_details=[DETAIL], extra_content=SIGNED),
    chunk(content=PARTS),
    chunk(tool_calls=[{"index": 0, "id": "a", "type": "function", "extra_content": SIGNED, "function": FUNCTION}]),
    chunk(tool_calls=[{"index": 0, "id": "a", "function": {"arguments": '"x"}'}}]),
    chunk("tool_calls", function_call={"name": "f", "arguments": "{}"}, refusal="no"),
    {
        "choices": [],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 1},
        },
    },
]


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def more(index: int, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


END: list[Any] = [
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}},
    {"type": "message_stop"},
]
ANTHROPIC: list[Any] = [
    {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1, "cache_read_input_tokens": 0}}},
    start(0, type="thinking", thinking="", signature=""),
    more(0, type="thinking_delta", thinking="t"),
    more(0, type="signature_delta", signature="t"),
    {"type": "content_block_stop", "index": 0},
    start(1, type="redacted_thinking", data="zz"),
    start(2, type="text", text=""),
    more(2, type="text_delta", text="t"),
    start(3, type="tool_use", id="t", name="read_file", input={}, caller={"type": "direct"}),
    more(3, type="input_json_delta", partial_json='{"a":1}'),
    *END,
]

ODD: tuple[str, ...] = (
    *("null", "true", "false", "0", "-1", "1.5", "1e308", "NaN", "9" * 400, '""', '"x"', '"\\ud800"'),
    *("[]", "[null]", "[1]", '["x"]', "[{}]", "[[]]", "{}", '{"a":null}', '{"type":null}', '{"error":1}', '{"id":3}'),
    *('{"a":' * depth + "1" + "}" * depth for depth in (200, 300, 900, 5000)),
    *("[" * depth + "1" + "]" * depth for depth in (200, 900)),
)
_MARK = "here stands what is odd"


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*at, key))


def variants(event: Any) -> Iterator[bytes]:
    """Yield the event with each of its members replaced by each odd value, and without it."""
    for at in places(event):
        holder = {"event": deepcopy(event)}
        target: Any = holder
        for key in ("event", *at)[:-1]:
            target = target[key]
        last = ("event", *at)[-1]
        target[last] = _MARK
        text = orjson.dumps(holder["event"])
        yield from (text.replace(orjson.dumps(_MARK), odd.encode()) for odd in ODD)
        if at:
            del target[last]
            yield orjson.dumps(holder["event"])


def played(reading: OpenAIAnswer | AnthropicAnswer, payloads: Sequence[bytes]) -> list[Delta]:
    sanitizer, deltas = Sanitizer("server"), list[Delta]()
    for payload in payloads:
        for raw in reading.take(payload):
            deltas += sanitizer.take(raw)
            if deltas and isinstance(deltas[-1], Failed):
                return deltas
        if reading.done:
            break
    return [*deltas, *sanitizer.take(reading.end())]


@pytest.mark.parametrize(("make", "events"), [(OpenAIAnswer, OPENAI), (AnthropicAnswer, ANTHROPIC)])
def test_whatever_stands_where_in_an_event_is_an_answer_or_one_that_broke_off(make: Any, events: list[Any]) -> None:
    whole = [orjson.dumps(event) for event in events]
    assert isinstance(played(make(PROVIDER), whole)[-1], Finished)
    for i, event in enumerate(events):
        for odd in variants(event):
            deltas = played(make(PROVIDER), [*whole[:i], odd, *whole[i + 1 :]])
            assert [problem_of(delta) for delta in deltas if problem_of(delta)] == [], odd[:200]
            assert isinstance(last := deltas[-1], Finished | Failed), odd[:200]
            assert not isinstance(last, Failed) or last.failure.kind != "internal", odd[:200]


@pytest.mark.parametrize("make", [OpenAIAnswer, AnthropicAnswer])
def test_an_event_may_be_nested_as_deep_as_the_bound_and_no_deeper(make: Any) -> None:
    def nested(levels: int) -> bytes:
        return b'{"type":"ping","x":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"

    assert make(PROVIDER).take(nested(EVENT_DEPTH)) == []
    assert isinstance(failed := make(PROVIDER).take(nested(EVENT_DEPTH + 1))[-1], Failed)
    assert failed.failure.kind == "broken_stream"
    assert f"{EVENT_DEPTH} levels" in failed.failure.message


@pytest.mark.parametrize("odd", [["x"], "many", 3, {"prompt_tokens_details": [1], "completion_tokens_details": "x"}])
def test_counts_that_are_none_break_no_answer(odd: Any) -> None:
    payloads = [orjson.dumps(chunk("stop", content="hi")), orjson.dumps({"choices": [], "usage": odd})]
    assert isinstance(played(OpenAIAnswer(PROVIDER), payloads)[-1], Finished)
    begun = {"type": "message_start", "message": {"usage": odd}}
    payloads = [orjson.dumps(e) for e in (begun, start(0, type="text", text="hi"), *END)]
    assert isinstance(played(AnthropicAnswer(PROVIDER), payloads)[-1], Finished)


def test_counts_are_read_where_they_are_written_as_floats() -> None:
    usage = {"prompt_tokens": 12.0, "completion_tokens": 3.0}
    payloads = [orjson.dumps(chunk("stop", content="hi")), orjson.dumps({"choices": [], "usage": usage})]
    assert played(OpenAIAnswer(PROVIDER), payloads)[-1] == Finished("end", Usage(input_tokens=12, output_tokens=3))


def test_blocks_that_say_the_same_index_again_are_blocks_of_their_own() -> None:
    """Some servers that imitate the API number nothing."""
    events: list[Any] = [start(0, type="text", text="I look."), {"type": "content_block_stop", "index": 0}]
    for path in "abc":
        events += [start(0, type="tool_use", id=path, name="read_file", input={})]
        events += [more(0, type="input_json_delta", partial_json=f'{{"path":"{path}"}}')]
    deltas = played(AnthropicAnswer(PROVIDER), [orjson.dumps(event) for event in (*events, *END)])
    calls = [delta for delta in deltas if isinstance(delta, ToolDelta)]
    assert [(call.index, call.name or call.arguments) for call in calls] == [
        (0, "read_file"),
        (0, '{"path":"a"}'),
        (1, "read_file"),
        (1, '{"path":"b"}'),
        (2, "read_file"),
        (2, '{"path":"c"}'),
    ]


def test_arguments_that_come_as_an_object_are_read() -> None:
    events = [start(0, type="tool_use", id="t", name="f", input={}), more(0, type="input_json_delta")]
    events[1]["delta"]["partial_json"] = {"path": "a"}
    deltas = played(AnthropicAnswer(PROVIDER), [orjson.dumps(event) for event in (*events, *END)])
    assert ToolDelta(0, "", '{"path":"a"}') in deltas
