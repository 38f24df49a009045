"""Routes: `provider:model`, what each provider needs, and the opening of a model behind one.

Owns the presets, the options, and the words for what is missing. Knows no message. An adapter's module is imported when
its route is opened, and no other: this is the one place in the package where an import is not at the top, since each
SDK costs most of a second and start-up must not wait for one that the route does not need.
"""

import difflib
import importlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl

from acp_bridge.errors import ConfigError
from acp_bridge.options import ModelSettings, RequestOptions

from .demo import DemoModel
from .endpoint import Endpoint
from .facts import Facts, facts_of
from .http_model import HttpModel
from .model import Model
from .replay import Recorder, replayed
from .scripted import ScriptedModel
from .settings import NETWORK, PLACE, check_key, check_network, meant_url
from .thinking import levels_of
from .wire import is_loopback


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

_BUILT_IN = ("local", "scripted", "replay", "record", "demo")
_ADAPTERS = {
    "openai": (".openai", "OpenAIChat"),
    "anthropic": (".anthropic", "AnthropicMessages"),
    "local": (".local", "LocalModel"),
}
_LOCAL_NAMES = re.compile(
    r"PATH|PYTHONPATH|PYTHONHOME|HOME|TMPDIR|LANG|LC_\w+|LD_LIBRARY_PATH|DYLD_\w+|(?:GGML|OMP|CUDA|HIP|ROCR|MTL)_\w+"
)
"""Variables that matter to a model's own process. No key is among them."""

_EXAMPLES = {
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

_STALLS = 5
"""How many times as long as it may be silent, a provider may send only what is nothing of an answer."""

_LOCAL_IDLE_S = 600.0
"""A local model may read a long prompt for minutes before its first word, and says nothing meanwhile."""


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
    urls = {name: _meant(name, url) for name in PRESETS if (url := environ.get(f"{name.upper()}_BASE_URL", "").strip())}
    if "ollama" not in urls and (host := environ.get("OLLAMA_HOST", "").strip()):
        urls["ollama"] = _ollama_url(host)
    local = {name: value for name, value in environ.items() if _LOCAL_NAMES.fullmatch(name)}
    network = {name: value for name, value in environ.items() if name in NETWORK}
    return Options(**asdict(requests), keys=keys, base_urls=urls, models=models, local_environ=local, network=network)


def _meant(provider: str, url: str) -> str:
    try:
        return address_of(provider, url)
    except ConfigError:
        return url  # refused where it is used, and not where another provider is


def is_provider(name: str) -> bool:
    """Whether routes may begin with `name`."""
    return name in PRESETS or name in _BUILT_IN


def parse_route(text: str) -> Route:
    """Return the route that `provider:model` names.

    Raises:
        ConfigError: there is no such provider, or no model; the message names the nearest and an example.
    """
    provider, colon, model = text.strip().partition(":")
    if provider not in (*PRESETS, *_BUILT_IN):
        raise ConfigError(f"{_unknown(text.strip()[:_MAX_ECHO], provider[:_MAX_ECHO], bare=not colon)}. {KEYLESS}")
    if provider == "demo":
        return Route(provider)
    if not model:
        example = _EXAMPLES.get(provider, f"{provider}:MODEL")
        raise ConfigError(f"the route {text!r} names no model; write e.g. {example!r}. {KEYLESS}")
    return Route(provider, model)


def _unknown(text: str, provider: str, *, bare: bool) -> str:
    """Return what is wrong with a route whose provider is none, and what was likely meant."""
    if _TAGGED.fullmatch(text):
        return _without_provider(text, "openrouter" if "/" in text else "ollama")
    known = (*PRESETS, *_BUILT_IN)
    near = difflib.get_close_matches(provider.lower(), known, 1)
    if near:
        return f"there is no model provider {provider!r} (did you mean {_EXAMPLES.get(near[0], f'{near[0]}:MODEL')!r}?)"
    if bare:
        maker = next((name for name, models in _MAKERS if re.match(models, text.lower())), "ollama")
        return _without_provider(text, maker)
    return f"there is no model provider {provider!r} (in {text!r}); known are {', '.join(known)}"


def _without_provider(text: str, maker: str) -> str:
    example = f"{maker}:{text or 'MODEL'}"
    return f"the model {text!r} has no provider; write it as 'provider:model', e.g. {example!r}"


def endpoint_of(route: Route, options: Options) -> Endpoint:
    """Return where the route leads.

    Raises:
        AuthRequired: the provider wants a key and none is set.
        ConfigError: the address is malformed.
    """
    preset = PRESETS[route.provider]
    own_url = options.base_urls.get(route.provider)
    base_url, _, query = (address_of(route.provider, own_url) if own_url else preset.base_url).partition("?")
    key = options.keys.get(route.provider, "")
    check_key(key, preset.key_variable)
    if not key and preset.needs_key and own_url is None:  # who gives an address may have a server that wants no key
        raise AuthRequired(
            f"{route.provider} needs a key: set {preset.key_variable} {PLACE}, "
            f"or choose another model with ACP_BRIDGE_MODEL. {KEYLESS}",
            provider=route.provider,
            variables=(preset.key_variable,),
        )
    if not is_loopback(base_url):
        check_network(base_url, options.network)
    local = not preset.needs_key or own_url is not None
    idle_s = options.idle_s or (_LOCAL_IDLE_S if local else 120)
    facts = _known_of(route, options)
    return Endpoint(
        provider=route.provider,
        model=route.model,
        base_url=base_url,
        query=tuple(parse_qsl(query, keep_blank_values=True)),
        key=key,
        context_window=facts.context_window,
        takes_images=facts.takes_images,
        connect_s=options.connect_s,
        idle_s=idle_s,
        stall_s=options.stall_s or _STALLS * idle_s,
        network=options.network,
        max_output_tokens=facts.max_output_tokens,
        wanted=facts.wanted if route.provider == "openai" else frozenset(),  # as the maker's own endpoint has it
    )


def address_of(provider: str, text: str) -> str:
    """Return the base address that was meant by what is set for a provider.

    Raises:
        ConfigError: it is none.
    """
    preset = PRESETS[provider]
    variable = f"{provider.upper()}_BASE_URL"
    return meant_url(
        text,
        adapter=preset.adapter,
        usual=preset.base_url,
        at_home=not preset.needs_key,
        variable=f"{variable} or OLLAMA_HOST" if provider == "ollama" else variable,
    )


def _known_of(route: Route, options: Options) -> Facts:
    """Return what is known of a route's model: by its name, and before that by what the user says."""
    said, facts = options.models.get(str(route), ModelSettings()), facts_of(route.model)
    images = options.takes_images if said.images is None else said.images
    return Facts(
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
    return _known_of(parsed, options).takes_images


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


def no_model_configured() -> AuthRequired:
    """Return what to say when nothing is configured and no local server answers."""
    variables = tuple(preset.key_variable for preset in PRESETS.values() if preset.needs_key)
    return AuthRequired(
        "no model is configured: set ACP_BRIDGE_MODEL to a route such as 'anthropic:claude-sonnet-4-5' and the key it "
        f"needs (one of {', '.join(variables)}). {KEYLESS}",
        variables=("ACP_BRIDGE_MODEL", *variables),
    )


def is_judged(route: str, options: Options) -> bool:
    """Judge a route by its name, key and address alone, as far as it goes. Opens and imports nothing.

    What is left then is for its provider to refuse. Other routes, which are cheap to open, are judged by that.

    Raises:
        AuthRequired: the provider wants a key and none is set.
        ConfigError: the route or an address is malformed.
    """
    parsed = parse_route(route)
    if parsed.provider not in PRESETS:
        return False
    endpoint_of(parsed, options)
    return True


def open_model(route: Route | str, options: Options | None = None) -> Model:
    """Open the model behind a route. No request is made; close it with `aclose`.

    Raises:
        AuthRequired: the provider wants a key and none is set.
        ConfigError: the route, an address or a script is malformed; a model file is missing, or the extra it needs.
    """
    route = parse_route(route) if isinstance(route, str) else route
    options = options or Options()
    match route.provider:
        case "demo":
            return DemoModel()
        case "local":
            return _adapter("local")(_file_of(route, options), options.local_environ)
        case "scripted":
            return ScriptedModel(route.model)
        case "replay":
            return replayed(route.model)
        case "record":
            folder, behind = _recorded(route)
            return Recorder(open_model(behind, options), folder, secrets=options.keys.values())
        case _:
            endpoint = endpoint_of(route, options)
            return HttpModel(endpoint, _adapter(PRESETS[route.provider].adapter)(endpoint))


def _recorded(route: Route) -> tuple[str, Route]:
    """Return where `record:FOLDER=ROUTE` writes, and the route that it listens to.

    Raises:
        ConfigError: it names no folder or no route.
    """
    folder, _, behind = route.model.partition("=")
    if not folder or not behind:
        raise ConfigError(f"the route {str(route)!r} must name a folder and a route: write {_EXAMPLES['record']!r}")
    return folder, parse_route(behind)


def _file_of(route: Route, options: Options) -> Endpoint:
    """Return what is known of a local model before it has an address."""
    return Endpoint(
        provider=route.provider,
        model=route.model,
        base_url="",
        context_window=options.models.get(str(route), ModelSettings()).window or options.context_window,
        takes_images=False,
        connect_s=options.connect_s,
        idle_s=options.idle_s or _LOCAL_IDLE_S,
        stall_s=options.stall_s or _STALLS * _LOCAL_IDLE_S,
    )


def _adapter(adapter: str) -> Any:
    module, name = _ADAPTERS[adapter]
    return getattr(importlib.import_module(module, __package__), name)


def _ollama_url(host: str) -> str:
    """Read OLLAMA_HOST as Ollama does: scheme and port may be missing, and the address it listens on is no target."""
    scheme, _, rest = host.rpartition("://")
    name, colon, port = rest.rstrip("/").rpartition(":")
    if not colon or not port.isdecimal():
        name, port = rest.rstrip("/"), {"http": "80", "https": "443"}.get(scheme, "11434")
    if name in ("", "0.0.0.0", "[::]"):  # noqa: S104 - compared, not bound
        name = "127.0.0.1"
    return f"{scheme or 'http'}://{name}:{port}/v1"
