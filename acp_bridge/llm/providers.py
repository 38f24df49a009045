"""The providers that there are: a row each, with its address, its key's variable and its adapter.

Owns the table, and what is meant by an address that somebody sets for a row of it. Opens nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from .network import normalize_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A provider that is only an address and a key's name.

    Attributes:
        key_variable: the environment variable of its key.
        needs_key: whether it refuses requests without one, at this address.
    """

    base_url: str
    key_variable: str
    needs_key: bool = True
    adapter: str = "openai"


PRESETS: Mapping[str, Preset] = {
    "openai": Preset(base_url="https://api.openai.com/v1", key_variable="OPENAI_API_KEY"),
    "anthropic": Preset(base_url="https://api.anthropic.com", key_variable="ANTHROPIC_API_KEY", adapter="anthropic"),
    "deepseek": Preset(base_url="https://api.deepseek.com/v1", key_variable="DEEPSEEK_API_KEY"),
    "openrouter": Preset(base_url="https://openrouter.ai/api/v1", key_variable="OPENROUTER_API_KEY"),
    "mistral": Preset(base_url="https://api.mistral.ai/v1", key_variable="MISTRAL_API_KEY"),
    "ollama": Preset(base_url="http://127.0.0.1:11434/v1", key_variable="OLLAMA_API_KEY", needs_key=False),
    "lmstudio": Preset(base_url="http://127.0.0.1:1234/v1", key_variable="LMSTUDIO_API_KEY", needs_key=False),
    "llamacpp": Preset(base_url="http://127.0.0.1:8080/v1", key_variable="LLAMACPP_API_KEY", needs_key=False),
}
"""The providers over HTTP, in the order in which they are told of."""

BUILT_IN = ("local", "scripted", "replay", "record", "demo")
"""Providers that are no row above: models in a process of ours, and what plays or records answers."""


def base_url_of(provider: str, text: str) -> str:
    """Return the base address that was meant by what is set for a provider.

    Raises:
        ConfigError: it is none.
    """
    preset = PRESETS[provider]
    variable = f"{provider.upper()}_BASE_URL"
    return normalize_url(
        text,
        adapter=preset.adapter,
        usual=preset.base_url,
        at_home=not preset.needs_key,
        variable=f"{variable} or OLLAMA_HOST" if provider == "ollama" else variable,
    )
