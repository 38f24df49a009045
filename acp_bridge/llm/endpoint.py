"""Where a model is and how it is reached: what a route and the options come to.

Pure but for a look at the certificates that a variable names. Makes no request.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from acp_bridge.options import ModelSettings

from .facts import known_facts
from .network import PLACE, check_key, check_network, is_loopback
from .options import Options
from .providers import PRESETS, base_url_of
from .routes import KEYLESS, AuthRequired, Route, parse_route

_STALLS = 5
"""How many times as long as it may be silent, a provider may send only what is nothing of an answer."""

_LOCAL_IDLE_S = 600.0
"""A local model may read a long prompt for minutes before its first word, and says nothing meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One model at one address.

    Attributes:
        query: what goes behind every path there.
        key: sent to `base_url` and nowhere else; empty if the server wants none.
        idle_s: how long the provider may be silent, before the answer and between its pieces.
        stall_s: how long it may send nothing of an answer, whatever else it keeps sending.
        max_output_tokens: for providers that insist on a limit.
        refused: members that the server gives and does not take back.
        spoiled: pictures that the server has refused, by content file.
        wanted: members that it wants with every answer, also with those that another model gave without them.
        network: the variables that the HTTP library reads.
    """

    provider: str
    model: str
    base_url: str
    query: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    key: str = field(default="", repr=False)
    context_window: int | None = None
    takes_images: bool = True
    connect_s: float = 10
    idle_s: float = 120
    stall_s: float = 600
    max_output_tokens: int = 32_000
    refused: frozenset[str] = frozenset()
    spoiled: frozenset[str] = frozenset()
    wanted: frozenset[str] = frozenset()
    network: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


def endpoint_of(route: Route, options: Options) -> Endpoint:
    """Return where the route leads.

    Raises:
        AuthRequired: the provider wants a key and none is set.
        ConfigError: the address is malformed.
    """
    preset = PRESETS[route.provider]
    own_url = options.base_urls.get(route.provider)
    base_url, _, query = (base_url_of(route.provider, own_url) if own_url else preset.base_url).partition("?")
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
    facts = known_facts(route, options)
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


def local_endpoint(route: Route, options: Options) -> Endpoint:
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
