"""What OpenAI-compatible servers do differently, and how our messages are dressed for them."""

import base64
from typing import Any

import anyio
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.server import STALL, event, head, serving

from acp_bridge.content import Image, JsonObject, Resource, ResourceLink, Text, Thought, ToolRequest, Usage
from acp_bridge.limits import KEPT
from acp_bridge.llm import (
    Delta,
    Endpoint,
    Failed,
    Finished,
    Kept,
    Options,
    TextDelta,
    ThoughtDelta,
    ToolDelta,
    open_model,
)
from acp_bridge.llm.failures import Provider
from acp_bridge.llm.openai import request_body
from acp_bridge.llm.openai_answer import OpenAIAnswer
from acp_bridge.session import FromAssistant, FromTools, FromUser, Message, ModelRequest, ToolAnswer

PROVIDER = Provider("server", "http://127.0.0.1:1")
ENDPOINT = Endpoint(provider="openai", model="m", base_url="http://127.0.0.1:1")


def answer(*chunks: Any) -> list[Delta]:
    reading = OpenAIAnswer(PROVIDER)
    deltas = [delta for chunk in chunks for delta in reading.take(orjson.dumps(chunk))]
    return deltas if deltas and isinstance(deltas[-1], Failed) else [*deltas, reading.end()]


def delta(reason: str | None = None, **fields: Any) -> JsonObject:
    return {"choices": [{"delta": fields, "finish_reason": reason}]}


def calls(*pieces: JsonObject) -> list[tuple[str, str]]:
    """Return name and whole arguments of each tool call that the pieces make, one piece a chunk."""
    found: dict[int, tuple[str, str]] = {}
    for got in answer(*(delta(tool_calls=[piece]) for piece in pieces), delta("tool_calls")):
        if isinstance(got, ToolDelta):
            name, arguments = found.get(got.index, ("", ""))
            found[got.index] = (name + got.name, arguments + got.arguments)
    assert list(found) == sorted(found)
    return list(found.values())


def piece(arguments: Any = None, name: str | None = None, **place: Any) -> JsonObject:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**place, "function": function}


A, B = '{"a": 1}', '{"b": 2}'


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [piece("", "f", index=0, id="1"), piece(A, index=0), piece("", "g", index=1, id="2"), piece(B, index=1)],
            id="as specified",
        ),
        pytest.param([piece(A, "f", index=0, id="1"), piece(B, "g", index=0, id="2")], id="one index for all"),
        pytest.param([piece(A, "f", index=0), piece(B, "g", index=0)], id="one index, no ids"),
        pytest.param([piece(A, "f", id="1"), piece(B, "g", id="2")], id="no index"),
        pytest.param([piece(A, "f"), piece(B, "g")], id="neither"),
        pytest.param([piece(A, "f", index=0, id="x"), piece(B, "g", index=1, id="x")], id="one id for all"),
        pytest.param([piece('{"a"', "f"), piece(": 1}"), piece('{"b": ', "g"), piece("2}")], id="neither, in pieces"),
        pytest.param(
            [
                piece('{"a"', "f", index=0, id="1"),
                piece(": 1}", "f", index=0, id="1"),
                piece('{"b": ', "g", index=1, id="2"),
                piece("2}", "g", index=1, id="2"),
            ],
            id="name and id in every piece",
        ),
        pytest.param(
            [piece('{"a"', "f", index=0), piece(": 1}", "f", index=0), piece(B, "g", index=1)], id="name in every piece"
        ),
        pytest.param([piece({"a": 1}, "f", index=0), piece({"b": 2}, "g", index=1)], id="objects for strings"),
        pytest.param(
            [
                piece("", "f", index=0, id="1"),
                piece("", "g", index=1, id="2"),
                piece('{"a"', index=0),
                piece('{"b": ', index=1),
                piece(": 1}", index=0),
                piece("2}", index=1),
            ],
            id="interleaved",
        ),
        pytest.param([piece("", "f", index=3, id="1"), piece(A, index=3), piece(B, "g", index=7)], id="gaps"),
        pytest.param([piece(None, index=0, id="1"), piece(A, "f", index=0), piece(B, "g", index=1)], id="late name"),
        pytest.param(
            [piece('{"a"', "f", index=0, id="1"), piece(": 1}", index=0, id="7"), piece(B, "g", index=1, id="8")],
            id="a new id for every piece",
        ),
        pytest.param(
            [
                piece('{"a"', "f", index=0, id="x"),
                piece('{"b": ', "g", index=1, id="x"),
                piece(": 1}", index=0, id="x"),
                piece("2}", index=1, id="x"),
            ],
            id="interleaved, one id",
        ),
        pytest.param(
            [
                piece("", "f", index=0, id="1"),
                piece("", "g", index=0, id="2"),
                piece(A, index=0, id="1"),
                piece(B, index=0, id="2"),
            ],
            id="interleaved, one index",
        ),
        pytest.param([piece(A, "f", index=0, id=None), piece(B, "g", index=1, id="")], id="null and empty ids"),
    ],
)
def test_two_tool_calls_are_two_whatever_ids_and_indices_come(pieces: list[JsonObject]) -> None:
    found = [(name, orjson.loads(arguments)) for name, arguments in calls(*pieces)]
    assert found == [("f", {"a": 1}), ("g", {"b": 2})]


def test_two_calls_of_one_tool_with_equal_arguments_stay_two() -> None:
    assert calls(piece(A, "f", index=0, id="1"), piece(A, "f", index=0, id="2")) == [("f", A), ("f", A)]


def test_calls_without_arguments_are_told_apart_by_name_alone() -> None:
    assert calls(piece("", "f"), piece("", "g")) == [("f", ""), ("g", "")]


def test_a_call_without_arguments_is_asked_for() -> None:
    assert calls(piece(None, "f", index=0, id="1")) == [("f", "")]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_a_thought_under_either_name(name: str) -> None:
    assert answer(delta(**{name: "hm"}), delta("stop", content="a"))[0] == ThoughtDelta("hm", form=name)


def test_content_in_parts_is_read() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}]
    assert answer(delta("stop", content=parts)) == [ThoughtDelta("hm", form="content"), TextDelta("a"), Finished("end")]


def test_a_refusal_is_told_with_its_words() -> None:
    assert answer(delta(refusal="no"), delta("stop")) == [TextDelta("no"), Finished("refusal")]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 50,
                "prompt_tokens_details": {"cached_tokens": 60},
                "completion_tokens_details": {"reasoning_tokens": 20},
            },
            Usage(input_tokens=40, output_tokens=30, cached_read_tokens=60, thought_tokens=20),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 1}, Usage(input_tokens=9, output_tokens=1)),
        (
            {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4},
            Usage(input_tokens=5, output_tokens=1, cached_read_tokens=4),
        ),
        (
            {"prompt_tokens": 5, "completion_tokens": 1, "completion_tokens_details": {"reasoning_tokens": 7}},
            Usage(input_tokens=5, output_tokens=1, thought_tokens=7),
        ),
        ({"prompt_tokens": 2**64 - 1, "completion_tokens": -1}, Usage(input_tokens=2**53)),
        ({"prompt_tokens": None, "completion_tokens": "7", "prompt_tokens_details": None}, Usage()),
    ],
)
def test_usage_is_told_in_disjoint_counts(usage: JsonObject, expected: Usage) -> None:
    got = answer(delta("stop", content="a"), {"choices": [], "usage": usage})
    assert got[-1] == Finished("end", expected)


def test_calls_are_the_reason_even_where_the_server_says_stop() -> None:
    assert answer(delta("stop", tool_calls=[piece(A, "f", index=0)]))[-1] == Finished("tools")


def ended(*payloads: Any) -> list[Delta]:
    """Return the deltas of payloads of which the last says that the stream is done, without a reason."""
    reading = OpenAIAnswer(PROVIDER)
    deltas = [d for payload in (*payloads, b"[DONE]") for d in reading.take(_bytes(payload))]
    assert reading.done
    return [*deltas, reading.end()]


def _bytes(payload: Any) -> bytes:
    return payload if isinstance(payload, bytes) else orjson.dumps(payload)


@pytest.mark.parametrize("reason", [None, ""])
def test_done_is_an_end_without_a_reason(reason: str | None) -> None:
    assert ended(delta(reason, content="a")) == [TextDelta("a"), Finished("end")]
    assert ended(delta(reason, tool_calls=[piece(A, "f", index=0)]))[-1] == Finished("tools")
    assert ended(delta("length", content="a"))[-1] == Finished("length")
    assert isinstance(ended(delta(reason))[-1], Failed)  # nothing was said


def test_an_answer_that_breaks_off_without_done_and_reason_is_no_answer() -> None:
    assert isinstance(last := answer(delta(content="a"))[-1], Failed)
    assert last.failure.kind == "broken_stream"


def test_the_older_form_of_a_call_is_one() -> None:
    got = answer(delta(function_call={"name": "f", "arguments": '{"a"'}), delta(function_call={"arguments": ": 1}"}))
    assert got[:-1] == [ToolDelta(0, "f", '{"a"'), ToolDelta(0, "", ": 1}")]


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (b'error: {"code":400,"message":"too many images","type":"invalid_request_error"}\n\n', "bad_request"),
        (b'error: {"error":{"code":503,"message":"too many images"}}\n\n', "overloaded"),
        (b"error: too many images\n\n", "overloaded"),
        (b'data: {"error":{"code":429,"message":"too many images"}}\n\n', "rate_limit"),
        (b'data: {"error":"too many images"}\n\n', "overloaded"),
        (b'event: error\ndata: {"message":"too many images","code":400}\n\n', "bad_request"),
        (
            b'data: {"object":"error","message":"too many images","type":"BadRequestError","code":400}\n\n',
            "bad_request",
        ),
        (b'data: {"detail":"too many images"}\n\n', "overloaded"),
        (b'data: [{"error":{"code":400,"message":"too many images","status":"INVALID_ARGUMENT"}}]\n\n', "bad_request"),
    ],
)
async def test_an_error_in_a_200_is_shown_however_the_server_frames_it(frame: bytes, kind: str) -> None:
    for said in ([], [event(delta(content="a"))]):
        async with serving([[head(), *said, frame, event("[DONE]")]]) as server:
            model = open_model("llamacpp:m", Options(base_urls={"llamacpp": f"{server.url}/v1"}))
            request = ModelRequest(route="r", system="", messages=(FromUser((Text(text="hi"),)),))
            with anyio.fail_after(2):
                *_, last = [d async for d in model.stream(request)]
            await model.aclose()
        assert isinstance(last, Failed)
        assert "too many images" in last.failure.message
        assert last.failure.kind == kind


@pytest.mark.parametrize("reason", ["error", "insufficient_system_resource"])
def test_a_server_that_gives_up_is_overloaded(reason: str) -> None:
    assert isinstance(last := answer(delta(content="a"), delta(reason))[-1], Failed)
    assert (last.failure.kind, last.retryable) == ("overloaded", True)


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"message": "x", "code": 429}, "rate_limit", True),
        ({"message": "x", "code": 502}, "overloaded", True),
        ({"message": "x", "type": "exceed_context_size_error", "code": 400}, "context_overflow", False),
        ({"message": "x", "code": "insufficient_quota", "type": "insufficient_quota"}, "rate_limit", False),
        ({"message": "This model's maximum context length is 8192 tokens"}, "context_overflow", False),
        ("something", "overloaded", True),
        ({"message": "x", "type": "invalid_request_error"}, "bad_request", False),
    ],
)
def test_error_objects_in_a_stream_are_read_by_code_type_and_words(error: Any, kind: str, retryable: bool) -> None:
    assert isinstance(last := answer({"error": error})[-1], Failed)
    assert (last.failure.kind, last.retryable) == (kind, retryable)


@pytest.mark.parametrize(
    "chunk", [{"choices": 3}, {"choices": ["x"]}, {"choices": [{"delta": {"tool_calls": [7]}}]}, {"choices": {"a": 1}}]
)
def test_a_chunk_of_a_strange_shape_breaks_the_stream_and_nothing_else(chunk: JsonObject) -> None:
    assert isinstance(last := answer(chunk)[-1], Failed)
    assert last.failure.kind == "broken_stream"


@given(st.binary(max_size=300))
def test_no_payload_raises(payload: bytes) -> None:
    reading = OpenAIAnswer(PROVIDER)
    reading.take(payload)
    reading.end()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "delta", "error", "usage", "content", "tool_calls", "function", "index", "id"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@given(JSON)
def test_no_shape_of_json_raises(value: Any) -> None:
    reading = OpenAIAnswer(PROVIDER)
    reading.take(orjson.dumps(value))
    reading.end()


async def test_a_server_that_holds_the_connection_after_its_last_word_does_not_hold_the_answer() -> None:
    chunks = [event(delta("stop", content="a")), event("[DONE]")]
    async with serving([[head(), *chunks, STALL]]) as server:
        model = open_model("llamacpp:m", Options(base_urls={"llamacpp": f"{server.url}/v1"}))
        request = ModelRequest(route="r", system="", messages=(FromUser((Text(text="hi"),)),))
        with anyio.fail_after(2):
            assert [d async for d in model.stream(request)] == [TextDelta("a"), Finished("end")]
        await model.aclose()


# --- our messages, dressed


def body(*messages: Message, endpoint: Endpoint = ENDPOINT, **fields: Any) -> JsonObject:
    return request_body(ModelRequest(route="r", system="", messages=messages, **fields), endpoint)


def call(call_id: str, arguments: str = "{}") -> ToolRequest:
    return ToolRequest(call_id=call_id, name="f", arguments=arguments, title="F")


def test_a_conversation_is_dressed_whole() -> None:
    messages = (
        FromUser((Text(text="hi"), Text(text="there"))),
        FromAssistant((Thought(text="hm"), Text(text="I look."), call("c1", A))),
        FromTools((ToolAnswer("c1", (Text(text="out"),), is_error=False),)),
        FromAssistant((Text(text="done"),)),
    )
    tool = {"name": "f", "description": "d", "parameters": {"type": "object"}}
    request = ModelRequest(route="r", system="sys", messages=messages, tools=(tool,), options={"temperature": 0})
    assert request_body(request, ENDPOINT) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": tool}],
        "temperature": 0,
        "messages": [
            {"role": "system", "content": "sys"},
            {"role": "user", "content": "hi\n\nthere"},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": A}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "out"},
            {"role": "assistant", "content": "done"},
        ],
    }


def test_links_and_attached_texts_are_told_with_their_address() -> None:
    link = ResourceLink(uri="file:///a.py", name="a.py", description="the entry")
    resource = Resource(uri="file:///b.md", text="see ```x```")
    (message,) = body(FromUser((link, resource)))["messages"]
    assert message["content"] == ("[a.py](file:///a.py) (the entry)\n\nfile:///b.md:\n````\nsee ```x```\n````")


def test_pictures_are_sent_as_data_or_told_to_be_lost() -> None:
    picture = Image(mime_type="image/png", file="d1", size=3)
    sent = body(FromUser((Text(text="what?"), picture)), files={"d1": b"png"})["messages"][0]["content"]
    url = f"data:image/png;base64,{base64.b64encode(b'png').decode()}"
    assert sent == [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": url}}]
    assert "is lost" in body(FromUser((picture,)))["messages"][0]["content"]
    blind = Endpoint(provider="openai", model="m", base_url="http://x", takes_images=False)
    assert "left out" in body(FromUser((picture,)), endpoint=blind, files={"d1": b"png"})["messages"][0]["content"]


def test_a_picture_in_a_tool_result_follows_in_a_message_of_the_user() -> None:
    picture = Image(mime_type="image/png", file="d1", size=3)
    messages = (
        FromUser((Text(text="hi"),)),
        FromAssistant((call("c1"),)),
        FromTools((ToolAnswer("c1", (Text(text="out"), picture), is_error=False),)),
    )
    *_, tool, user = body(*messages, files={"d1": b"png"})["messages"]
    assert tool["role"] == "tool"
    assert [part["type"] for part in user["content"]] == ["text", "image_url"]


@pytest.mark.parametrize("arguments", ["{broken", "", "[1]", "7", "null"])
def test_tool_arguments_are_sent_back_as_a_json_object_in_any_case(arguments: str) -> None:
    messages = body(FromUser((Text(text="hi"),)), FromAssistant((call("c", arguments),)))["messages"]
    sent = orjson.loads(messages[1]["tool_calls"][0]["function"]["arguments"])
    assert sent == ({"malformed_arguments": arguments} if arguments else {})


def test_thoughts_alone_are_no_message() -> None:
    assert len(body(FromUser((Text(text="hi"),)), FromAssistant((Thought(text="hm"),)))["messages"]) == 1


def test_mistral_gets_ids_of_nine_letters_and_no_option_that_it_refuses() -> None:
    mistral = Endpoint(provider="mistral", model="m", base_url="http://x")
    made = body(
        FromUser((Text(text="hi"),)),
        FromAssistant((call("t1-s1-0"), call("t1-s1-1"))),
        FromTools((ToolAnswer("t1-s1-0", (), is_error=False), ToolAnswer("t1-s1-1", (), is_error=False))),
        endpoint=mistral,
    )
    _, assistant, *results = made["messages"]
    ids = [c["id"] for c in assistant["tool_calls"]]
    assert ids == [result["tool_call_id"] for result in results]
    assert len(set(ids)) == 2
    assert all(len(i) == 9 and i.isalnum() for i in ids)
    assert "stream_options" not in made


def test_thoughts_go_back_under_the_name_they_came_by_in_every_turn_and_to_their_own_route_alone() -> None:
    thinking = FromAssistant((Thought(text="hm", form="reasoning"), call("c")), "r")
    result = FromTools((ToolAnswer("c", (Text(text="o"),), is_error=False),))
    user = FromUser((Text(text="hi"),))
    foreign = FromAssistant(thinking.content, "another", {"opaque": 1})
    messages = body(user, thinking, result, user, thinking, result, user, foreign, result)["messages"]
    thoughts = [m.get("reasoning") for m in messages if m["role"] == "assistant"]
    assert thoughts == ["hm", "hm", None]
    assert "opaque" not in messages[-2]


def test_deepseek_gets_thoughts_back_that_an_earlier_version_logged() -> None:
    deepseek = Endpoint(provider="deepseek", model="m", base_url="http://x")
    thinking = FromAssistant((Thought(text="hm"), call("c")), "r")
    _, message = body(FromUser((Text(text="hi"),)), thinking, endpoint=deepseek)["messages"]
    assert message["reasoning_content"] == "hm"


def test_what_is_marked_as_thought_is_shown_as_one_and_its_mark_is_not_kept() -> None:
    google = {"google": {"thought": True}}
    got = answer(delta(content="<thought>hm", extra_content=google), delta("stop", content="a"))
    assert got == [ThoughtDelta("hm"), TextDelta("a"), Finished("end")]


def test_reasoning_that_comes_in_details_alone_is_shown_and_kept_as_a_detail() -> None:
    detail = {"type": "reasoning.text", "text": "hm", "index": 0}
    got = answer(delta(reasoning_details=[detail]), delta("stop", content="a"))
    assert got[0] == ThoughtDelta("hm")
    assert got[-1] == Finished("end", None, Kept({"reasoning_details": [detail]}))


def test_an_answer_that_brings_more_to_keep_than_the_bound_breaks_off() -> None:
    at_the_bound = delta(blob="x" * (KEPT - len('{"blob":""}')))
    assert answer(at_the_bound, delta("stop", content="a"))[-1] == Finished(
        "end", None, Kept({"blob": at_the_bound["choices"][0]["delta"]["blob"]})
    )
    assert isinstance(last := answer(at_the_bound, delta(blob=1))[-1], Failed)
    assert (last.failure.kind, last.retryable) == ("broken_stream", True)
