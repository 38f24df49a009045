"""Anthropic's messages API over the official SDK, streamed, the raw events read with orjson.

Owns the dressing of our request in Anthropic's shapes and the sending. What comes back is read in `anthropic_answer`.
Imported only when such a route is opened: the SDK costs most of a second.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import anthropic

from acp_bridge.content import (
    Image,
    JsonObject,
    PromptBlock,
    Resource,
    ResourceLink,
    Text,
    Thought,
    ToolRequest,
)
from acp_bridge.session import FromAssistant, FromTools, FromUser, ModelRequest, ToolAnswer

from .anthropic_answer import AnthropicAnswer
from .endpoint import Endpoint
from .failures import Provider
from .http_model import Rendered
from .rendering import Picture, arguments_object, link_text, render_picture, resource_text, thoughts_of, wire_id
from .thinking import DEFAULT, OPTION, claude_thinking
from .wire import RAW_RESPONSE, http_options, setting_up

_Stream: TypeAlias = anthropic.AsyncStream[Any]
_CACHED = {"type": "ephemeral"}
_NOTHING: JsonObject = {"type": "text", "text": "(nothing)"}


class AnthropicMessages:
    """Messages, as Anthropic's SDK sends them."""

    gives_back = False  # nobody who speaks this API was met who refuses what they gave

    def __init__(self, endpoint: Endpoint) -> None:
        timeout = anthropic.Timeout(endpoint.idle_s, connect=endpoint.connect_s)
        with setting_up(endpoint):
            self._client = anthropic.AsyncAnthropic(
                api_key=endpoint.key or "none",  # an explicit one keeps the SDK from looking for others
                base_url=endpoint.base_url,
                default_query=dict(endpoint.query),
                max_retries=0,  # ours are logged
                http_client=anthropic.DefaultAsyncHttpxClient(**http_options(endpoint.base_url, timeout)),
                timeout=timeout,
            )

    def render(self, request: ModelRequest, endpoint: Endpoint) -> Rendered:
        """Return the request as a message's."""
        return render(request, endpoint)

    def begin_answer(self, provider: Provider) -> AnthropicAnswer:
        """Return the reader of one answer."""
        return AnthropicAnswer(provider)

    async def post(self, body: bytes, headers: Mapping[str, str]) -> Any:
        """Send a request."""
        options: Any = {"headers": {**RAW_RESPONSE, **headers}}
        return await self._client.post(
            "/v1/messages", cast_to=object, content=body, options=options, stream=True, stream_cls=_Stream
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()


def render(request: ModelRequest, endpoint: Endpoint) -> Rendered:
    """Return the body of a message's request, and its headers. Pure."""
    body: JsonObject = {
        "model": endpoint.model,
        "max_tokens": endpoint.max_output_tokens,
        "messages": _Renderer(request, endpoint).messages(),
        "stream": True,
    }
    if request.system:
        body["system"] = [{"type": "text", "text": request.system, "cache_control": _CACHED}]
    if request.tools:
        body["tools"] = tools = [
            {"name": tool["name"], "description": tool.get("description", ""), "input_schema": tool["parameters"]}
            for tool in request.tools
        ]
        tools[-1]["cache_control"] = _CACHED
    options = dict(request.options)
    level = options.pop(OPTION, DEFAULT)
    if "max_tokens" in options:
        body["max_tokens"] = options.pop("max_tokens")
    thinking = claude_thinking(endpoint.model, level, body["max_tokens"], request.messages, request.route)
    headers: dict[str, str] = thinking.pop("extra_headers", {})
    return Rendered({**body, **thinking, **options}, headers)


@dataclass(frozen=True, slots=True)
class _Renderer:
    """Our messages in Anthropic's shapes: roles alternate, the user's first, no empty text."""

    request: ModelRequest
    endpoint: Endpoint

    def messages(self) -> list[JsonObject]:
        messages: list[JsonObject] = []
        for message in self.request.messages:
            match message:
                case FromUser(content):
                    _add(messages, "user", [self._part(block) for block in content])
                case FromAssistant():
                    _add(messages, "assistant", self._assistant(message))
                case FromTools(answers):
                    _add(messages, "user", [*map(self._result, answers), *self._pictures_of_errors(answers)])
                case _:
                    assert_never(message)
        if messages and messages[0]["role"] != "user":
            messages.insert(0, {"role": "user", "content": [_NOTHING]})
        _mark_for_caching(messages)
        return messages

    def _assistant(self, message: FromAssistant) -> list[JsonObject]:
        own = message.route == self.request.route
        messages: list[JsonObject] = []
        for block in message.content:
            match block:
                case Thought():
                    messages += _thought_block(block) if own else ()  # another model's signature would be refused
                case Text():
                    messages.append({"type": "text", "text": block.text.rstrip()})  # refused with space at its end
                case ToolRequest():
                    messages.append(_tool_use(block, own=own))
                case _:
                    assert_never(block)
        said = [part for part in messages if _says_something(part)]
        thinks = [part["type"] in ("thinking", "redacted_thinking") for part in said]
        if all(thinks):
            return []  # thoughts that led to nothing
        if self.endpoint.wanted and not any(thinks):  # by servers that imitate the API and sign nothing
            said.insert(0, {"type": "thinking", "thinking": thoughts_of(message), "signature": ""})
        return said

    def _result(self, answer: ToolAnswer) -> JsonObject:
        blocks = [block for block in answer.content if not (answer.is_error and isinstance(block, Image))]
        content = [part for part in map(self._part, blocks) if _says_something(part)]
        result: JsonObject = {"type": "tool_result", "tool_use_id": wire_id(answer.call_id), "content": content}
        if answer.is_error:
            result["is_error"] = True
            result["content"] = content or [_NOTHING]  # an error must say something
        return result

    def _pictures_of_errors(self, answers: Sequence[ToolAnswer]) -> Iterator[JsonObject]:
        """Yield, to stand behind all results, the pictures of those that are errors, which may hold text alone."""
        for answer in answers:
            if answer.is_error and (pictures := [block for block in answer.content if isinstance(block, Image)]):
                yield {"type": "text", "text": f"Pictures of the tool result {wire_id(answer.call_id)}:"}
                yield from map(self._part, pictures)

    def _part(self, block: PromptBlock) -> JsonObject:
        match block:
            case Text():
                text = block.text
            case ResourceLink():
                text = link_text(block)
            case Resource():
                text = resource_text(block)
            case Image():
                picture = render_picture(block, self.request, self.endpoint, bounded=True)
                if isinstance(picture, Picture):
                    source = {"type": "base64", "media_type": picture.mime_type, "data": picture.data}
                    return {"type": "image", "source": source}
                text = picture
            case _:
                assert_never(block)
        return {"type": "text", "text": text}


def _thought_block(thought: Thought) -> list[JsonObject]:
    """Return a thought as its maker takes it back: also an unsigned one, from servers that sign none."""
    form = thought.form or ("thinking" if thought.text else "redacted_thinking")  # earlier logs hold no form
    match form:
        case "redacted_thinking" if thought.signature:
            return [{"type": form, "data": thought.signature}]
        case "thinking" if thought.signature or thought.form:
            return [{"type": form, "thinking": thought.text, "signature": thought.signature}]
        case _:
            return []


def _tool_use(request: ToolRequest, *, own: bool) -> JsonObject:
    extra = request.extra or {} if own else {}
    arguments = arguments_object(request.arguments)
    return {**extra, "type": "tool_use", "id": wire_id(request.call_id), "name": request.name, "input": arguments}


def _says_something(part: JsonObject) -> bool:
    return part["type"] != "text" or bool(part["text"].strip())


def _add(messages: list[JsonObject], role: str, content: Sequence[JsonObject]) -> None:
    """Add a message, merged into the one before where the role is the same; results go first in it, as they must."""
    content = [part for part in content if _says_something(part)]
    if role == "user" and not content:
        content = [_NOTHING]
    if not content:
        return
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += content
    else:
        messages.append({"role": role, "content": list(content)})


def _mark_for_caching(messages: list[JsonObject]) -> None:
    """Mark the ends of the last two user messages: what this request writes and what the one before wrote."""
    marked = 0
    for message in reversed(messages):
        if message["role"] == "user" and marked < 2:  # four marks in all: two here, the system prompt, the tools
            message["content"][-1] = {**message["content"][-1], "cache_control": _CACHED}
            marked += 1
