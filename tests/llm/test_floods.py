"""Endpoints that send without end: what is taken is bounded, whoever waits is told, and a cancel ends it at once."""

import gzip
import itertools
import time
import zlib
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import orjson
import pytest
from support.dialects import AnthropicDialect, Dialect, OpenAIDialect
from support.loops import TRIO_WHEN_SLOW
from support.server import CHUNKED, LAST_CHUNK, STALL, chunk, event, head, serving, sse, status

from acp_bridge.content import Text
from acp_bridge.limits import ANSWER, CALLS, ERROR_BODY, EVENT, MIB, VALUES
from acp_bridge.llm import Delta, Failed, Finished, Model, TextDelta
from acp_bridge.session import FromUser, ModelRequest

REQUEST = ModelRequest(route="x", system="", messages=(FromUser((Text(text="hi"),)),))
GZIP = {"content-encoding": "gzip"}


@pytest.fixture(params=[OpenAIDialect(), AnthropicDialect()], ids=lambda dialect: dialect.name)
def speak(request: pytest.FixtureRequest) -> Dialect:
    return request.param


@asynccontextmanager
async def sending(parts: Callable[[], Iterable[bytes]]) -> AsyncGenerator[tuple[str, list[int]]]:
    """Serve what a function makes, at full speed, until the client hangs up; give the address and what was sent."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    sent: list[int] = []

    async def handle(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            try:
                await stream.receive()
                for part in parts():
                    await stream.send(part)
                    sent.append(len(part))
            except (anyio.BrokenResourceError, anyio.EndOfStream):
                return

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}", sent
        tasks.cancel_scope.cancel()


async def last_of(model: Model, within_s: float = 30) -> Delta:
    last: Delta = TextDelta("")
    with anyio.fail_after(within_s):
        async with aclosing(model.stream(REQUEST)) as stream:
            async for delta in stream:
                last = delta
    await model.aclose()
    return last


def endless(first: bytes, block: bytes) -> Callable[[], Iterable[bytes]]:
    return lambda: itertools.chain([first], itertools.repeat(block))


def zeros() -> Iterable[bytes]:
    """Yield a body that unpacks to a thousand times its size, without end."""
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    yield head(500, GZIP)
    while True:
        yield packer.compress(b"x" * MIB) + packer.flush(zlib.Z_SYNC_FLUSH)


def packed(block: bytes) -> Callable[[], Iterable[bytes]]:
    def parts() -> Iterable[bytes]:
        packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
        yield head(200, GZIP)
        while True:
            yield packer.compress(block * (MIB // len(block) + 1)) + packer.flush(zlib.Z_SYNC_FLUSH)

    return parts


@pytest.mark.slow
async def test_of_an_error_without_end_only_the_beginning_is_read(speak: Dialect) -> None:
    for parts in (endless(head(500), b"<p>busy</p>" * 6000), zeros):
        async with sending(parts) as (url, sent):
            last = await last_of(speak.open(url))
        assert isinstance(last, Failed)
        assert (last.failure.kind, last.failure.status) == ("overloaded", 500)
        assert sum(sent) < 16 * MIB  # what buffers hold on the way


async def test_an_error_body_that_drips_does_not_hold_its_status_back(
    speak: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_bridge.llm.wire._ERROR_BODY_S", 0.05)
    async with serving([[head(429), b'{"error":', STALL]]) as server:
        last = await last_of(speak.open(server.url))
    assert isinstance(last, Failed)
    assert (last.failure.kind, last.failure.status) == ("rate_limit", 429)


async def test_an_error_body_is_read_up_to_its_bound(speak: Dialect) -> None:
    for size, whole in ((ERROR_BODY, True), (ERROR_BODY + 1, False)):
        body = orjson.dumps({"error": {"message": "quota", "pad": ""}})
        body = body[:-3] + b"x" * (size - len(body)) + body[-3:]
        async with serving([[head(400, {"content-length": str(size)}) + body]]) as server:
            last = await last_of(speak.open(server.url))
        assert isinstance(last, Failed)
        assert last.failure.message.startswith(f"{speak.name} answered 400: quota") is whole


@pytest.mark.slow
@pytest.mark.parametrize("way", ["data lines", "one line", "packed"])
async def test_an_event_without_end_breaks_the_answer_at_its_bound(speak: Dialect, way: str) -> None:
    block = b"data: " + b"x" * 65530 + b"\n"
    parts = {
        "data lines": endless(head(), block),
        "one line": endless(head() + b"data:", b"x" * 65536),
        "packed": packed(block),
    }[way]
    async with sending(parts) as (url, _):
        last = await last_of(speak.open(url))
    assert isinstance(last, Failed)
    assert (last.failure.kind, last.retryable) == ("broken_stream", True)
    assert f"larger than {EVENT // MIB} MiB" in last.failure.message


@pytest.mark.slow
@pytest.mark.parametrize("way", ["plain", "packed"])
async def test_text_without_end_breaks_the_answer_at_its_bound(speak: Dialect, way: str) -> None:
    block = b"".join(event(payload) for payload in speak.text("x" * 60_000))
    parts = packed(block) if way == "packed" else endless(head(), block)
    async with sending(parts) as (url, _):
        last = await last_of(speak.open(url))
    assert isinstance(last, Failed)
    assert (last.failure.kind, last.retryable) == ("broken_stream", True)
    assert f"longer than {ANSWER // MIB} MiB" in last.failure.message


@TRIO_WHEN_SLOW
async def test_calls_without_number_break_the_answer_at_their_bound(speak: Dialect) -> None:
    calls = [payload for i in range(CALLS) for payload in speak.tool(i, "f", "{}")]
    for more, broken in (([], False), (speak.tool(CALLS, "f", "{}"), True)):
        async with serving([sse(*speak.start(), *calls, *more, *speak.end("tools"))]) as server:
            last = await last_of(speak.open(server.url))
        assert isinstance(last, Failed if broken else Finished)
        if isinstance(last, Failed):
            assert f"more than {CALLS} tool calls" in last.failure.message


@pytest.mark.slow
async def test_calls_without_number_in_one_event_take_no_time() -> None:
    dialect = OpenAIDialect()
    calls = [{"index": i, "id": f"c{i}", "function": {"name": "f", "arguments": "{}"}} for i in range(100_000)]
    async with serving([sse(dialect.delta({"tool_calls": calls}), *dialect.end("tools"))]) as server:
        began = time.process_time()
        last = await last_of(dialect.open(server.url))
    assert isinstance(last, Failed)
    assert time.process_time() - began < 5


@pytest.mark.slow
async def test_a_name_in_every_piece_of_a_call_costs_no_more_than_its_length() -> None:
    dialect = OpenAIDialect()
    piece = event(dialect.call(index=0, function={"name": "f", "arguments": "}{" * 8}))
    arguments = event(dialect.call(index=0, function={"name": "f", "arguments": '{"a": "'}))
    async with serving([[CHUNKED, chunk(arguments + piece * 20_000), LAST_CHUNK]]) as server:
        began = time.process_time()
        last = await last_of(dialect.open(server.url))
    assert isinstance(last, Failed)
    assert time.process_time() - began < 10


@pytest.mark.slow
async def test_an_event_of_more_values_than_a_reader_holds_is_not_read(speak: Dialect) -> None:
    for values, read in ((VALUES // 2, True), (VALUES, False)):
        payload = b'data: {"type":"ping","x":[' + b"{}," * (values // 2) + b"0]}\n\n"
        rest = b"".join(event(p) for p in (*speak.start(), *speak.text("a"), *speak.end()))
        async with serving([[CHUNKED, chunk(payload + rest), LAST_CHUNK]]) as server:
            last = await last_of(speak.open(server.url))
        assert isinstance(last, Finished if read else Failed)
        if isinstance(last, Failed):
            assert "more than 1,000,000 values" in last.failure.message


@pytest.mark.parametrize(
    "block", [b": ping\n\n", b"data: {}\n\n", b'event: ping\ndata: {"type": "ping"}\n\n', b"junk\n"]
)
@TRIO_WHEN_SLOW
async def test_what_is_nothing_of_an_answer_does_not_keep_it_alive(speak: Dialect, block: bytes) -> None:
    started = b"".join(event(p) for p in (*speak.start(), *speak.text("a")))
    for first in (head(), head() + started):
        async with sending(endless(first + event({"x": 1}), block * 100)) as (url, _):
            last = await last_of(speak.open(url, stall_s=0.1))
        assert isinstance(last, Failed)
        assert (last.failure.kind, last.retryable) == ("timeout", True)
        assert "nothing of an answer for 0.1 s" in last.failure.message


async def test_a_head_that_drips_does_not_keep_an_answer_alive(speak: Dialect) -> None:
    async def drip(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            try:
                await stream.send(b"HTTP/1.1 200 OK\r\nx: ")
                while True:
                    await stream.send(b"y")
                    await anyio.sleep(0.01)
            except anyio.BrokenResourceError:
                return

    last: Delta = TextDelta("")
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, drip)
            url = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
            last = await last_of(speak.open(url, stall_s=0.1))
            tasks.cancel_scope.cancel()
    assert isinstance(last, Failed)
    assert last.failure.kind == "timeout"


async def test_a_page_without_end_is_no_answer(speak: Dialect) -> None:
    for block in (b"<p>x</p>\n" * 1000, b"<p>x</p>" * 1000):
        async with sending(endless(head(headers={"content-type": "text/html"}), block)) as (url, sent):
            last = await last_of(speak.open(url))
        assert isinstance(last, Failed)
        assert last.failure.kind == "broken_stream"
        assert "no event stream" in last.failure.message
        assert sum(sent) < 16 * MIB


async def test_an_answer_that_is_packed_all_the_same_is_read(speak: Dialect) -> None:
    body = b"".join(event(p) for p in (*speak.start(), *speak.text("ü" * 200_000), *speak.end()))
    for encoding, data in (("gzip", gzip.compress(body)), ("deflate", zlib.compress(body))):
        async with serving([[head(headers={"content-encoding": encoding}) + data]]) as server:
            assert isinstance(await last_of(speak.open(server.url)), Finished)
            assert server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "gzip"])
async def test_a_packing_that_cannot_be_undone_breaks_the_answer(speak: Dialect, encoding: str) -> None:
    async with serving([[head(headers={"content-encoding": encoding}) + b"not packed at all"]]) as server:
        last = await last_of(speak.open(server.url))
    assert isinstance(last, Failed)
    assert (last.failure.kind, last.retryable) == ("broken_stream", True)
    assert "cannot be read" in last.failure.message


async def test_a_redirect_takes_neither_key_nor_conversation_along(speak: Dialect) -> None:
    async with serving([]) as elsewhere:
        location = {"location": f"{elsewhere.url}/steal?secret=1"}
        async with serving([status(307, None, location)]) as server:
            last = await last_of(speak.open(server.url))
        assert isinstance(last, Failed)
        assert f"leads to {elsewhere.url}/steal, which is not followed" in last.failure.message
        assert elsewhere.requests == []


FLOODS: dict[str, Callable[[Any], Callable[[], Iterable[bytes]]]] = {
    "an error": lambda _: endless(head(500), b"x" * 65536),
    "a packed error": lambda _: zeros,
    "data lines": lambda _: endless(head(), b"data:\n" * 10_000),
    "comments": lambda _: endless(head(), b":\n" * 30_000),
    "packed comments": lambda _: packed(b": ping\n\n"),
    "empty events": lambda _: endless(head(), b"data: {}\n\n" * 6000),
    "words": lambda speak: endless(head(), b"".join(event(p) for p in speak.text("x")) * 200),
}


@pytest.mark.slow
@pytest.mark.parametrize("flood", FLOODS)
async def test_a_cancel_ends_any_flood_at_once(speak: Dialect, flood: str) -> None:
    async with sending(FLOODS[flood](speak)) as (url, _):
        model = speak.open(url)
        began = 0.0
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:

                async def consume() -> None:
                    async for _ in model.stream(REQUEST):
                        pass

                tasks.start_soon(consume)
                await anyio.sleep(0.3)
                began = time.process_time()
                tasks.cancel_scope.cancel()
            assert time.process_time() - began < 1
        await model.aclose()
