"""What a server says that it does not take is left out, and the request is made once more."""

from typing import Any

import anyio
import pytest
from support.dialects import AnthropicDialect, Dialect, OpenAIDialect
from support.pixels import png
from support.server import Reply, Request, serving, sse, status

from acp_bridge.content import Image, Text, Thought, ToolRequest
from acp_bridge.llm import Delta, Failed, Model
from acp_bridge.session import FromAssistant, FromTools, FromUser, Message, ModelRequest, ToolAnswer


async def read(model: Model, *messages: Message) -> list[Delta]:
    request = ModelRequest(route="r", system="", messages=messages, files={"d": png()})
    with anyio.fail_after(5):
        return [delta async for delta in model.stream(request)]


@pytest.mark.parametrize("speak", [OpenAIDialect(), AnthropicDialect()], ids=lambda dialect: dialect.name)
async def test_a_model_that_refuses_images_is_told_of_them_from_then_on(speak: Dialect) -> None:
    """Else the one image would fail every later request of its session."""

    def reply(request: Request) -> Reply:
        if b'"image' in request.body:
            return status(400, {"error": {"message": "this model does not support image input", "type": "x"}})
        return sse(*speak.start(), *speak.text("ok"), *speak.end())

    user = FromUser((Text(text="what?"), Image(mime_type="image/png", file="d", size=3)))
    async with serving(reply) as server:
        model = speak.open(server.url)
        assert model.takes_images
        assert isinstance(last := (await read(model, user))[-1], Failed)
        assert (last.failure.kind, last.retryable, last.retry_after_s) == ("bad_request", True, 0.0)
        assert not isinstance((await read(model, user))[-1], Failed)
        assert not model.takes_images
        await model.aclose()
    assert b"left out" in server.requests[-1].body


async def test_a_member_that_a_server_gave_and_does_not_take_back_is_left_out_and_no_other() -> None:
    def reply(request: Request) -> Reply:
        if b'"channel"' in request.body:
            message = "'messages.1' : property 'channel' is unsupported"
            return status(400, {"error": {"message": message, "type": "invalid_request_error"}})
        return sse(*OpenAIDialect().start(), *OpenAIDialect().text("ok"), *OpenAIDialect().end())

    call = ToolRequest(call_id="c", name="f", arguments="{}", title="F", extra={"channel": "x", "seal": 1})
    said = FromAssistant((Thought(text="hm", form="reasoning"), call), "r", {"channel": "analysis"})
    conversation = (FromUser((Text(text="hi"),)), said, FromTools((ToolAnswer("c", (), is_error=False),)))
    async with serving(reply) as server:
        model = OpenAIDialect().open(server.url)
        assert isinstance(last := (await read(model, *conversation))[-1], Failed)
        assert last.retryable
        assert not isinstance((await read(model, *conversation))[-1], Failed)
        await model.aclose()
    message: dict[str, Any] = server.requests[-1].json["messages"][1]
    assert (message["reasoning"], message["tool_calls"][0]["seal"]) == ("hm", 1)
    assert "channel" not in message


@pytest.mark.parametrize(
    "message", ["reasoning must be passed back", "unknown model 'x'", "context length exceeded, image or not"]
)
async def test_another_refusal_is_final(message: str) -> None:
    said = FromAssistant((Thought(text="hm", form="reasoning"), Text(text="a")), "r", {"channel": "x"})
    async with serving([status(400, {"error": {"message": message, "type": "invalid_request_error"}})]) as server:
        model = OpenAIDialect().open(server.url)
        assert isinstance(last := (await read(model, FromUser((Text(text="hi"),)), said))[-1], Failed)
        assert not last.retryable
        await model.aclose()


FOREIGN = (
    FromUser((Text(text="hi"),)),
    FromAssistant(
        (Thought(text="hm"), *(ToolRequest(call_id=i, name="f", arguments="{}", title="F") for i in "cd")), "other"
    ),
    FromTools(tuple(ToolAnswer(i, (Text(text="out"),), is_error=False) for i in "cd")),
    FromAssistant((ToolRequest(call_id="e", name="g", arguments="{}", title="G"),), "other"),
    FromTools((ToolAnswer("e", (Text(text="out"),), is_error=False),)),
    FromAssistant((Text(text="a"),), "other"),
    FromUser((Text(text="and?"),)),
)
"""A conversation with another model, of which this one gave nothing."""


async def told_once(speak: OpenAIDialect | AnthropicDialect, said: str, is_there: str) -> dict[str, Any]:
    """Return the request that a server takes which says once what it misses."""

    def reply(request: Request) -> Reply:
        if is_there.encode() not in request.body:
            return status(400, [{"error": {"message": said, "type": "invalid_request_error"}}])
        return sse(*speak.start(), *speak.text("ok"), *speak.end())

    async with serving(reply) as server:
        model = speak.open(server.url)
        assert isinstance(last := (await read(model, *FOREIGN))[-1], Failed)
        assert (last.failure.kind, last.retryable, last.retry_after_s) == ("bad_request", True, 0.0)
        assert not isinstance((await read(model, *FOREIGN))[-1], Failed)
        await model.aclose()
    return server.requests[-1].json


@pytest.mark.parametrize(
    "said",
    [
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "Missing `reasoning_content` field in the assistant message at message index 2.",
    ],
)
async def test_a_model_that_misses_reasoning_in_another_ones_answers_gets_what_there_is(said: str) -> None:
    body = await told_once(OpenAIDialect(), said, "reasoning_content")
    answers = [message["reasoning_content"] for message in body["messages"] if message["role"] == "assistant"]
    assert answers == ["hm", "The next step: g (e).", "The answer follows."]


async def test_a_model_that_misses_signatures_of_another_ones_calls_is_told_to_do_without() -> None:
    said = "Function call is missing a thought_signature in functionCall parts. This is required for tools to work."
    body = await told_once(OpenAIDialect(), said, "extra_content")
    calls = [message["tool_calls"] for message in body["messages"] if "tool_calls" in message]
    dummy = {"google": {"thought_signature": "skip_thought_signature_validator"}}
    assert [[call.get("extra_content") for call in group] for group in calls] == [[dummy, None], [dummy]]


async def test_a_server_that_imitates_anthropic_and_misses_thoughts_gets_them() -> None:
    said = "The `content[].thinking` in the thinking mode must be passed back to the API."
    body = await told_once(AnthropicDialect(), said, '"thinking":"hm"')
    first = [message["content"][0] for message in body["messages"] if message["role"] == "assistant"]
    assert [part.get("thinking") for part in first] == ["hm", "The next step: g (e).", "The answer follows."]


async def test_what_is_missed_still_is_asked_for_once_only() -> None:
    refusal = status(400, {"error": {"message": "reasoning_content is missing", "type": "x"}})
    async with serving([refusal] * 3) as server:
        model = OpenAIDialect().open(server.url)
        failed = [last for _ in range(3) if isinstance(last := (await read(model, *FOREIGN))[-1], Failed)]
        assert [last.retryable for last in failed] == [True, False, False]
        await model.aclose()
