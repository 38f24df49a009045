"""Streams that break in every way: what a model's endpoint sends is read whole or not at all, and never without end."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.dialects import KEY, AnthropicDialect, Dialect, OpenAIDialect
from support.server import CHUNKED, LAST_CHUNK, Reply, Server, Step, chunk, event, serving, sse

from acp_bridge.agent import Outcome
from acp_bridge.config import load
from acp_bridge.headless import Session, Streamed, open_runtime
from acp_bridge.session import RequestFailed
from acp_bridge.tools import Choice, Question

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[OpenAIDialect(), AnthropicDialect()], ids=lambda dialect: dialect.name)
def speak(request: pytest.FixtureRequest) -> Dialect:
    return request.param


async def allow(question: Question) -> Choice:
    return Choice(question.options[0].option_id)


@asynccontextmanager
async def session_with(speak: Dialect, server: Server, project: Path, **more: str) -> AsyncGenerator[Session]:
    environ = {
        "ACP_BRIDGE_MODEL": f"{speak.name}:m",
        "ACP_BRIDGE_STORAGE": "memory",
        "ACP_BRIDGE_MODE": "full",
        "ACP_BRIDGE_AGENT_RETRY_WAIT_S": "0.001",
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "ANTHROPIC_BASE_URL": server.url,
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_API_KEY": KEY,
        "PATH": "/usr/bin:/bin",
        **more,
    }
    async with open_runtime(load(environ)) as runtime:
        yield await runtime.new_session(str(project), permit=allow)


async def prompted(session: Session) -> Outcome:
    with anyio.fail_after(20):
        async with session.prompt("go") as turn:
            async for _ in turn:
                pass
    assert turn.outcome is not None
    return turn.outcome


def write_file(speak: Dialect, *arguments: str) -> list[Any]:
    return [*speak.start(), *speak.tool(0, "write_file", *arguments), *speak.end("tools")]


def said(speak: Dialect, text: str) -> list[Any]:
    return [*speak.start(), *speak.text(text), *speak.end()]


def raw(payloads: list[Any], swap: tuple[bytes, bytes]) -> Reply:
    """Return a streamed answer in which some bytes are others."""
    body = b"".join(map(event, payloads))
    assert swap[0] in body
    steps: list[Step] = [CHUNKED, chunk(body.replace(*swap)), LAST_CHUNK]
    return steps


KEPT = ('{"path":"f.txt","content":"keep one, ', "keep two HIGH", "LOW keep three, ", 'keep four"}')


async def test_a_character_that_is_cut_over_two_events_reaches_the_file_whole(speak: Dialect, project: Path) -> None:
    body = b"".join(map(event, write_file(speak, *KEPT))).replace(b"HIGH", b"\\ud83d").replace(b"LOW", b"\\ude00")
    async with serving([[CHUNKED, chunk(body), LAST_CHUNK], sse(*said(speak, "done"))]) as server:
        async with session_with(speak, server, project) as session:
            assert (await prompted(session)).reason == "completed"
    assert (project / "f.txt").read_text() == "keep one, keep two 😀 keep three, keep four"


@pytest.mark.parametrize("half", [b"\\ud83d", b"\\ude00", b"\xff", b"\xed\xa0\xbd"])
async def test_a_lone_half_is_one_character_that_stands_for_it_and_nothing_else_is_missing(
    speak: Dialect, project: Path, half: bytes
) -> None:
    reply = raw(write_file(speak, '{"path":"f.txt","content":"a ', 'HERE b"}'), (b"HERE", half))
    async with serving([reply, sse(*said(speak, "done"))]) as server:
        async with session_with(speak, server, project) as session:
            assert (await prompted(session)).reason == "completed"
    assert (project / "f.txt").read_text() == "a \ufffd b"


@pytest.mark.parametrize("half", ["\\ud83d", "\\ude00"])
async def test_a_lone_half_escaped_within_the_arguments_is_mended_as_well(
    speak: Dialect, project: Path, half: str
) -> None:
    arguments = '{"path":"f.txt","content":"a ' + half + ' b"}'
    async with serving([sse(*write_file(speak, arguments)), sse(*said(speak, "done"))]) as server:
        async with session_with(speak, server, project) as session:
            assert (await prompted(session)).reason == "completed"
    assert (project / "f.txt").read_text() == "a \ufffd b"


async def test_numbers_that_json_does_not_know_make_no_piece_unreadable(speak: Dialect, project: Path) -> None:
    payloads = write_file(speak, '{"path":"f.txt","content":"a ', 'b"}')
    reply = raw([{**p, "logprob": "N"} if isinstance(p, dict) else p for p in payloads], (b'"N"', b"-Infinity"))
    async with serving([reply, sse(*said(speak, "done"))]) as server:
        async with session_with(speak, server, project) as session:
            assert (await prompted(session)).reason == "completed"
    assert (project / "f.txt").read_text() == "a b"


@pytest.mark.parametrize("cut", [b'"tw', b"{", b"not json", b'{"a": 1} {"b": 2}', b'"a"}]}'])
async def test_a_piece_that_cannot_be_read_breaks_the_answer_and_leaves_no_hole(
    speak: Dialect, project: Path, cut: bytes
) -> None:
    first, *rest = write_file(speak, *KEPT)
    broken: Reply = [CHUNKED, chunk(event(first) + b"data: " + cut + b"\n\n" + b"".join(map(event, rest))), LAST_CHUNK]
    whole = write_file(speak, '{"path":"f.txt","content":"whole"}')
    async with serving([broken, sse(*whole), sse(*said(speak, "done"))]) as server:
        async with session_with(speak, server, project) as session:
            assert (await prompted(session)).reason == "completed"
            failed = [r.event for r in session.records if isinstance(r.event, RequestFailed)]
    assert [event.failure.kind for event in failed] == ["broken_stream"]
    assert "cannot be read" in failed[0].failure.message
    assert (project / "f.txt").read_text() == "whole"


async def test_an_answer_of_text_has_no_holes_either(speak: Dialect, project: Path) -> None:
    payloads = [*speak.start(), *speak.text("one HIGH"), *speak.text("LOW two"), *speak.end()]
    body = b"".join(map(event, payloads)).replace(b"HIGH", b"\\ud83d").replace(b"LOW", b"\\ude00")
    shown: list[str] = []
    async with serving([[CHUNKED, chunk(body), LAST_CHUNK]]) as server:
        async with session_with(speak, server, project) as session:
            with anyio.fail_after(10):
                async with session.prompt("go") as turn:
                    shown = [happened.text async for happened in turn if isinstance(happened, Streamed)]
    assert "".join(shown) == "one 😀 two"
