"""The payloads of both kinds of provider, under the same names, for the contract suite."""

from dataclasses import dataclass
from typing import Any, Protocol

from acp_bridge.content import Usage
from acp_bridge.llm import Model, Options, Route, open_model

KEY = "sk-secret-0123456789"


class Dialect(Protocol):
    """What the contract suite needs of a provider's wire format."""

    name: str
    path: str
    form: str

    def open(self, url: str, **options: Any) -> Model: ...
    def start(self) -> list[Any]: ...
    def text(self, text: str) -> list[Any]: ...
    def thought(self, text: str) -> list[Any]: ...
    def tool(self, index: int, name: str, *arguments: str) -> list[Any]: ...
    def end(self, reason: str = "end") -> list[Any]: ...
    def error(self, kind: str) -> Any: ...
    def overflow(self) -> Any: ...


USAGE = Usage(input_tokens=70, output_tokens=20, cached_read_tokens=30)


@dataclass(frozen=True)
class OpenAIDialect:
    name: str = "openai"
    path: str = "/v1/chat/completions"
    form: str = "reasoning_content"

    def open(self, url: str, **options: Any) -> Model:
        options = {"keys": {"openai": KEY}, **options}
        return open_model(Route("openai", "gpt-4o"), Options(base_urls={"openai": f"{url}/v1"}, **options))

    def delta(self, delta: Any, reason: str | None = None) -> Any:
        return {
            "id": "c",
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }

    def start(self) -> list[Any]:
        return [self.delta({"role": "assistant", "content": ""})]

    def text(self, text: str) -> list[Any]:
        return [self.delta({"content": text})]

    def thought(self, text: str) -> list[Any]:
        return [self.delta({"reasoning_content": text})]

    def call(self, **call: Any) -> Any:
        return self.delta({"tool_calls": [call]})

    def tool(self, index: int, name: str, *arguments: str) -> list[Any]:
        first = self.call(index=index, id=f"call_{index}", type="function", function={"name": name, "arguments": ""})
        return [first, *(self.call(index=index, function={"arguments": piece}) for piece in arguments)]

    def end(self, reason: str = "end") -> list[Any]:
        reasons = {"end": "stop", "tools": "tool_calls", "length": "length", "refusal": "content_filter"}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 30}}
        return [self.delta({}, reasons[reason]), {"choices": [], "usage": usage}, "[DONE]"]

    def error(self, kind: str) -> Any:
        words = {"overloaded": "server_error", "rate_limit": "rate_limit_exceeded", "auth": "invalid_api_key"}
        return {"error": {"message": f"it is so, {KEY}", "type": words[kind], "code": words[kind]}}

    def overflow(self) -> Any:
        return {"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}}


@dataclass(frozen=True)
class AnthropicDialect:
    name: str = "anthropic"
    path: str = "/v1/messages"
    form: str = "thinking"

    def open(self, url: str, **options: Any) -> Model:
        options = {"keys": {"anthropic": KEY}, **options}
        return open_model(Route("anthropic", "claude-x"), Options(base_urls={"anthropic": url}, **options))

    def start(self) -> list[Any]:
        usage = {"input_tokens": 70, "cache_read_input_tokens": 30, "output_tokens": 1}
        return [
            {"type": "message_start", "message": {"id": "m", "role": "assistant", "usage": usage}},
            {"type": "ping"},
        ]

    def block(self, index: int, block: Any, *deltas: Any) -> list[Any]:
        return [
            {"type": "content_block_start", "index": index, "content_block": block},
            *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": index},
        ]

    def text(self, text: str) -> list[Any]:
        return self.block(90, {"type": "text", "text": ""}, {"type": "text_delta", "text": text})

    def thought(self, text: str) -> list[Any]:
        return self.block(91, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": text})

    def tool(self, index: int, name: str, *arguments: str) -> list[Any]:
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in arguments]
        return self.block(index, {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}, *deltas)

    def end(self, reason: str = "end") -> list[Any]:
        reasons = {"end": "end_turn", "tools": "tool_use", "length": "max_tokens", "refusal": "refusal"}
        delta = {"type": "message_delta", "delta": {"stop_reason": reasons[reason]}, "usage": {"output_tokens": 20}}
        return [delta, {"type": "message_stop"}]

    def error(self, kind: str) -> Any:
        words = {"overloaded": "overloaded_error", "rate_limit": "rate_limit_error", "auth": "authentication_error"}
        return {"type": "error", "error": {"type": words[kind], "message": f"it is so, {KEY}"}}

    def overflow(self) -> Any:
        message = "prompt is too long: 210000 tokens > 200000 maximum"
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
