"""Pictures of results in each provider's dialect, in front of servers that refuse what the real ones refuse."""

import base64
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from support.dialects import AnthropicDialect, OpenAIDialect
from support.pixels import gif, jpeg, png, png_of_size, webp
from support.server import Reply, Request, serving, sse, status

from acp_bridge.content import Image, Text, ToolRequest
from acp_bridge.limits import PICTURE
from acp_bridge.llm import Delta, Failed, Finished, Options, Route, open_model
from acp_bridge.pictures import examined
from acp_bridge.session import FromAssistant, FromTools, FromUser, Message, ModelRequest, ToolAnswer

OPENAI, ANTHROPIC = OpenAIDialect(), AnthropicDialect()
KINDS = {"a": png(), "b": jpeg(), "c": gif(), "d": webp()}


def image(name: str, mime_type: str = "image/png") -> Image:
    return Image(mime_type=mime_type, file=name, size=1)


def asked(*calls: str) -> FromAssistant:
    return FromAssistant(tuple(ToolRequest(call_id=c, name="f", arguments="{}", title="F") for c in calls))


def answered(call_id: str, *names: str, is_error: bool = False) -> ToolAnswer:
    return ToolAnswer(call_id, (Text(text=f"of {call_id}"), *map(image, names)), is_error)


# --- what the servers insist on ---


def strict_openai(body: Any, *, bridged: bool = False) -> str:
    """Return why a server refuses the messages: tools' messages are text, and follow what asked for them."""
    before = ""
    for message in body["messages"]:
        role, content = message["role"], message["content"]
        if role == "tool" and not isinstance(content, str):
            return "Invalid type for 'messages[2].content': expected a string"
        if role == "tool" and before not in ("assistant", "tool"):
            return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
        if role == "user" and before == "user":
            return "Conversation roles must alternate user/assistant/user/assistant"
        if role == "user" and before == "tool" and bridged:
            return "Unexpected role 'user' after role 'tool'"
        for part in content if isinstance(content, list) else ():
            if part["type"] == "image_url":
                kind, _, data = part["image_url"]["url"].removeprefix("data:").partition(";base64,")
                if wrong := strict_picture(kind, data):
                    return wrong
        before = role
    return ""


def strict_anthropic(body: Any) -> str:
    """Return why the API refuses the messages: results first, errors of text alone, pictures as they are called."""
    for message in body["messages"]:
        kinds = [part["type"] for part in message["content"]]
        if kinds != sorted(kinds, key=lambda kind: kind != "tool_result"):
            return "tool_result blocks must come first"
        parts = [p for part in message["content"] for p in (part, *(part.get("content") or ()))]
        for part in message["content"]:
            if part.get("is_error") and any(inner["type"] != "text" for inner in part["content"]):
                return "all content must be type 'text' if 'is_error' is true"
        for part in parts:
            if part["type"] == "image" and (
                wrong := strict_picture(part["source"]["media_type"], part["source"]["data"])
            ):
                return wrong
    return ""


def strict_picture(kind: str, data: str) -> str:
    if len(data) > 5 * 1024 * 1024:
        return f"image exceeds 5 MB maximum: {len(data)} bytes > 5242880 bytes"
    facts = examined(base64.b64decode(data, validate=True), whole=False)
    if isinstance(facts, str):
        return f"Could not process image: {facts}"
    if facts.mime_type != kind:
        return f"The image was specified using the {kind} media type, but appears to be {facts.mime_type}"
    return ""


async def told(route: Route, strict: Callable[[Any], str], *messages: Message, files: dict[str, bytes] = KINDS) -> Any:
    """Send a request to a server that insists, and return the body that it took."""
    dialect = ANTHROPIC if route.provider == "anthropic" else OPENAI
    refused: list[str] = []

    def reply(request: Request) -> Reply:
        if wrong := strict(request.json):
            refused.append(wrong)
            return status(400, {"error": {"message": wrong, "type": "invalid_request_error"}})
        return sse(*dialect.start(), *dialect.text("ok"), *dialect.end())

    async with serving(reply) as server:
        path = "" if route.provider == "anthropic" else "/v1"
        keys = {route.provider: "sk-none-0123456789"}
        model = open_model(route, Options(base_urls={route.provider: f"{server.url}{path}"}, keys=keys))
        request = ModelRequest(route="r", system="", messages=messages, files=files)
        with anyio.fail_after(5):
            deltas: list[Delta] = [delta async for delta in model.stream(request)]
        await model.aclose()
        assert refused == []
        assert isinstance(deltas[-1], Finished)
        return server.requests[-1].json


CLAUDE, GPT = Route("anthropic", "claude-sonnet-4-5"), Route("openai", "gpt-4o")
TWO_CALLS = (
    FromUser((Text(text="look"),)),
    asked("c1", "c2"),
    FromTools((answered("c1", "a", "b"), answered("c2", "c", "d"))),
)


async def test_openai_is_given_the_pictures_of_all_results_in_one_message_behind_them() -> None:
    body = await told(GPT, strict_openai, *TWO_CALLS)
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "tool", "tool", "user"]
    assert [p.get("text") or p["image_url"]["url"][:15] for p in body["messages"][-1]["content"]] == [
        "Pictures of the tool result c1:", "data:image/png;", "data:image/jpeg",
        "Pictures of the tool result c2:", "data:image/gif;", "data:image/webp",
    ]  # fmt: skip


async def test_openai_is_given_them_with_what_the_user_says_next() -> None:
    body = await told(
        GPT, strict_openai, *TWO_CALLS, FromUser((Text(text="well?"),)), FromAssistant((Text(text="so"),))
    )
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert body["messages"][4]["content"][-1] == {"type": "text", "text": "well?"}


@pytest.mark.parametrize(
    "route",
    [
        Route("mistral", "mistral-medium"),
        Route("openrouter", "mistralai/devstral-small"),
        Route("openai", "Pixtral-12B"),
    ],
)
@pytest.mark.parametrize("more", [(), (FromUser((Text(text="well?"),)),)])
async def test_mistral_hears_the_assistant_between_a_result_and_the_user(
    route: Route, more: tuple[Message, ...]
) -> None:
    body = await told(route, lambda body: strict_openai(body, bridged=True), *TWO_CALLS, *more)
    assert [m["role"] for m in body["messages"]][2:] == ["tool", "tool", "assistant", "user"]


async def test_mistral_hears_it_after_a_turn_that_ended_behind_its_results() -> None:
    messages = (FromUser((Text(text="a"),)), asked("c1"), FromTools((answered("c1"),)), FromUser((Text(text="b"),)))
    body = await told(Route("mistral", "m"), lambda body: strict_openai(body, bridged=True), *messages)
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "tool", "assistant", "user"]


async def test_claude_is_given_them_inside_the_results() -> None:
    body = await told(CLAUDE, strict_anthropic, *TWO_CALLS)
    first, second = body["messages"][-1]["content"]
    assert [part["type"] for part in first["content"]] == ["text", "image", "image"]
    assert [part["source"]["media_type"] for part in second["content"][1:]] == ["image/gif", "image/webp"]


async def test_claude_is_given_the_pictures_of_an_error_behind_all_results() -> None:
    results = FromTools((answered("c1", "a", is_error=True), answered("c2", "b")))
    body = await told(CLAUDE, strict_anthropic, TWO_CALLS[0], TWO_CALLS[1], results)
    kinds = [part["type"] for part in body["messages"][-1]["content"]]
    assert kinds == ["tool_result", "tool_result", "text", "image"]


@pytest.mark.parametrize(("route", "strict"), [(GPT, strict_openai), (CLAUDE, strict_anthropic)], ids=["gpt", "claude"])
async def test_a_picture_goes_as_what_it_is_and_not_as_what_it_was_called(
    route: Route, strict: Callable[[Any], str]
) -> None:
    prompt = FromUser((Text(text="look"), image("b", "image/png"), image("d", "image/gif")))
    await told(route, strict, prompt)


@pytest.mark.parametrize("data", [png_of_size(PICTURE + 1), png(8001, 1), b"BM\0\0", b""])
async def test_a_picture_of_a_prompt_that_claude_does_not_take_fails_only_itself(data: bytes) -> None:
    """Else it would fail every later request of its session."""
    prompt = FromUser((Text(text="look"), image("x", "image/png"), image("a")))
    body = await told(CLAUDE, strict_anthropic, prompt, files={"x": data, "a": png()})
    assert [part["type"] for part in body["messages"][0]["content"]] == ["text", "text", "image"]
    assert "was left out" in body["messages"][0]["content"][1]["text"]


@pytest.mark.parametrize(("route", "strict"), [(GPT, strict_openai), (CLAUDE, strict_anthropic)], ids=["gpt", "claude"])
async def test_a_picture_that_is_lost_is_said_to_be(route: Route, strict: Callable[[Any], str]) -> None:
    assert "is lost" in str(await told(route, strict, *TWO_CALLS, files={"a": png()}))


# --- what a server refuses all the same ---


def refusing(dialect: Any, spoiled: bytes, message: str) -> Callable[[Request], Reply]:
    """A server that will not have one picture."""
    mark = base64.b64encode(spoiled)

    def reply(request: Request) -> Reply:
        if mark in request.body:
            return status(400, {"error": {"message": message, "type": "invalid_request_error"}})
        return sse(*dialect.start(), *dialect.text("ok"), *dialect.end())

    return reply


@pytest.mark.parametrize("dialect", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
@pytest.mark.parametrize(
    "message",
    [
        "messages.3.content.0.image.source.base64.data: Could not process image",
        "image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes",
        "At least one of the image dimensions exceed max allowed size: 8000 pixels",
        "You uploaded an unsupported image. Please make sure your image is valid.",
        "Unable to process input image. Please retry or report",
        "failed to decode image",
    ],
)
async def test_a_picture_that_a_server_refuses_fails_only_itself(dialect: Any, message: str) -> None:
    before = (FromUser((Text(text="look"), image("a"))), asked("c1"), FromTools((answered("c1", "b"),)))
    later = (*before, asked("c2"), FromTools((answered("c2", "c"),)))
    async with serving(refusing(dialect, KINDS["b"], message)) as server:
        model = dialect.open(server.url)
        assert isinstance(last := (await said(model, before))[-1], Failed)
        assert (last.retryable, last.retry_after_s) == (True, 0.0)
        assert isinstance((await said(model, before))[-1], Finished)
        assert isinstance((await said(model, later))[-1], Finished)
        assert model.takes_images
        await model.aclose()
    body = server.requests[-1].body
    assert [base64.b64encode(KINDS[name]) in body for name in "abc"] == [True, False, True]
    assert b"server refused it" in body


@pytest.mark.parametrize("dialect", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
async def test_one_that_lies_further_back_takes_the_others_with_it_and_no_later_one(dialect: Any) -> None:
    """After a load nobody knows which it was."""
    before = (FromUser((Text(text="look"), image("a"))), asked("c1"), FromTools((answered("c1", "b"),)))
    loaded = (*before, FromAssistant((Text(text="seen"),)), FromUser((Text(text="and now?"),)))
    later = (*loaded, asked("c2"), FromTools((answered("c2", "c"),)))
    async with serving(refusing(dialect, KINDS["b"], "Could not process image")) as server:
        model = dialect.open(server.url)
        assert isinstance((await said(model, loaded))[-1], Failed)
        assert isinstance((await said(model, loaded))[-1], Finished)
        assert isinstance((await said(model, later))[-1], Finished)
        await model.aclose()
    assert base64.b64encode(KINDS["c"]) in server.requests[-1].body


async def test_a_context_that_is_full_costs_no_picture() -> None:
    reply = status(
        400, {"error": {"message": "context length exceeded: image tokens", "code": "context_length_exceeded"}}
    )
    async with serving([reply]) as server:
        model = OPENAI.open(server.url)
        assert isinstance(last := (await said(model, TWO_CALLS))[-1], Failed)
        assert (last.failure.kind, last.retryable) == ("context_overflow", False)
        assert model.takes_images
        await model.aclose()


async def said(model: Any, messages: tuple[Message, ...]) -> list[Delta]:
    request = ModelRequest(route="r", system="", messages=messages, files=KINDS)
    with anyio.fail_after(5):
        return [delta async for delta in model.stream(request)]
