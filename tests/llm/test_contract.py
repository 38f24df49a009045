"""What every adapter must do, against a server that is exact to the byte."""

import email.utils
import itertools
import threading
import time
from contextlib import aclosing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import anyio
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.dialects import KEY, USAGE, AnthropicDialect, Dialect, OpenAIDialect
from support.server import CHUNKED, CUT, LAST_CHUNK, STALL, Gate, Reply, Step, chunk, event, head, serving, sse, status

from acp_bridge.content import Text, ToolRequest
from acp_bridge.llm import Delta, Failed, Finished, Model, TextDelta, ThoughtDelta, ToolDelta
from acp_bridge.session import FromAssistant, FromTools, FromUser, ModelRequest, ToolAnswer

REQUEST = ModelRequest(route="x", system="be brief", messages=(FromUser((Text(text="hi"),)),))


@pytest.fixture(params=[OpenAIDialect(), AnthropicDialect()], ids=lambda dialect: dialect.name)
def speak(request: pytest.FixtureRequest) -> Dialect:
    return request.param


async def read(model: Model, request: ModelRequest = REQUEST) -> list[Delta]:
    with anyio.fail_after(5):
        async with aclosing(model.stream(request)) as stream:
            return [delta async for delta in stream]


async def answered(speak: Dialect, reply: Reply, **options: Any) -> list[Delta]:
    async with serving([reply]) as server:
        model = speak.open(server.url, **options)
        try:
            return await read(model)
        finally:
            await model.aclose()


async def failure(speak: Dialect, reply: Reply, **options: Any) -> Failed:
    last = (await answered(speak, reply, **options))[-1]
    assert isinstance(last, Failed)
    return last


def said(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


async def test_an_answer_arrives_as_thought_text_tools_and_usage(speak: Dialect) -> None:
    reply = sse(
        *speak.start(),
        *speak.thought("Hm."),
        *speak.text("I look."),
        *speak.tool(0, "read_file", '{"path":', ' "a"}'),
        *speak.tool(1, "list_files"),
        *speak.end("tools"),
    )
    assert await answered(speak, reply) == [
        ThoughtDelta("Hm.", form=speak.form),
        TextDelta("I look."),
        ToolDelta(0, "read_file"),
        ToolDelta(0, "", '{"path":'),
        ToolDelta(0, "", ' "a"}'),
        ToolDelta(1, "list_files"),
        Finished("tools", USAGE),
    ]


@pytest.mark.parametrize("cause", ["end", "length", "refusal"])
async def test_the_reason_of_the_end_is_told(speak: Dialect, cause: str) -> None:
    got = await answered(speak, sse(*speak.start(), *speak.text("a"), *speak.end(cause)))
    assert got[-1] == Finished(cause, USAGE)  # pyright: ignore[reportArgumentType]


async def test_a_request_is_made_once_with_the_key_and_the_stream_asked_for(speak: Dialect) -> None:
    async with serving([sse(*speak.start(), *speak.text("a"), *speak.end())]) as server:
        model = speak.open(server.url)
        await read(model)
        await model.aclose()
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", speak.path)
    assert request.json["stream"] is True
    assert KEY in request.headers.get("authorization", "") + request.headers.get("x-api-key", "")


async def test_code_points_and_lines_cut_anywhere_by_the_network_are_whole_again(speak: Dialect) -> None:
    body = b"".join(event(payload) for payload in (*speak.start(), *speak.text("naïve 🙂 ü"), *speak.end()))
    reply: list[Step] = [CHUNKED, *(chunk(body[i : i + 1]) for i in range(len(body))), LAST_CHUNK]
    assert said(await answered(speak, reply)) == "naïve 🙂 ü"


async def test_comments_and_junk_lines_are_left_out(speak: Dialect) -> None:
    payloads = [event(payload) for payload in (*speak.start(), *speak.text("ok"), *speak.end())]
    noise = b": keep-alive\n\nid: 7\nretry: 10\n\ndata: 17\n\ndata:\n\ndata\n\nwhat is this\n\n"
    assert said(await answered(speak, [head(), noise, noise.join(payloads)])) == "ok"


async def test_carriage_returns_and_a_missing_last_line_end_do_no_harm(speak: Dialect) -> None:
    body = b"".join(event(payload) for payload in (*speak.start(), *speak.text("ok"), *speak.end()))
    assert isinstance((await answered(speak, [head(), body.replace(b"\n", b"\r\n")]))[-1], Finished)
    assert isinstance((await answered(speak, [head(), body.rstrip(b"\n")]))[-1], Finished)


async def test_a_gigantic_line_arrives_whole(speak: Dialect) -> None:
    text = "x" * 3_000_000
    got = await answered(speak, sse(*speak.start(), *speak.text(text), *speak.end()))
    assert said(got) == text


async def test_words_arrive_before_the_answer_has_ended(speak: Dialect) -> None:
    gate = anyio.Event()
    first = [chunk(event(payload)) for payload in (*speak.start(), *speak.text("a"))]
    rest = [chunk(event(payload)) for payload in (*speak.text("b"), *speak.end())]
    async with serving([[CHUNKED, *first, Gate(gate), *rest, LAST_CHUNK]]) as server:
        model = speak.open(server.url)
        with anyio.fail_after(5):
            async with aclosing(model.stream(REQUEST)) as stream:
                assert await anext(stream) == TextDelta("a")
                gate.set()
                assert await anext(stream) == TextDelta("b")
        await model.aclose()


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        (400, "bad_request", False),
        (401, "auth", False),
        (403, "auth", False),
        (404, "bad_request", False),
        (408, "timeout", True),
        (429, "rate_limit", True),
        (500, "overloaded", True),
        (503, "overloaded", True),
        (529, "overloaded", True),
        (302, "bad_request", False),
    ],
)
async def test_a_status_is_a_typed_failure(speak: Dialect, code: int, kind: str, retryable: bool) -> None:
    reply = status(code, {"error": {"message": "so it is"}}, {"location": "http://127.0.0.1:9/"})
    last = await failure(speak, reply)
    assert (last.failure.kind, last.failure.status, last.retryable) == (kind, code, retryable)
    assert "so it is" in last.failure.message


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "9", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": email.utils.formatdate(time.time() - 60, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
async def test_what_the_provider_asks_to_wait_is_told(
    speak: Dialect, headers: dict[str, str], expected: float | None
) -> None:
    last = await failure(speak, status(429, {"error": {"message": "slow"}}, headers))
    assert last.retry_after_s == expected


async def test_a_retry_after_date_is_told_in_seconds(speak: Dialect) -> None:
    date = email.utils.formatdate(time.time() + 100, usegmt=True)
    last = await failure(speak, status(529, None, {"retry-after": date}))
    assert last.retry_after_s is not None
    assert 90 < last.retry_after_s <= 100


async def test_a_context_that_does_not_fit_is_told_apart(speak: Dialect) -> None:
    for code in (400, 413):
        last = await failure(speak, status(code, speak.overflow()))
        assert (last.failure.kind, last.retryable) == ("context_overflow", False)


@pytest.mark.parametrize("kind", ["overloaded", "rate_limit", "auth"])
async def test_an_error_object_inside_a_200_stream_is_a_typed_failure(speak: Dialect, kind: str) -> None:
    got = await answered(speak, sse(*speak.start(), *speak.text("a"), speak.error(kind), *speak.end()))
    assert said(got) == "a"
    assert isinstance(last := got[-1], Failed)
    assert (last.failure.kind, last.retryable) == (kind, kind != "auth")


@pytest.mark.parametrize("place", ["status", "stream", "page"])
async def test_the_key_is_in_no_message(speak: Dialect, place: str) -> None:
    reply = {
        "status": status(401, speak.error("auth")),
        "stream": sse(*speak.start(), speak.error("auth")),
        "page": status(502, f"<html><style>p {{}}</style><p>Bad gateway {KEY}</p></html>"),
    }[place]
    last = await failure(speak, reply)
    assert KEY not in repr(last)
    assert "[key]" in last.failure.message
    assert "<" not in last.failure.message


@pytest.mark.parametrize("code", [200, 502])
async def test_no_half_of_the_key_is_left_where_a_message_is_cut(speak: Dialect, code: int) -> None:
    for length in (190, 290):
        last = await failure(speak, status(code, "x" * length + KEY))
        assert KEY[:8] not in last.failure.message


async def test_an_html_page_with_status_200_is_a_broken_stream(speak: Dialect) -> None:
    last = await failure(speak, status(200, "<html><p>Log in to the hotel's network</p></html>"))
    assert (last.failure.kind, last.retryable) == ("broken_stream", True)
    assert "hotel" in last.failure.message


async def test_an_error_body_with_status_200_is_told(speak: Dialect) -> None:
    last = await failure(speak, status(200, speak.error("rate_limit")))
    assert last.failure.kind == "rate_limit"


@pytest.mark.parametrize("way", ["reset", "end", "short body"])
async def test_a_stream_that_is_cut_is_broken(speak: Dialect, way: str) -> None:
    payloads = [event(payload) for payload in (*speak.start(), *speak.text("half"))]
    reply: Reply = {
        "reset": [CHUNKED, *map(chunk, payloads), CUT],
        "end": [head(), *payloads],
        "short body": [CHUNKED, *map(chunk, payloads)],
    }[way]
    last = await failure(speak, reply)
    assert (last.failure.kind, last.retryable) == ("broken_stream", True)


async def test_an_answer_with_nothing_in_it_is_empty(speak: Dialect) -> None:
    for reply in (sse(*speak.start(), *speak.end()), sse(*speak.start(), *speak.text(" \n"), *speak.end()), [head()]):
        last = await failure(speak, reply)
        assert (last.failure.kind, last.retryable) == ("empty", True)


async def test_a_connection_that_closes_without_an_answer_is_a_connection_failure(speak: Dialect) -> None:
    for reply in ([], [CUT]):
        last = await failure(speak, reply)
        assert (last.failure.kind, last.retryable) == ("connection", True)


async def test_a_server_that_is_not_there_is_a_connection_failure_that_names_the_address(speak: Dialect) -> None:
    async with serving([]) as server:
        url = server.url
    model = speak.open(url)
    last = (await read(model))[-1]
    await model.aclose()
    assert isinstance(last, Failed)
    assert (last.failure.kind, last.retryable) == ("connection", True)
    assert url in last.failure.message


@pytest.mark.parametrize("where", ["before the head", "after the head", "in the answer"])
async def test_a_provider_that_falls_silent_times_out(speak: Dialect, where: str) -> None:
    started = [event(payload) for payload in (*speak.start(), *speak.text("a"))]
    reply: Reply = {
        "before the head": [STALL],
        "after the head": [head(), STALL],
        "in the answer": [head(), *started, STALL],
    }[where]
    last = await failure(speak, reply, idle_s=0.05)
    assert (last.failure.kind, last.retryable) == ("timeout", True)


@pytest.mark.parametrize(("way", "words"), [("cancel", 0), ("cancel", 1), ("close", 1)])
async def test_giving_up_closes_the_connection_at_once(speak: Dialect, way: str, words: int) -> None:
    started = [event(payload) for payload in (*speak.start(), *speak.text("a"))] if words else []
    async with serving([[head(), *started, STALL]]) as server:
        model = speak.open(server.url)
        with anyio.fail_after(2):
            async with anyio.create_task_group() as tg:
                stream = model.stream(REQUEST)

                async def consume() -> None:
                    async for _ in stream:
                        if way == "close":
                            await stream.aclose()
                            return

                tg.start_soon(consume)
                if way == "cancel":
                    await server.asked.wait()
                    await anyio.sleep(0.02)
                    tg.cancel_scope.cancel()
            await server.hung_up.wait()
        await model.aclose()


async def test_a_model_can_be_asked_again_after_a_failure_and_closed_twice(speak: Dialect) -> None:
    good = sse(*speak.start(), *speak.text("ok"), *speak.end())
    async with serving([status(500), [CUT], good]) as server:
        model = speak.open(server.url)
        assert isinstance((await read(model))[-1], Failed)
        assert isinstance((await read(model))[-1], Failed)
        assert said(await read(model)) == "ok"
        await model.aclose()
        await model.aclose()
    assert len(server.requests) == 3  # the SDK made no retry of its own


async def test_a_proxy_in_the_environment_is_not_used_for_this_machine(
    speak: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert said(await answered(speak, sse(*speak.start(), *speak.text("ok"), *speak.end()))) == "ok"


async def test_a_closed_model_fails_without_raising(speak: Dialect) -> None:
    model = speak.open("http://127.0.0.1:9")
    await model.aclose()
    assert isinstance((await read(model))[-1], Failed)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 2000), max_size=8), text=st.text(min_size=1).filter(str.strip))
def test_an_answer_is_the_same_however_the_network_cuts_it(speak: Dialect, cuts: list[int], text: str) -> None:
    body = b"".join(
        event(p) for p in (*speak.start(), *speak.text(text), *speak.tool(0, "x", "{}"), *speak.end("tools"))
    )
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    pieces = [body[a:b] for a, b in itertools.pairwise(edges) if b > a]
    expected = [TextDelta(text), ToolDelta(0, "x"), ToolDelta(0, "", "{}"), Finished("tools", USAGE)]

    async def run() -> list[Delta]:
        return await answered(speak, [CHUNKED, *map(chunk, pieces), LAST_CHUNK])

    assert anyio.run(run) == expected


async def test_a_schema_with_an_integer_longer_than_a_word_and_arguments_of_any_depth_are_sent(speak: Dialect) -> None:
    deep = orjson.dumps({}).decode()
    for _ in range(249):
        deep = '{"a":' + deep + "}"
    tool = {"name": "f", "description": "", "parameters": {"type": "object", "maximum": 2**70}}
    call = ToolRequest(call_id="c", name="f", title="f", arguments=deep)
    messages = (*REQUEST.messages, FromAssistant((call,)), FromTools((ToolAnswer("c", (), is_error=False),)))
    async with serving([sse(*speak.start(), *speak.text("a"), *speak.end())]) as server:
        model = speak.open(server.url)
        got = await read(model, replace(REQUEST, messages=messages, tools=(tool,)))
        await model.aclose()
    assert isinstance(got[-1], Finished)
    (request,) = server.requests
    assert str(2**70).encode() in request.body
    assert request.body.count(b'a\\":' if speak.name == "openai" else b'"a":') == 249


async def test_a_request_is_rendered_and_encoded_beside_the_event_loop(
    speak: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def dumps(value: Any) -> bytes:
        threads.append(threading.get_ident())
        return orjson.dumps(value)

    monkeypatch.setattr("acp_bridge.llm.http_model.orjson", SimpleNamespace(dumps=dumps))
    await answered(speak, sse(*speak.start(), *speak.text("a"), *speak.end()))
    assert threads
    assert threading.get_ident() not in threads
