"""What a server says that it does not take is left out, and the request is made once more."""

from typing import Any

import anyio
import pytest
from llm.dialects import AnthropicDialect, Dialect, OpenAIDialect
from llm.server import Reply, Request, serving, sse, status
from pixels import png

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
