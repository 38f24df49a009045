"""What models are opened with, and how it is read from environment and configuration."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType

from acp_bridge.errors import ConfigError
from acp_bridge.options import ModelSettings, RequestOptions

from .network import NETWORK
from .providers import PRESETS, base_url_of

_LOCAL_NAMES = re.compile(
    r"PATH|PYTHONPATH|PYTHONHOME|HOME|TMPDIR|LANG|LC_\w+|LD_LIBRARY_PATH|DYLD_\w+|(?:GGML|OMP|CUDA|HIP|ROCR|MTL)_\w+"
)
"""Variables that matter to a model's own process. No key is among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(RequestOptions):
    """What models are opened with.

    Attributes:
        keys: by provider; each is sent to that provider's address and nowhere else.
        base_urls: by provider, where they differ from the preset's.
        context_window, takes_images: override what is known of the model.
        models: what is said of single ones, by route; it overrides those two.
        max_output_tokens: for providers that insist on a limit; None for what the model allows.
        local_environ: the environment of the process behind a `local:` route.
        network: the variables that the HTTP library reads.
    """

    keys: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    base_urls: Mapping[str, str] = field(default_factory=dict[str, str])
    context_window: int | None = None
    takes_images: bool | None = None
    models: Mapping[str, ModelSettings] = field(default_factory=dict[str, ModelSettings])
    max_output_tokens: int | None = None
    local_environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    network: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


def options_from(
    environ: Mapping[str, str],
    models: Mapping[str, ModelSettings] = MappingProxyType({}),
    requests: RequestOptions = RequestOptions(),  # noqa: B008 - a frozen value
) -> Options:
    """Return what models are opened with.

    Args:
        environ: gives keys and addresses: `X_API_KEY`, `X_BASE_URL`, `OLLAMA_HOST`.
        models: what the user says of single ones, by route.
        requests: how long a provider may take.
    """
    keys = {name: key for name, preset in PRESETS.items() if (key := environ.get(preset.key_variable, "").strip())}
    urls = {
        name: _normalize_or_keep(name, url)
        for name in PRESETS
        if (url := environ.get(f"{name.upper()}_BASE_URL", "").strip())
    }
    if "ollama" not in urls and (host := environ.get("OLLAMA_HOST", "").strip()):
        urls["ollama"] = _ollama_url(host)
    local = {name: value for name, value in environ.items() if _LOCAL_NAMES.fullmatch(name)}
    network = {name: value for name, value in environ.items() if name in NETWORK}
    return Options(**asdict(requests), keys=keys, base_urls=urls, models=models, local_environ=local, network=network)


def _normalize_or_keep(provider: str, url: str) -> str:
    try:
        return base_url_of(provider, url)
    except ConfigError:
        return url  # refused where it is used, and not where another provider is


def _ollama_url(host: str) -> str:
    """Read OLLAMA_HOST as Ollama does: scheme and port may be missing, and the address it listens on is no target."""
    scheme, _, rest = host.rpartition("://")
    name, colon, port = rest.rstrip("/").rpartition(":")
    if not colon or not port.isdecimal():
        name, port = rest.rstrip("/"), {"http": "80", "https": "443"}.get(scheme, "11434")
    if name in ("", "0.0.0.0", "[::]"):  # noqa: S104 - compared, not bound
        name = "127.0.0.1"
    return f"{scheme or 'http'}://{name}:{port}/v1"
