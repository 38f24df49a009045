"""Routes: `provider:model`, as users write them.

Owns the reading of one, and the help for what is none or is missing. Opens nothing.
"""

import difflib
import re
from dataclasses import dataclass

from acp_bridge.errors import ConfigError

from .providers import BUILT_IN, PRESETS

EXAMPLES = {
    "demo": "demo",
    "local": "local:model.gguf",
    "scripted": "scripted:answers.json",
    "replay": "replay:FOLDER",
    "record": "record:FOLDER=openai:gpt-5",
}

_MAKERS = (
    ("anthropic", r"claude"),
    ("openai", r"gpt|o\d|codex"),
    ("deepseek", r"deepseek"),
    ("mistral", r"mistral|codestral|devstral|magistral"),
    ("openrouter", r"[\w.-]+/"),
)
"""Whose model a bare name is likely to be; any other is taken for one that a server on this machine has."""

_TAGGED = re.compile(r"[^:]+:(?:latest|free|\d+(?:\.\d+)?[bm](?:-.*)?)", re.IGNORECASE)
"""A model's name as Ollama or OpenRouter lists it, with a tag that no provider's name stands before."""

_MAX_ECHO = 80

KEYLESS = (
    "Without a key: the model 'demo' (ACP_BRIDGE_MODEL=demo; in a shell also `-m demo`), "
    "or a server on this machine, Ollama, LM Studio or llama.cpp"
)
"""What whoever has no usable route is told besides, wherever it is said."""


class AuthRequired(ConfigError):
    """A model cannot be used until a key or a route is set; the message says what to set.

    Attributes:
        provider: the provider concerned, `""` if no route is configured at all.
        variables: the environment variables that would do.
    """

    def __init__(self, message: str, *, provider: str = "", variables: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.provider = provider
        self.variables = variables


@dataclass(frozen=True, slots=True)
class Route:
    """`provider:model`; `demo` has no model."""

    provider: str
    model: str = ""

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}" if self.model else self.provider


def is_provider(name: str) -> bool:
    """Whether routes may begin with `name`."""
    return name in PRESETS or name in BUILT_IN


def parse_route(text: str) -> Route:
    """Return the route that `provider:model` names.

    Raises:
        ConfigError: there is no such provider, or no model; the message names the nearest and an example.
    """
    provider, colon, model = text.strip().partition(":")
    if provider not in (*PRESETS, *BUILT_IN):
        raise ConfigError(f"{_unknown(text.strip()[:_MAX_ECHO], provider[:_MAX_ECHO], bare=not colon)}. {KEYLESS}")
    if provider == "demo":
        return Route(provider)
    if not model:
        example = EXAMPLES.get(provider, f"{provider}:MODEL")
        raise ConfigError(f"the route {text!r} names no model; write e.g. {example!r}. {KEYLESS}")
    return Route(provider, model)


def _unknown(text: str, provider: str, *, bare: bool) -> str:
    """Return what is wrong with a route whose provider is none, and what was likely meant."""
    if _TAGGED.fullmatch(text):
        return _without_provider(text, "openrouter" if "/" in text else "ollama")
    known = (*PRESETS, *BUILT_IN)
    near = difflib.get_close_matches(provider.lower(), known, 1)
    if near:
        return f"there is no model provider {provider!r} (did you mean {EXAMPLES.get(near[0], f'{near[0]}:MODEL')!r}?)"
    if bare:
        maker = next((name for name, models in _MAKERS if re.match(models, text.lower())), "ollama")
        return _without_provider(text, maker)
    return f"there is no model provider {provider!r} (in {text!r}); known are {', '.join(known)}"


def _without_provider(text: str, maker: str) -> str:
    example = f"{maker}:{text or 'MODEL'}"
    return f"the model {text!r} has no provider; write it as 'provider:model', e.g. {example!r}"


def no_model_configured() -> AuthRequired:
    """Return what to say when nothing is configured and no local server answers."""
    variables = tuple(preset.key_variable for preset in PRESETS.values() if preset.needs_key)
    return AuthRequired(
        "no model is configured: set ACP_BRIDGE_MODEL to a route such as 'anthropic:claude-sonnet-4-5' and the key it "
        f"needs (one of {', '.join(variables)}). {KEYLESS}",
        variables=("ACP_BRIDGE_MODEL", *variables),
    )
