"""How hard a model is asked to think, in the words of whoever serves it.

Pure. Owns which levels a model takes and what each becomes in a request. A model that nothing is known of is asked
nothing, since some refuse what they do not know, unless the user says in the configuration that it thinks.
"""

import re
from collections.abc import Sequence
from typing import get_args

from acp_bridge.content import JsonObject, ThoughtLevel
from acp_bridge.session import FromAssistant, FromUser, Message

OPTION = "thought_level"
"""Under which name a request's options hold the level; the protocol's own."""

DEFAULT = "default"
LEVELS: tuple[ThoughtLevel, ...] = get_args(ThoughtLevel)

_BUDGETS = {"low": 4_096, "medium": 10_240, "high": 24_576}
_LEAST_BUDGET = 1_024
_INTERLEAVED = "interleaved-thinking-2025-05-14"  # without it these think once a turn, before their first call


def levels_of(provider: str, model: str, *, told: bool = False) -> tuple[str, ...]:
    """Return the levels that a model takes, none if it cannot be asked; `told` is whether the user says it thinks."""
    name = _name(model)
    if provider == "anthropic":
        match _claude(name):
            case None:
                return LEVELS if told else ()
            case version if version < (3, 7):
                return ()
            case _:
                return LEVELS[1:] if re.search("fable|mythos", name) else LEVELS  # which always think
    if provider in ("openrouter", "ollama", "lmstudio", "llamacpp"):
        return LEVELS
    if re.match(r"gemini-2\.5", name):
        return LEVELS
    if re.match(r"gemini-[3-9]", name):
        return ("low", "high")
    if re.match(r"gpt-5(?!.*chat)", name):
        return (LEVELS[1:], LEVELS, ())[min(_gpt_minor(name), 2)]
    if re.match(r"o[134](?:-|$)|gpt-oss", name):
        return LEVELS[1:]
    if _is_switched(provider, name):
        return ("off", "high")
    return LEVELS if told else ()


def claude_thinking(model: str, level: str, max_tokens: int, messages: Sequence[Message], route: str) -> JsonObject:
    """Return the arguments that make a Claude think: members of the body, and headers under `extra_headers`."""
    name = _name(model)
    version = _claude(name)
    if level == DEFAULT and (version is None or version < (3, 7)):
        return {}
    if version is not None and version >= (4, 6):
        if level == "off":
            return {"thinking": {"type": "disabled"}}
        effort: JsonObject = {} if level == DEFAULT else {"output_config": {"effort": level}}
        return {"thinking": {"type": "adaptive", "display": "summarized"}, **effort}
    budget = min(_BUDGETS.get("medium" if level == DEFAULT else level, 0), max_tokens - _LEAST_BUDGET)
    if budget < _LEAST_BUDGET or not _may_begin_to_think(messages, route):
        return {}
    asked: JsonObject = {"thinking": {"type": "enabled", "budget_tokens": budget}}
    if version is not None and version >= (4, 0):
        asked["extra_headers"] = {"anthropic-beta": _INTERLEAVED}
    return asked


def chat_thinking(provider: str, model: str, level: str) -> JsonObject:
    """Return the members of a chat completion's body that make a model think, and show it where it can be asked to."""
    name = _name(model)
    if provider == "openrouter":
        return {"reasoning": {"enabled": False} if level == "off" else {"effort": _or_medium(level)}}
    if re.match(r"gemini-(?:2\.5|[3-9])", name):
        return _gemini_thinking(name, level)
    if re.match(r"gpt-5\.\d(?!.*chat)", name) and _gpt_minor(name) > 1:
        return {"reasoning_effort": "none"}  # in chat completions these refuse tools with any other, or with none said
    if level == DEFAULT:  # GPT-5.1 thinks only if it is asked to, the others by themselves
        return {"reasoning_effort": "medium"} if re.match(r"gpt-5\.1(?!\d|.*chat)", name) else {}
    if _is_switched(provider, name):
        return {"thinking": {"type": "disabled" if level == "off" else "enabled"}}
    if provider == "llamacpp":
        on: JsonObject = {"enable_thinking": level != "off"}
        return {"chat_template_kwargs": on if level == "off" else {**on, "reasoning_effort": level}}
    return {"reasoning_effort": "none" if level == "off" else level}


def _gemini_thinking(name: str, level: str) -> JsonObject:
    config: JsonObject = {"include_thoughts": level != "off"}
    if name.startswith("gemini-2.5"):
        least = 128 if "pro" in name else 0  # which cannot be kept from thinking
        if level != DEFAULT:
            config["thinking_budget"] = _BUDGETS.get(level, least)
    elif level != DEFAULT:
        config["thinking_level"] = level
    return {"extra_body": {"google": {"thinking_config": config}}}  # a member of that name, in the body itself


def _or_medium(level: str) -> str:
    return "medium" if level == DEFAULT else level


def _may_begin_to_think(messages: Sequence[Message], route: str) -> bool:
    """Whether the turn that goes on began with a thought of this route's own: in its middle none can be begun."""
    last = max((i for i, message in enumerate(messages) if isinstance(message, FromUser)), default=-1)
    first = next((m for m in messages[last + 1 :] if isinstance(m, FromAssistant)), None)
    if first is None:
        return True
    return first.route == route and bool(first.content) and first.content[0].type == "thought"


def _is_switched(provider: str, name: str) -> bool:
    """Whether thinking is on or off and nothing between."""
    return provider == "deepseek" or bool(re.match(r"deepseek|kimi-k(?:2\.|[3-9])|glm-(?:4\.[5-9]|[5-9])", name))


def _claude(name: str) -> tuple[int, int] | None:
    """Return the version in a Claude's name, which may stand before or behind the family; None if there is none."""
    if not name.startswith("claude"):
        return None
    numbers = re.match(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)", name)
    return (int(numbers[1]), int(numbers[2] or 0)) if numbers else None


def _gpt_minor(name: str) -> int:
    found = re.match(r"gpt-5\.(\d+)", name)
    return int(found[1]) if found else 0


def _name(model: str) -> str:
    return model.rpartition("/")[2].lower()
