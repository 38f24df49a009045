"""How hard a model is asked to think, in each provider's words."""

from typing import Any

import pytest

from acp_bridge.content import JsonObject, Text, Thought, ToolRequest
from acp_bridge.llm import Endpoint, ModelSettings, Options, takes_images, thought_levels
from acp_bridge.llm.anthropic import render
from acp_bridge.llm.openai import request_body
from acp_bridge.session import FromAssistant, FromTools, FromUser, Message, ModelRequest, ToolAnswer

ASK = FromUser((Text(text="hi"),))
_ALWAYS = frozenset(("model", "messages", "max_tokens", "stream", "stream_options"))
"""Members of every request."""

ADAPTIVE = {"type": "adaptive", "display": "summarized"}


def asked(route: str, level: str = "", *messages: Message) -> JsonObject:
    """Return what is sent beside the conversation."""
    provider, _, model = route.partition(":")
    options: JsonObject = {"thought_level": level} if level else {}
    request = ModelRequest(route=route, system="", messages=messages or (ASK,), options=options)
    endpoint = Endpoint(provider=provider, model=model, base_url="http://x")
    if provider == "anthropic":
        rendered = render(request, endpoint)
        body, headers = rendered.body, {"extra_headers": rendered.headers} if rendered.headers else {}
    else:
        body, headers = request_body(request, endpoint), {}
    return {**{name: value for name, value in body.items() if name not in _ALWAYS}, **headers}


def budget(tokens: int) -> JsonObject:
    return {"type": "enabled", "budget_tokens": tokens}


@pytest.mark.parametrize(
    ("route", "level", "sent"),
    [
        ("anthropic:claude-3-5-haiku-latest", "", None),
        ("anthropic:claude-3-7-sonnet-20250219", "", budget(10_240)),
        ("anthropic:claude-sonnet-4-20250514", "high", budget(24_576)),
        ("anthropic:claude-sonnet-4-5", "low", budget(4_096)),
        ("anthropic:claude-haiku-4-5-20251001", "off", None),
        ("anthropic:claude-opus-4-6", "", ADAPTIVE),
        ("anthropic:claude-sonnet-5", "off", {"type": "disabled"}),
        ("anthropic:my-model", "", None),
        ("anthropic:my-model", "low", budget(4_096)),
        ("deepseek:deepseek-v4-pro", "", None),
        ("deepseek:deepseek-v4-pro", "high", {"type": "enabled"}),
        ("openai:kimi-k2.5", "off", {"type": "disabled"}),
    ],
)
def test_the_member_of_that_name_is_what_the_model_takes(route: str, level: str, sent: Any) -> None:
    assert asked(route, level).get("thinking") == sent


@pytest.mark.parametrize(
    ("route", "level", "sent"),
    [
        ("openai:gpt-4o", "", {}),
        ("openai:gpt-5", "", {}),
        ("openai:gpt-5-mini", "low", {"reasoning_effort": "low"}),
        ("openai:gpt-5.1", "", {"reasoning_effort": "medium"}),
        ("openai:gpt-5.1", "off", {"reasoning_effort": "none"}),
        ("openai:gpt-5.6-terra", "high", {"reasoning_effort": "none"}),
        ("openai:gpt-5.1-chat-latest", "", {}),
        ("openai:my-model", "", {}),
        ("openai:my-model", "high", {"reasoning_effort": "high"}),
        ("openrouter:anthropic/claude-sonnet-4.5", "", {"reasoning": {"effort": "medium"}}),
        ("openrouter:x/y", "off", {"reasoning": {"enabled": False}}),
        ("ollama:qwen3", "", {}),
        ("ollama:qwen3", "off", {"reasoning_effort": "none"}),
        ("llamacpp:qwen3", "off", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("mistral:devstral", "", {}),
    ],
)
def test_a_level_is_said_as_the_server_takes_it_and_nothing_where_it_may_take_nothing(
    route: str, level: str, sent: JsonObject
) -> None:
    assert asked(route, level) == sent


@pytest.mark.parametrize(
    ("model", "level", "sent"),
    [
        ("gemini-2.5-pro", "off", {"include_thoughts": False, "thinking_budget": 128}),
        ("gemini-2.5-flash", "high", {"include_thoughts": True, "thinking_budget": 24_576}),
        ("gemini-3-pro", "", {"include_thoughts": True}),
        ("gemini-3-pro", "low", {"include_thoughts": True, "thinking_level": "low"}),
    ],
)
def test_gemini_is_asked_to_show_its_thoughts(model: str, level: str, sent: JsonObject) -> None:
    assert asked(f"openai:{model}", level) == {"extra_body": {"google": {"thinking_config": sent}}}


def test_a_level_of_effort_goes_with_adaptive_thinking_and_thinking_between_calls_is_asked_for_where_it_is_not() -> (
    None
):
    assert asked("anthropic:claude-opus-4-6", "low") == {"thinking": ADAPTIVE, "output_config": {"effort": "low"}}
    older = asked("anthropic:claude-sonnet-4-5")
    assert older["extra_headers"] == {"anthropic-beta": "interleaved-thinking-2025-05-14"}
    assert "extra_headers" not in asked("anthropic:claude-3-7-sonnet-latest")


def test_a_turn_that_another_model_began_is_gone_on_with_without_thinking() -> None:
    """A budget of thought in the middle of a turn is refused unless the turn began with a thought of one's own."""
    own = "anthropic:claude-sonnet-4-5"
    call = ToolRequest(call_id="c", name="f", arguments="{}", title="F")
    result = FromTools((ToolAnswer("c", (Text(text="o"),), is_error=False),))
    thought = Thought(text="hm", signature="s", form="thinking")
    begun = FromAssistant((thought, call), own)
    assert "thinking" in asked(own, "", ASK, begun, result)
    for foreign in (FromAssistant((thought, call), "anthropic:other"), FromAssistant((call,), own)):
        assert "thinking" not in asked(own, "", ASK, foreign, result)
        assert "thinking" in asked(own, "", ASK, foreign, result, ASK)


@pytest.mark.parametrize(
    ("route", "levels"),
    [
        ("demo", ()),
        ("nobody:x", ()),
        ("openai:gpt-4o", ()),
        ("openai:gpt-5", ("low", "medium", "high")),
        ("openai:gpt-5.6", ()),
        ("openai:unheard-of", ()),
        ("anthropic:claude-sonnet-4-5", ("off", "low", "medium", "high")),
        ("anthropic:claude-fable-5", ("low", "medium", "high")),
        ("deepseek:deepseek-chat", ("off", "high")),
    ],
)
def test_the_levels_that_are_offered_are_those_that_the_model_takes(route: str, levels: tuple[str, ...]) -> None:
    assert thought_levels(route, Options()) == levels


def test_a_model_that_the_user_says_thinks_is_offered_all_levels() -> None:
    options = Options(models={"openai:mine": ModelSettings(thinking="low"), "openai:other": ModelSettings(window=9)})
    assert thought_levels("openai:mine", options) == ("off", "low", "medium", "high")
    assert thought_levels("openai:other", options) == ()


def test_what_the_user_says_of_images_is_known_before_the_model_is_opened() -> None:
    said = {"openai:qwen3:8b": ModelSettings(images=True), "openai:mine": ModelSettings(images=False)}
    assert takes_images("openai:qwen3:8b", Options(models=said))
    assert not takes_images("openai:mine", Options(models=said))
    assert not takes_images("openai:qwen3:8b", Options())
