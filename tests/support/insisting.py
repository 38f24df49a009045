"""Providers that answer 400 unless what they gave comes back to them, and to nobody else; one a dialect.

An answer is told by how many there are in the request already, so that a request may be made again, by another process.
Odd ones ask for two tools, the others end their turn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import orjson

from .dialects import AnthropicDialect, OpenAIDialect
from .server import Reply, Request, sse, status

Json: TypeAlias = dict[str, Any]

OPENAI, ANTHROPIC = OpenAIDialect(), AnthropicDialect()


@dataclass(frozen=True, kw_only=True)
class Insisting:
    """A provider behind the OpenAI dialect.

    Attributes:
        deltas: what comes with answer `n` before its text or calls, piece by piece.
        of_call: what comes with a call of answer `n`, by its place.
        message: what must stand in the message of answer `n`, given the ids of its calls as they came back.
    """

    name: str
    route: str
    environ: dict[str, str]
    deltas: Callable[[int], Sequence[Json]]
    message: Callable[[int, list[str]], Json]
    of_call: Callable[[int, int], Json] = lambda _n, _place: {}
    content: Literal["text", "parts"] = "text"
    asked: list[str] = field(default_factory=list[str])

    def reply(self, request: Request) -> Reply:
        """Check what came back and give the next answer."""
        given = [m for m in request.json["messages"] if m["role"] == "assistant"]
        if request.json["model"] == "another":
            return self._as_another(given)
        for n, message in enumerate(given, 1):
            if wrong := self._wrong(n, message):
                self.asked.append(wrong)
                return status(400, {"error": {"message": wrong, "type": "invalid_request_error"}})
        self.asked.append("")
        return sse(*self._answer(len(given) + 1))

    def _as_another(self, given: list[Json]) -> Reply:
        for message in given:
            theirs = message.keys() - {"role", "content", "tool_calls"}
            for call in message.get("tool_calls") or ():
                theirs |= call.keys() - {"id", "type", "function"} | call["function"].keys() - {"name", "arguments"}
            if theirs or isinstance(message["content"], list):
                self.asked.append(f"another route was sent {theirs} {message['content']}")
                return status(400, {"error": {"message": "what is this?", "type": "invalid_request_error"}})
        self.asked.append("")
        return sse(*OPENAI.start(), *OPENAI.text("I am another."), *OPENAI.end())

    def _wrong(self, n: int, message: Json) -> str:
        calls = message.get("tool_calls") or []
        wanted = self.message(n, [call["id"] for call in calls])
        for name, value in wanted.items():
            if message.get(name) != value:
                return f"{name} of answer {n} must be {value!r}, not {message.get(name)!r}"
        for place, call in enumerate(calls):
            for name, value in self.of_call(n, place).items():
                if call.get(name) != value:
                    return f"{name} of call {place} of answer {n} must be {value!r}, not {call.get(name)!r}"
        return ""

    def _answer(self, n: int) -> list[Any]:
        pieces = [*OPENAI.start(), *(OPENAI.delta(delta) for delta in self.deltas(n))]
        if not n % 2:
            said = [{"type": "text", "text": f"Text {n}."}] if self.content == "parts" else f"Text {n}."
            return [*pieces, OPENAI.delta({"content": said}), *OPENAI.end()]
        for place in (0, 1):
            function = {"name": "list_files", "arguments": ""}
            first = {"index": place, "id": f"call_{n}_{place}", "type": "function", "function": function}
            pieces.append(OPENAI.call(**first, **self.of_call(n, place)))
            pieces.append(OPENAI.call(index=place, function={"arguments": orjson.dumps({"path": "."}).decode()}))
        return [*pieces, *OPENAI.end("tools")]


def at(url: str) -> dict[str, str]:
    """Lead `openai:` to a server."""
    return {"OPENAI_API_KEY": "sk-none-0123456789", "OPENAI_BASE_URL": url}


def _reasoning(name: str) -> Callable[[int], Sequence[Json]]:
    return lambda n: [{name: f"thought {n}, ", "content": None}, {name: "in pieces", "content": None}]


def _reasoning_back(name: str) -> Callable[[int, list[str]], Json]:
    return lambda n, _ids: {name: f"thought {n}, in pieces"}


def _openrouter(n: int) -> Sequence[Json]:
    text = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
    encrypted = {"type": "reasoning.encrypted", "format": "google-gemini-v1", "index": 0}
    return [
        {"reasoning": "thought ", "reasoning_details": [{**text, "text": "thought "}], "content": ""},
        {"reasoning": str(n), "reasoning_details": [{**text, "text": str(n)}], "content": ""},
        {"reasoning_details": [{**text, "signature": f"signed {n}"}]},
        {"reasoning_details": [{**encrypted, "data": f"sealed {n}", "id": f"call_{n}_0"}]},
    ]


def _openrouter_back(n: int, ids: list[str]) -> Json:
    text = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, "text": f"thought {n}"}
    encrypted = {"type": "reasoning.encrypted", "format": "google-gemini-v1", "index": 0, "data": f"sealed {n}"}
    call_id = ids[0] if ids else f"call_{n}_0"
    return {"reasoning_details": [{**text, "signature": f"signed {n}"}, {**encrypted, "id": call_id}]}


def _mistral(n: int) -> Sequence[Json]:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": text}]} for text in ("thought ", str(n))]
    return [{"content": [part]} for part in parts]


def _mistral_back(n: int, ids: list[str]) -> Json:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": f"thought {n}"}]}
    return {"content": [thinking] if ids else [thinking, {"type": "text", "text": f"Text {n}."}]}


def _gemini_signature(n: int, place: int) -> Json:
    return {} if place else {"extra_content": {"google": {"thought_signature": f"signed {n}"}}}


def dialects(url: str) -> list[Insisting]:
    """Return the providers behind the OpenAI dialect, all at `url`."""
    v1 = f"{url}/v1"
    return [
        Insisting(
            name="gemini",
            route="openai:gemini-3-pro",
            environ=at(v1),
            deltas=lambda n: [] if n % 2 else [{"extra_content": {"google": {"thought_signature": f"text {n}"}}}],
            message=lambda n, ids: {} if ids else {"extra_content": {"google": {"thought_signature": f"text {n}"}}},
            of_call=_gemini_signature,
        ),
        Insisting(
            name="kimi",
            route="openai:kimi-k2-thinking",
            environ=at(v1),
            deltas=_reasoning("reasoning_content"),
            message=_reasoning_back("reasoning_content"),
        ),
        Insisting(
            name="deepseek",
            route="deepseek:deepseek-v4-pro",
            environ={"DEEPSEEK_API_KEY": "sk-none-0123456789", "DEEPSEEK_BASE_URL": v1},
            deltas=_reasoning("reasoning_content"),
            message=_reasoning_back("reasoning_content"),
        ),
        Insisting(
            name="openrouter",
            route="openrouter:anthropic/claude-sonnet-4.5",
            environ={"OPENROUTER_API_KEY": "sk-none-0123456789", "OPENROUTER_BASE_URL": v1},
            deltas=_openrouter,
            message=_openrouter_back,
        ),
        Insisting(
            name="mistral",
            route="mistral:magistral-medium",
            environ={"MISTRAL_API_KEY": "sk-none-0123456789", "MISTRAL_BASE_URL": v1},
            deltas=_mistral,
            message=_mistral_back,
            content="parts",
        ),
        Insisting(
            name="vllm",
            route="openai:qwen3-32b",
            environ=at(v1),
            deltas=_reasoning("reasoning"),
            message=_reasoning_back("reasoning"),
        ),
        Insisting(
            name="llamacpp",
            route="llamacpp:gpt-oss-20b",
            environ={"LLAMACPP_BASE_URL": v1},
            deltas=_reasoning("reasoning_content"),
            message=_reasoning_back("reasoning_content"),
        ),
        Insisting(
            name="ollama",
            route="ollama:qwen3",
            environ={"OLLAMA_BASE_URL": v1},
            deltas=_reasoning("reasoning"),
            message=_reasoning_back("reasoning"),
        ),
        Insisting(
            name="novelty",
            route="openai:novelty",
            environ=at(v1),
            deltas=lambda n: [
                {"trace": {"steps": [{"index": 0, "proof": "a"}]}},
                {"trace": {"steps": [{"index": 0, "proof": str(n)}]}},
            ],
            message=lambda n, _ids: {"trace": {"steps": [{"index": 0, "proof": f"a{n}"}]}},
            of_call=lambda n, place: {"seal": f"{n}.{place}"},
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class InsistingAnthropic:
    """Anthropic's API: a signed thought, a redacted one, one that is not shown, and a member of a call."""

    name: str = "anthropic"
    route: str = "anthropic:claude-sonnet-4-5"
    environ: dict[str, str]
    asked: list[str] = field(default_factory=list[str])

    def reply(self, request: Request) -> Reply:
        """Check what came back and give the next answer."""
        given = [m["content"] for m in request.json["messages"] if m["role"] == "assistant"]
        mine = request.json["model"] != "another"
        for n, content in enumerate(given, 1):
            theirs = [part for part in content if "thinking" in part["type"]]
            callers = [part.get("caller") for part in content if part["type"] == "tool_use"]
            wanted = (
                (self.thoughts(n), [{"type": f"direct {n}"}] * len(callers)) if mine else ([], [None] * len(callers))
            )
            if (theirs, callers) != wanted:
                self.asked.append(f"answer {n} must come back as {wanted}, not as {(theirs, callers)}")
                error = {"type": "invalid_request_error", "message": "Invalid `signature` in `thinking` block"}
                return status(400, {"type": "error", "error": error})
        self.asked.append("")
        return sse(*self._answer(len(given) + 1 if mine else 2))

    def thoughts(self, n: int) -> list[Json]:
        """Return the thoughts of answer `n`, as they must come back."""
        return [
            {"type": "thinking", "thinking": f"thought {n}", "signature": f"signed {n}"},
            {"type": "redacted_thinking", "data": f"sealed {n}"},
            {"type": "thinking", "thinking": "", "signature": f"unseen {n}"},
        ]

    def _answer(self, n: int) -> list[Any]:
        block = ANTHROPIC.block
        empty = {"type": "thinking", "thinking": "", "signature": ""}
        pieces = [{"type": "thinking_delta", "thinking": text} for text in ("thought ", str(n))]
        thoughts = [
            *block(0, empty, *pieces, {"type": "signature_delta", "signature": f"signed {n}"}),
            *block(1, {"type": "redacted_thinking", "data": f"sealed {n}"}),
            *block(2, empty, {"type": "signature_delta", "signature": f"unseen {n}"}),
        ]
        if not n % 2:
            return [*ANTHROPIC.start(), *thoughts, *ANTHROPIC.text(f"Text {n}."), *ANTHROPIC.end()]
        call = {"type": "tool_use", "name": "list_files", "input": {}, "caller": {"type": f"direct {n}"}}
        calls = [part for i in (3, 4) for part in block(i, {**call, "id": f"toolu_{i}"})]
        return [*ANTHROPIC.start(), *thoughts, *calls, *ANTHROPIC.end("tools")]


NAMES = ("gemini", "kimi", "deepseek", "openrouter", "mistral", "vllm", "llamacpp", "ollama", "novelty", "anthropic")


def insisting(name: str, url: str) -> Insisting | InsistingAnthropic:
    """Return the provider of that name."""
    anthropic = InsistingAnthropic(environ={"ANTHROPIC_API_KEY": "sk-none-0123456789", "ANTHROPIC_BASE_URL": url})
    return next(provider for provider in (*dialects(url), anthropic) if provider.name == name)
