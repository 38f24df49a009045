"""What is known of models by their names alone: how much fits, which cannot see, how hard they can be asked to think.

Pure. A name is what a user writes; what they say of it in the configuration goes before all of this.
"""

import re
from dataclasses import dataclass

from acp_bridge.errors import ConfigError
from acp_bridge.options import ModelSettings

from .options import Options
from .providers import PRESETS
from .routes import Route, parse_route
from .thinking import levels_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What is known of a model by its name. One that nothing is known of is sent images: most that come out see."""

    context_window: int | None = None
    takes_images: bool = True
    max_output_tokens: int = 8_192
    wanted: frozenset[str] = frozenset()


_BLIND = ModelFacts(takes_images=False)

_FACTS: tuple[tuple[str, ModelFacts], ...] = (
    (r"claude-3-(?:opus|haiku|sonnet)", ModelFacts(context_window=200_000, max_output_tokens=4_096)),
    (r"claude-3-5", ModelFacts(context_window=200_000, max_output_tokens=8_192)),
    (r"claude", ModelFacts(context_window=200_000, max_output_tokens=32_000)),
    (r"gpt-3\.5", ModelFacts(context_window=16_385, takes_images=False)),
    (r"gpt-4\.1", ModelFacts(context_window=1_047_576)),
    (r"gpt-4o|gpt-4-turbo", ModelFacts(context_window=128_000)),
    (r"gpt-4(?:-|$)", ModelFacts(context_window=8_192, takes_images=False)),
    (r"gpt-5", ModelFacts(context_window=400_000)),
    (r"gpt-oss", ModelFacts(context_window=131_072, takes_images=False)),
    (r"o[13]-mini", ModelFacts(context_window=200_000, takes_images=False)),
    (r"o[134](?:-|$)", ModelFacts(context_window=200_000)),
    (r"deepseek-(?:chat|reasoner|coder|r1|v\d)", ModelFacts(context_window=128_000, takes_images=False)),
    (r"gemini-[3-9]", ModelFacts(context_window=1_048_576, wanted=frozenset(("thought_signature",)))),
    (r"gemini", ModelFacts(context_window=1_048_576)),
    (r"mistral-(?:large|medium|small)", ModelFacts(context_window=128_000)),
    (r"codestral|devstral", ModelFacts(context_window=128_000, takes_images=False)),
    (r"kimi-k2\.", ModelFacts(context_window=262_144)),
    (r"kimi-k2|qwen3-coder", ModelFacts(context_window=262_144, takes_images=False)),
    (r"(?:qwen(?:2(?:\.5)?|3)|llama-?[23](?:\.[13])?|phi-?[34])(?:[:-]\d+(?:\.\d+)?b.*)?$", _BLIND),
    (r"glm-4\.[56](?!v)|minimax-m[12]", _BLIND),
)
"""By the beginning of a name, the first that fits. Windows are told of models of one size only."""


def facts_of(model: str) -> ModelFacts:
    """Return what is known of a model; a vendor's prefix (`openai/gpt-4o`) is left out of account."""
    name = model.rpartition("/")[2].lower()
    return next((facts for pattern, facts in _FACTS if re.match(pattern, name)), ModelFacts())


def known_facts(route: Route, options: Options) -> ModelFacts:
    """Return what is known of a route's model: by its name, and before that by what the user says."""
    said, facts = options.models.get(str(route), ModelSettings()), facts_of(route.model)
    images = options.takes_images if said.images is None else said.images
    return ModelFacts(
        context_window=said.window or options.context_window or facts.context_window,
        takes_images=facts.takes_images if images is None else images,
        max_output_tokens=options.max_output_tokens or facts.max_output_tokens,
        wanted=facts.wanted,
    )


def takes_images(route: str, options: Options) -> bool:
    """Return whether images reach a route's model, as far as its name says. Opens and imports nothing.

    What is not known is said to take them: the adapter that is opened later leaves them out, with a word to the model.
    """
    try:
        parsed = parse_route(route)
    except ConfigError:
        return True
    if parsed.provider not in PRESETS:
        return parsed.provider != "local"
    return known_facts(parsed, options).takes_images


def thought_levels(route: str, options: Options) -> tuple[str, ...]:
    """Return how hard a route's model can be asked to think, none if it cannot. Opens and imports nothing."""
    try:
        parsed = parse_route(route)
    except ConfigError:
        return ()
    if parsed.provider not in PRESETS:
        return ()
    said = options.models.get(str(parsed), ModelSettings())
    return levels_of(parsed.provider, parsed.model, told=said.thinking is not None)
