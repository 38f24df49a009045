"""What is Anthropic's own: signed thoughts, caching marks, blocks, and counts."""

from base64 import b64encode
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pixels import png

from acp_bridge.content import Image, JsonObject, Text, Thought, ToolRequest, Usage
from acp_bridge.llm import Delta, Endpoint, Failed, Finished, TextDelta, ThoughtDelta, ToolDelta
from acp_bridge.llm.anthropic import render
from acp_bridge.llm.anthropic_answer import AnthropicAnswer
from acp_bridge.llm.failures import Provider
from acp_bridge.session import FromAssistant, FromTools, FromUser, Message, ModelRequest, ToolAnswer

PROVIDER = Provider("server", "http://127.0.0.1:1")
ENDPOINT = Endpoint(provider="anthropic", model="m", base_url="http://127.0.0.1:1", max_output_tokens=99)
MARK = {"cache_control": {"type": "ephemeral"}}


def answer(*events: Any) -> list[Delta]:
    reading = AnthropicAnswer(PROVIDER)
    deltas = [delta for event in events for delta in reading.take(orjson.dumps(event))]
    return deltas if deltas and isinstance(deltas[-1], Failed) else [*deltas, reading.end()]


def start(index: int, **block: Any) -> JsonObject:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **fields: Any) -> JsonObject:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def stop(reason: str) -> JsonObject:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}}


def body(*messages: Message, **fields: Any) -> JsonObject:
    return render(ModelRequest(route="r", system="", messages=messages, **fields), ENDPOINT).body


def user(text: str) -> FromUser:
    return FromUser((Text(text=text),))


def call(call_id: str, arguments: str = "{}") -> ToolRequest:
    return ToolRequest(call_id=call_id, name="f", arguments=arguments, title="F")


def result(call_id: str, text: str = "out", *, is_error: bool = False) -> FromTools:
    return FromTools((ToolAnswer(call_id, (Text(text=text),), is_error),))


def test_a_signed_thought_comes_with_its_signature_and_goes_back_with_it() -> None:
    got = answer(
        start(0, type="thinking", thinking=""),
        delta(0, type="thinking_delta", thinking="hm"),
        delta(0, type="signature_delta", signature="sig"),
        start(1, type="redacted_thinking", data="enc"),
        start(2, type="text", text=""),
        delta(2, type="text_delta", text="a"),
        stop("end_turn"),
    )
    assert got[:4] == [
        ThoughtDelta("hm", form="thinking"),
        ThoughtDelta("", "sig", "thinking"),
        ThoughtDelta("", "enc", "redacted_thinking"),
        TextDelta("a"),
    ]
    thoughts = (
        Thought(text="hm", signature="sig", form="thinking"),
        Thought(text="", signature="enc", form="redacted_thinking"),
        Thought(text="cut off"),
    )
    content = body(user("hi"), FromAssistant((*thoughts, Text(text="a")), "r"))["messages"][1]["content"]
    assert content == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "enc"},
        {"type": "text", "text": "a"},
    ]


def test_a_thought_that_is_shown_to_nobody_goes_back_signed_and_empty_and_not_as_a_redacted_one() -> None:
    thought = Thought(text="", signature="sig", form="thinking")
    content = body(user("hi"), FromAssistant((thought, Text(text="a")), "r"))["messages"][1]["content"]
    assert content[0] == {"type": "thinking", "thinking": "", "signature": "sig"}


def test_thoughts_that_an_earlier_version_logged_go_back_as_they_did() -> None:
    thoughts = (Thought(text="hm", signature="sig"), Thought(text="", signature="enc"), Thought(text="unsigned"))
    content = body(user("hi"), FromAssistant((*thoughts, Text(text="a")), "r"))["messages"][1]["content"]
    assert [part["type"] for part in content] == ["thinking", "redacted_thinking", "text"]


def test_a_signed_thought_goes_to_its_own_model_and_to_no_other() -> None:
    thought = Thought(text="hm", signature="sig", form="thinking")
    content = body(user("hi"), FromAssistant((thought, Text(text="a")), "anthropic:another"))["messages"][1]["content"]
    assert content == [{"type": "text", "text": "a"}]


def test_tool_calls_are_numbered_among_themselves() -> None:
    got = answer(
        start(0, type="text", text=""),
        delta(0, type="text_delta", text="a"),
        start(1, type="tool_use", id="x", name="f", input={}),
        delta(1, type="input_json_delta", partial_json=""),
        delta(1, type="input_json_delta", partial_json='{"a": 1}'),
        start(2, type="tool_use", id="y", name="g", input={"b": 2}),
        stop("tool_use"),
    )
    assert got[1:] == [
        ToolDelta(0, "f"),
        ToolDelta(0, "", '{"a": 1}'),
        ToolDelta(1, "g", '{"b":2}'),
        Finished("tools", Usage(output_tokens=2)),
    ]


def test_a_count_beyond_all_tokens_stays_within_what_json_carries() -> None:
    usage = {"input_tokens": 2**64 - 1, "cache_read_input_tokens": -5}
    text = (start(0, type="text", text=""), delta(0, type="text_delta", text="a"))
    got = answer({"type": "message_start", "message": {"usage": usage}}, *text, stop("end_turn"))
    assert got[-1] == Finished("end", Usage(input_tokens=2**53, output_tokens=2))


def test_counts_are_taken_over_and_stay_disjoint() -> None:
    usage = {"input_tokens": 3, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 7, "output_tokens": 1}
    text = (start(0, type="text", text=""), delta(0, type="text_delta", text="a"))
    got = answer({"type": "message_start", "message": {"usage": usage}}, *text, stop("end_turn"))
    assert got[-1] == Finished(
        "end", Usage(input_tokens=3, output_tokens=2, cached_read_tokens=5, cached_write_tokens=7)
    )


def test_a_full_window_is_a_context_overflow() -> None:
    assert isinstance(last := answer(stop("model_context_window_exceeded"))[-1], Failed)
    assert last.failure.kind == "context_overflow"


def test_events_of_later_versions_are_left_out() -> None:
    text = (start(0, type="text", text=""), delta(0, type="text_delta", text="a"), delta(0, type="citations_delta"))
    got = answer({"type": "novelty"}, *text, start(1, type="hologram"), stop("end_turn"))
    assert got == [TextDelta("a"), Finished("end", Usage(output_tokens=2))]


@pytest.mark.parametrize(
    "event",
    [{"type": "message_start", "message": 3}, start(0, type="tool_use"), delta(0, type="text_delta")],
)
def test_an_event_of_a_strange_shape_breaks_the_stream_and_nothing_else(event: JsonObject) -> None:
    assert isinstance(last := answer(event)[-1], Failed)
    assert last.failure.kind == "broken_stream"


JSON = st.recursive(
    st.none()
    | st.integers(-9, 9)
    | st.sampled_from(["message_start", "content_block_delta", "tool_use", "message_delta"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "message", "delta", "usage", "error", "index", "content_block", "input"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(JSON)
def test_no_shape_of_json_raises(value: Any) -> None:
    reading = AnthropicAnswer(PROVIDER)
    reading.take(orjson.dumps(value))
    reading.end()


# --- our messages, dressed


def test_a_conversation_is_dressed_whole_with_four_caching_marks() -> None:
    messages = (user("hi"), FromAssistant((Text(text="I look. "), call("c1", '{"a": 1}'))), result("c1"))
    tools = tuple({"name": name, "description": "d", "parameters": {"type": "object"}} for name in "fg")
    request = ModelRequest(route="r", system="sys", messages=messages, tools=tools, options={"top_k": 1})
    schema = {"description": "d", "input_schema": {"type": "object"}}
    assert render(request, ENDPOINT).body == {
        "model": "m",
        "max_tokens": 99,
        "stream": True,
        "system": [{"type": "text", "text": "sys", **MARK}],
        "tools": [{"name": "f", **schema}, {"name": "g", **schema, **MARK}],
        "top_k": 1,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi", **MARK}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "out"}], **MARK}
                ],
            },
        ],
    }


def test_results_and_the_users_words_after_them_are_one_message_with_the_results_first() -> None:
    messages = body(user("hi"), FromAssistant((call("c"),)), result("c", is_error=True), user("go on"))["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant", "user"]
    assert [part["type"] for part in messages[-1]["content"]] == ["tool_result", "text"]
    assert messages[-1]["content"][0]["is_error"] is True


@pytest.mark.parametrize("arguments", ["{broken", "", "[1]"])
def test_tool_arguments_go_back_as_an_object_in_any_case(arguments: str) -> None:
    messages = body(user("hi"), FromAssistant((call("c", arguments),)))["messages"]
    assert messages[1]["content"][0]["input"] == ({"malformed_arguments": arguments} if arguments else {})


def test_ids_are_sent_in_letters_that_are_taken() -> None:
    messages = body(user("hi"), FromAssistant((call("turn 1/ü"),)), result("turn 1/ü"))["messages"]
    sent = messages[1]["content"][0]["id"]
    assert sent == messages[2]["content"][0]["tool_use_id"]
    assert sent.isalnum()


def test_empty_texts_are_never_sent() -> None:
    messages = body(user(" "), FromAssistant((Text(text=" \n"), call("c"))), result("c", "", is_error=True))["messages"]
    assert messages[0]["content"][0]["text"] == "(nothing)"
    assert [part["type"] for part in messages[1]["content"]] == ["tool_use"]
    assert messages[2]["content"][0]["content"] == [{"type": "text", "text": "(nothing)"}]


@pytest.mark.parametrize("more", [(), (Text(text="\n\n"),)])
def test_an_assistant_message_of_thoughts_alone_is_left_out_and_its_neighbours_merged(more: tuple[Text, ...]) -> None:
    messages = body(user("a"), FromAssistant((Thought(text="hm", signature="s"), *more)), user("b"))["messages"]
    assert [[part["text"] for part in m["content"]] for m in messages] == [["a", "b"]]


def test_a_picture_in_a_tool_result_is_sent_inside_it() -> None:
    picture = Image(mime_type="image/png", file="d", size=3)
    answered = FromTools((ToolAnswer("c", (picture,), is_error=False),))
    messages = body(user("hi"), FromAssistant((call("c"),)), answered, files={"d": png()})["messages"]
    assert messages[2]["content"][0]["content"] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b64encode(png()).decode()}}
    ]
