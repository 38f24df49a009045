"""What people set for the way to a provider, as they meant it: an address, a key, a proxy, certificates.

Owns the reading of each and the words for what cannot be right, which name the variable and the place. Makes no
request; of the disk it looks only at what certificates are read from.
"""

import itertools
import os
import re
import unicodedata
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit, urlunsplit

from acp_bridge.errors import ConfigError
from acp_bridge.text import escaped, unseen

PLACE = "in the environment of the agent (in the editor's settings: its `env`)"

_PROXIES = {scheme: (f"{scheme}_proxy", f"{scheme}_proxy".upper()) for scheme in ("https", "http", "all")}
"""By scheme, the variables that name its proxy; the first that is set counts."""
NETWORK = frozenset(
    ("no_proxy", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE", *itertools.chain(*_PROXIES.values()))
)
"""Variables that the HTTP library reads."""

_PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")
_KEY = re.compile(r"[!-~]*")
_ENDS = {"openai": ("/chat/completions",), "anthropic": ("/messages", "/v1")}
"""What the SDKs add by themselves."""
_BLANK_ENDS = "\"'<>`"


def normalize_url(text: str, *, adapter: str, usual: str, at_home: bool, variable: str) -> str:
    """Return the base address that somebody meant: without blanks, doubled slashes, or what the SDK adds by itself.

    Args:
        text: what was set.
        adapter: whose SDK will use it.
        usual: the provider's usual address; a host alone means its path, where the host is the same.
        at_home: whether the provider is a program on one's own machine, whose path is the same on every host.
        variable: where it was set.

    Raises:
        ConfigError: it is no address.
    """
    parts = _address(_strip(text), variable)
    path = re.sub("/{2,}", "/", parts.path).rstrip("/")
    for end in _ENDS[adapter]:
        path = path.removesuffix(end).rstrip("/")
    ours = urlsplit(usual)
    if path in (("", "/api") if at_home else ("",)) and (at_home or parts.hostname == ours.hostname):
        path = ours.path  # nothing else is served there
    return urlunsplit((parts.scheme.lower(), parts.netloc, path, parts.query, ""))


def _strip(text: str) -> str:
    """Return `text` without what a copied address drags along at its ends."""
    kept = text.strip().strip(_BLANK_ENDS)
    while kept and (kept[0].isspace() or next(unseen(kept[0]), None)):
        kept = kept[1:]
    while kept and (kept[-1].isspace() or next(unseen(kept[-1]), None)):
        kept = kept[:-1]
    return kept


def _address(url: str, variable: str) -> SplitResult:
    if not re.match(r"(?i)https?://", url):
        raise ConfigError(
            f"the address {_without_login(url)!r} of {variable} {PLACE} must begin with http:// or https://"
        )
    if (place := _find_odd(url)) is not None:
        raise ConfigError(f"the address of {variable} {PLACE} holds {_describe(url, place)}, which no address has")
    try:
        parts = urlsplit(url)
        if parts.hostname and (parts.port is None or parts.port > 0):
            return parts
        why = "it names no host"
    except ValueError as exc:
        why = _without_login(str(exc))
    raise ConfigError(f"the address {_without_login(url)!r} of {variable} {PLACE} is none: {why}")


def _without_login(url: str) -> str:
    """Return an address, or what was meant to be one, without user and password."""
    return escaped(re.sub(r"^([^/]*//)?[^/]*@", r"\1", url))


def _find_odd(text: str) -> int | None:
    """Return the place of the first blank or invisible character."""
    return next((i for i, char in enumerate(text) if char.isspace() or next(unseen(char), None)), None)


def _describe(text: str, place: int) -> str:
    char = text[place]
    name = unicodedata.name(char, "a control character").lower()
    return f"U+{ord(char):04X} ({name}) as character {place + 1} of {len(text)}"


def check_key(key: str, variable: str) -> None:
    """Refuse a key that no header can carry, or that was spoiled when it was copied.

    Raises:
        ConfigError: it holds a character that no key has; the key itself is not shown.
    """
    good = _KEY.match(key)
    if good is not None and good.end() < len(key):
        odd = _describe(key, good.end())
        raise ConfigError(f"the key in {variable} {PLACE} holds {odd}, which no key has; copy it once more")


def check_network(base_url: str, network: Mapping[str, str]) -> None:
    """Refuse variables of the network that the HTTP library would stumble over.

    Raises:
        ConfigError: a proxy's address is none, or certificates are not where a variable says.
    """
    if "*" not in network.get("no_proxy", network.get("NO_PROXY", "")):
        for names in _PROXIES.values():
            if variable := next((name for name in names if network.get(name)), None):
                _check_proxy(network[variable], variable)
    if base_url.startswith("https:"):
        _check_certificates(network)


def _check_proxy(value: str, variable: str) -> None:
    url = value if "://" in value else f"http://{value}"
    if (place := _find_odd(url)) is not None:
        why = f"it holds {_describe(url, place)}"
    else:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in _PROXY_SCHEMES
            host, _ = parts.hostname, parts.port
            why = "it names no host" if not host else "" if usable else f"{parts.scheme!r} is no kind of proxy here"
        except ValueError:  # whose words may hold the password
            why = "its host or port cannot be read"
    if why:
        raise ConfigError(
            f"the proxy of {variable} {PLACE} cannot be used: {why}; write e.g. 'http://host:3128' or "
            "'socks5://host:1080', or take the variable out"
        )


def _check_certificates(network: Mapping[str, str]) -> None:
    file, folder, log = (network.get(name, "") for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE"))
    if file and not (os.path.isfile(file) and os.access(file, os.R_OK)):
        raise ConfigError(f"SSL_CERT_FILE {PLACE} names {file!r}, which is no file that can be read")
    if folder and not file and not os.path.isdir(folder):
        raise ConfigError(f"SSL_CERT_DIR {PLACE} names {folder!r}, which is no folder")
    if log and not os.path.isdir(os.path.dirname(os.path.abspath(log))):
        raise ConfigError(f"SSLKEYLOGFILE {PLACE} names {log!r}, whose folder does not exist")


def network_hint(base_url: str, network: Mapping[str, str]) -> str:
    """Return what else may be to blame where a provider cannot be reached: the proxy that is set."""
    for scheme in (urlsplit(base_url).scheme, "all"):
        if variable := next((name for name in _PROXIES.get(scheme, ()) if network.get(name)), None):
            return f"; {variable} is set, so look at that proxy too"
    return ""


def is_loopback(url: str) -> bool:
    """Whether `url` names this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def public_url(url: str) -> str:
    """Return the address as it may be shown: no user, password or query, which can hold secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{host_of(url)}{f':{parts.port}' if parts.port else ''}{parts.path}".rstrip("/")


def host_of(url: str) -> str:
    """Return the host of an address as it stands in one: an IPv6 address in brackets, no user, no port."""
    host = urlsplit(url).hostname or ""
    return f"[{host}]" if ":" in host else host
