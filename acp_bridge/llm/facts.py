"""What is known of models by their names alone: how much fits, and which cannot see.

Pure. A name is what a user writes; what they say of it in the configuration goes before all of this.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a model by its name. One that nothing is known of is sent images: most that come out see."""

    context_window: int | None = None
    takes_images: bool = True
    max_output_tokens: int = 8_192
    wanted: frozenset[str] = frozenset()


_BLIND = Facts(takes_images=False)

_FACTS: tuple[tuple[str, Facts], ...] = (
    (r"claude-3-(?:opus|haiku|sonnet)", Facts(context_window=200_000, max_output_tokens=4_096)),
    (r"claude-3-5", Facts(context_window=200_000, max_output_tokens=8_192)),
    (r"claude", Facts(context_window=200_000, max_output_tokens=32_000)),
    (r"gpt-3\.5", Facts(context_window=16_385, takes_images=False)),
    (r"gpt-4\.1", Facts(context_window=1_047_576)),
    (r"gpt-4o|gpt-4-turbo", Facts(context_window=128_000)),
    (r"gpt-4(?:-|$)", Facts(context_window=8_192, takes_images=False)),
    (r"gpt-5", Facts(context_window=400_000)),
    (r"gpt-oss", Facts(context_window=131_072, takes_images=False)),
    (r"o[13]-mini", Facts(context_window=200_000, takes_images=False)),
    (r"o[134](?:-|$)", Facts(context_window=200_000)),
    (r"deepseek-(?:chat|reasoner|coder|r1|v\d)", Facts(context_window=128_000, takes_images=False)),
    (r"gemini-[3-9]", Facts(context_window=1_048_576, wanted=frozenset(("thought_signature",)))),
    (r"gemini", Facts(context_window=1_048_576)),
    (r"mistral-(?:large|medium|small)", Facts(context_window=128_000)),
    (r"codestral|devstral", Facts(context_window=128_000, takes_images=False)),
    (r"kimi-k2\.", Facts(context_window=262_144)),
    (r"kimi-k2|qwen3-coder", Facts(context_window=262_144, takes_images=False)),
    (r"(?:qwen(?:2(?:\.5)?|3)|llama-?[23](?:\.[13])?|phi-?[34])(?:[:-]\d+(?:\.\d+)?b.*)?$", _BLIND),
    (r"glm-4\.[56](?!v)|minimax-m[12]", _BLIND),
)
"""By the beginning of a name, the first that fits. Windows are told of models of one size only."""


def facts_of(model: str) -> Facts:
    """Return what is known of a model; a vendor's prefix (`openai/gpt-4o`) is left out of account."""
    name = model.rpartition("/")[2].lower()
    return next((facts for pattern, facts in _FACTS if re.match(pattern, name)), Facts())
