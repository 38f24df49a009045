"""Any OpenAI-compatible server, over the official SDK: chat completions, streamed, the raw events read with orjson.

Owns the dressing of our request in OpenAI's shapes and the sending. What comes back is read in `openai_answer`.
Imported only when such a route is opened: the SDK costs most of a second.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import openai

from acp_bridge.content import (
    AnswerBlock,
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

from .endpoint import Endpoint
from .failures import Provider
from .http_model import Rendered
from .opaque import with_ids
from .openai_answer import OpenAIAnswer
from .rendering import Picture, arguments_text, link_text, render_picture, resource_text, thoughts_of, wire_id
from .thinking import DEFAULT, OPTION, chat_thinking
from .wire import RAW_RESPONSE, http_options, setting_up

_MISTRAL = re.compile(r"(?:.*/)?(?:mistral|ministral|magistral|codestral|devstral|pixtral)", re.IGNORECASE)
_NO_SIGNATURE: JsonObject = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""What Google documents for the first call of an answer that its model did not give."""
_Stream: TypeAlias = openai.AsyncStream[Any]
_NO_KEY = "none"  # the SDK insists on one; servers that want none take any


class OpenAIChat:
    """Chat completions, as OpenAI's SDK sends them."""

    gives_back = True

    def __init__(self, endpoint: Endpoint) -> None:
        timeout = openai.Timeout(endpoint.idle_s, connect=endpoint.connect_s)
        with setting_up(endpoint):
            self._client = openai.AsyncOpenAI(
                api_key=endpoint.key or _NO_KEY,
                base_url=endpoint.base_url,
                default_query=dict(endpoint.query),
                max_retries=0,  # ours are logged
                http_client=openai.DefaultAsyncHttpxClient(**http_options(endpoint.base_url, timeout)),
                timeout=timeout,
            )
        if endpoint.provider != "openai":  # what the environment holds for OpenAI is nothing for somebody else's server
            self._client.organization = self._client.project = None
            self._client._custom_headers = {}  # noqa: SLF001 - the SDK fills it from OPENAI_CUSTOM_HEADERS

    def render(self, request: ModelRequest, endpoint: Endpoint) -> Rendered:
        """Return the request as a chat completion's."""
        return Rendered(request_body(request, endpoint))

    def begin_answer(self, provider: Provider) -> OpenAIAnswer:
        """Return the reader of one answer."""
        return OpenAIAnswer(provider)

    async def post(self, body: bytes, headers: Mapping[str, str]) -> Any:
        """Send a request."""
        options: Any = {"headers": {**RAW_RESPONSE, **headers}}
        return await self._client.post(
            "/chat/completions", cast_to=object, content=body, options=options, stream=True, stream_cls=_Stream
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()


def request_body(request: ModelRequest, endpoint: Endpoint) -> JsonObject:
    """Return the body of a chat completion. Pure."""
    renderer = _Renderer(request, endpoint)
    body: JsonObject = {"model": endpoint.model, "messages": renderer.messages(), "stream": True}
    if endpoint.provider != "mistral":  # which refuses what it does not know, and counts without being asked
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [{"type": "function", "function": tool} for tool in request.tools]
    options = dict(request.options)
    thinking = chat_thinking(endpoint.provider, endpoint.model, options.pop(OPTION, DEFAULT))
    return {**body, **thinking, **options}


@dataclass(frozen=True, slots=True)
class _Renderer:
    """Our messages in OpenAI's shapes, and what single servers want differently."""

    request: ModelRequest
    endpoint: Endpoint

    def messages(self) -> list[JsonObject]:
        request = self.request
        messages: list[JsonObject] = [{"role": "system", "content": request.system}] if request.system else []
        pictures: list[PromptBlock] = []  # of the results before
        for message in request.messages:
            match message:
                case FromUser(content):
                    messages += self._user(messages, (*pictures, *content))
                    pictures = []
                case FromAssistant():
                    messages += self._user(messages, pictures)
                    messages += self._assistant(message)
                    pictures = []
                case FromTools(answers):
                    messages += self._results(answers, pictures)
                case _:
                    assert_never(message)
        return [*messages, *self._user(messages, pictures)]

    def _user(self, before: Sequence[JsonObject], content: Sequence[PromptBlock]) -> list[JsonObject]:
        """Return what the user says; between it and a tool's result some want to hear the assistant."""
        if not content:
            return []
        user: JsonObject = {"role": "user", "content": self._content(content)}
        bridge = self._wants_a_bridge and before and before[-1]["role"] == "tool"
        return [{"role": "assistant", "content": "(read)"}, user] if bridge else [user]

    @property
    def _wants_a_bridge(self) -> bool:
        """Whether a user's message right behind a tool's is refused: by Mistral, and by its models' templates."""
        return self.endpoint.provider == "mistral" or _MISTRAL.match(self.endpoint.model) is not None

    def _results(self, answers: Sequence[ToolAnswer], pictures: list[PromptBlock]) -> list[JsonObject]:
        """Return the results; their pictures join those that follow: a tool's message takes text alone."""
        messages: list[JsonObject] = []
        for answer in answers:
            texts = [block.text for block in answer.content if isinstance(block, Text)]
            if found := [block for block in answer.content if isinstance(block, Image)]:
                texts.append("[its pictures follow in the next message]")
                pictures += [Text(text=f"Pictures of the tool result {self._id(answer.call_id)}:"), *found]
            messages.append({"role": "tool", "tool_call_id": self._id(answer.call_id), "content": "\n".join(texts)})
        return messages

    def _assistant(self, message: FromAssistant) -> list[JsonObject]:
        own = message.route == self.request.route
        text = "".join(block.text for block in message.content if isinstance(block, Text))
        calls = [self._call(block, own=own) for block in message.content if isinstance(block, ToolRequest)]
        if not text and not calls:
            return []  # thoughts alone: nothing that these servers take back
        messages: JsonObject = self._own_members(message) if own else {}
        messages |= {"role": "assistant", "content": messages.pop("content", None) or text or None}
        if calls:
            messages["tool_calls"] = calls
        if "reasoning_content" in self.endpoint.wanted and not messages.get("reasoning_content"):
            messages["reasoning_content"] = thoughts_of(message)
        if "thought_signature" in self.endpoint.wanted and calls and "extra_content" not in calls[0]:
            calls[0]["extra_content"] = _NO_SIGNATURE
        return [messages]

    def _own_members(self, message: FromAssistant) -> JsonObject:
        """Return what the route gave with a message of its own: some refuse their own calls without it."""
        ids = {str(r.extra["id"]): self._id(r.call_id) for r in message.requests if r.extra and "id" in r.extra}
        members: JsonObject = with_ids(message.extra or {}, ids)
        for block in message.content:
            if isinstance(block, Thought) and (form := block.form or self._earlier_form) not in ("", "content"):
                members[form] = members.get(form, "") + block.text
        if any(isinstance(block, Thought) and block.form == "content" for block in message.content):
            members["content"] = [part for block in message.content if (part := _content_part(block)) is not None]
        return {name: value for name, value in members.items() if name not in self.endpoint.refused}

    @property
    def _earlier_form(self) -> str:
        """The form of a thought that was logged without one, by earlier versions."""
        return "reasoning_content" if self.endpoint.provider == "deepseek" else ""

    def _call(self, request: ToolRequest, *, own: bool) -> JsonObject:
        given = request.extra or {} if own else {}
        extra = {name: value for name, value in given.items() if name not in self.endpoint.refused}
        function = {**extra.pop("function", {}), "name": request.name}
        function["arguments"] = arguments_text(request.arguments)
        return {**extra, "id": self._id(request.call_id), "type": "function", "function": function}

    def _id(self, call_id: str) -> str:
        return wire_id(call_id, length=9 if self.endpoint.provider == "mistral" else 0)

    def _content(self, blocks: Sequence[PromptBlock]) -> Any:
        """Return a string where it is all text, since small servers take nothing else."""
        parts = [self._part(block) for block in blocks]
        if all(part["type"] == "text" for part in parts):
            return "\n\n".join(part["text"] for part in parts)
        return parts

    def _part(self, block: PromptBlock) -> JsonObject:
        match block:
            case Text():
                text = block.text
            case ResourceLink():
                text = link_text(block)
            case Resource():
                text = resource_text(block)
            case Image():
                picture = render_picture(block, self.request, self.endpoint)
                if isinstance(picture, Picture):
                    url = f"data:{picture.mime_type};base64,{picture.data}"
                    return {"type": "image_url", "image_url": {"url": url}}
                text = picture
            case _:
                assert_never(block)
        return {"type": "text", "text": text}


def _content_part(block: AnswerBlock) -> JsonObject | None:
    """Return text or a thought as a part of the content, for those who give it in parts."""
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Thought(form="content"):
            return {"type": "thinking", "thinking": [{"type": "text", "text": block.text}]}
        case _:
            return None
