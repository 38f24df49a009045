"""The one filter for secrets: which values of an environment are secret, and how they are taken out of what is shown.

Pure. Owns the rule for names and values and the words that stand in a secret's place, `[NAME]`. A secret is known by
its value, since a value can turn up anywhere; it is found as it is, as JSON and as part of an address write it, and
each line of a long one by itself. What was encoded otherwise (base64, reversed, split) is out of reach. It is applied
before anything is cut: half a key is recognised by nobody. Apart from `text` because start-up needs it before that.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, cast
from urllib.parse import quote, unquote

_MIN_CHARS: Final = 8
"""A shorter value is no secret worth its name, and would be found in any text."""
_MIN_MIXED: Final = 6
"""Unless it mixes letters with others, as no word does."""
_MIN_LINE: Final = 16
"""Characters from which on one line of a secret, e.g. of a private key, is a secret by itself."""
_MIN_PIECE: Final = 8
"""Characters of a secret's beginning that are hidden at the end of what came, where the rest was never written."""

_SECRET_WORDS = re.compile(
    r"(?:^|_)(?:KEY|KEYS|PAT|PWD|AUTH|AUTHORIZATION|COOKIES?|CREDS?|CREDENTIALS?|JWT|BEARER|OTP|DSN|WEBHOOK|SAS|NETRC"
    r"|PASS|SSHPASS|PW|CONNECTION_STRING|CONNSTR|ACCESS_KEY_ID)(?:_\d+|_URL|_B64|_BASE64|_JSON|_PEM)?$"
    r"|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY(?!_ID)|SECRET|PASSWORD|PASSWD|PASSPHRASE|(?:^|_)TOKEN(?:S?$|_(?!LIMIT|COUNT))"
    r"|[A-Z]TOKEN$|(?:^|_)AUTH_(?!SOCK)|SESSION_?COOKIE"
)
_NO_SECRET_NAMES = re.compile(r"^(?:PWD|OLDPWD|KEY)$|_(?:FILE|PATH|DIR|FOLDER|SOCK|SOCKET|HOME|AGENT|ENABLED|TTL)$")
_SECRET_SHAPE = re.compile(
    r"(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[a-z]-[\w-]{10,}|AKIA[A-Z0-9]{12,}|AIza[\w-]{30,}|npm_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{20,}|pypi-[\w-]{20,}"
    r"|eyJ[\w-]+\.[\w-]+\.[\w-]*|-----BEGIN [A-Z ]*PRIVATE KEY-----.*",
    re.DOTALL,
)
"""What issuers mark as theirs, under whatever name it lies."""

_USERINFO = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#\s]*)@")
_INSIDE = re.compile(
    r"(?i)(?:^|[\s;,&?'\"{])\"?(?:password|passwd|pwd|pass|token|secret|api_?key|access_?key|accountkey|shared_?access_?key"
    r"|sig|auth|_auth|_authtoken|:_authtoken|:_password)\"?\s*(?:[=:]\s*|\s+)[\"']?([^\s;,&'\"}]+)"
)
_SCHEME = re.compile(r"(?i)^(?:bearer|basic|token)\s+(\S+)$")
_DEFAULTS: Final = frozenset(
    "password postgres changeme changeit disabled required optional localhost development production".split()  # noqa: SIM905
)
"""What everybody's example sets is no secret, and a word that texts are full of."""


@dataclass(frozen=True)
class Secrets:
    """What nothing may show.

    Attributes:
        values: by the name that stands in the value's place.
    """

    values: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def hidden(self, text: str, *, cut: bool = False) -> str:
        """Return `text` without them; of a text that was `cut`, also without the beginning of one at its end."""
        data = text.encode("utf-8", "surrogatepass")
        clean = self.hidden_bytes(data, cut=cut)
        return text if clean is data else clean.decode("utf-8", "surrogatepass")

    def hidden_bytes(self, data: bytes, *, cut: bool = False, mark: bytes | None = None) -> bytes:
        """Return `data` without them, whatever else it holds; `mark` stands for all, if it is given."""
        found = [hit for needle, name in self._needles for hit in _hits(data, needle, name)]
        if cut:
            begun = [(_begun(data, needle), name) for needle, name in self._needles]
            found += [(start, len(data), name) for start, name in begun if len(data) - start >= _MIN_MIXED]
        return _joined(data, found, mark) if found else data

    def without(self, value: Any) -> Any:
        """Return opaque JSON without them, in names of members and in texts."""
        match value:
            case str():
                return self.hidden(value)
            case dict():
                members = cast("dict[str, Any]", value).items()
                return {self.hidden(name): self.without(member) for name, member in members}
            case list():
                return [self.without(item) for item in cast("list[Any]", value)]
            case _:
                return value

    def with_more(self, values: Mapping[str, str]) -> "Secrets":
        """Return these and further ones, e.g. what one MCP server is given."""
        return Secrets(together(self.values, values)) if values else self

    def named_in(self, text: str) -> str:
        """Return the name of one that `text` holds in its place, as only what was hidden before does; else empty."""
        return next((name for name in self.values if f"[{name}]" in text), "")

    def replaced_in(self, old: str, new: str) -> str:
        """Return the name of one whose place a text takes that holds the name alone; empty if there is none.

        Where a text had such a name as its own words and no secret behind it, more of them are words too.
        """
        for name in self.values:
            mark = f"[{name}]"
            if not (after := new.count(mark)):
                continue
            words = old.count(mark)
            secret = self.hidden(old).count(mark) - words
            if self.hidden(new).count(mark) - after < secret or (after > words and (secret or not words)):
                return name
        return ""

    def stream(self) -> "SecretStream":
        """Return a filter for bytes that come in pieces."""
        return SecretStream(self._needles)

    @cached_property
    def _needles(self) -> tuple[tuple[bytes, str], ...]:
        found: dict[bytes, str] = {}
        for name, value in self.values.items():
            for form in _forms(value):
                found.setdefault(form.encode("utf-8", "surrogatepass"), name)
        return tuple(found.items())


class SecretStream:
    """Takes secrets out of bytes in pieces: one that is cut over two of them is held back until it is whole.

    Costs one search a secret and piece. Holds no more than the beginning of one secret.
    """

    def __init__(self, needles: tuple[tuple[bytes, str], ...]) -> None:
        self._needles = needles
        self._held = b""

    @property
    def held(self) -> bytes:
        """What came and may be the beginning of a secret."""
        return self._held

    def feed(self, data: bytes) -> bytes:
        """Return what can be passed on now."""
        data = self._held + data
        found = [hit for needle, name in self._needles for hit in _hits(data, needle, name)]
        end = min((_begun(data, needle) for needle, _ in self._needles), default=len(data))
        while cut := [start for start, stop, _ in found if start < end < stop]:
            end = min(cut)  # a whole one in which another begins: neither is torn
        self._held = data[end:]
        kept = [hit for hit in found if hit[1] <= end]
        return _joined(data[:end], kept) if kept else data[:end]

    def close(self) -> bytes:
        """Return the rest, once nothing more comes; most of a secret's beginning is as good as the secret."""
        rest, self._held = self._held, b""
        whole = [hit for needle, name in self._needles for hit in _hits(rest, needle, name)]
        for needle, name in self._needles:
            if len(rest) - (start := _begun(rest, needle)) >= max(_MIN_PIECE, len(needle) // 2):
                whole.append((start, len(rest), name))
        return _joined(rest, whole)


def stands_for(name: str) -> str:
    """Return the end of a sentence about a text that holds a secret's name in its place."""
    return (
        f"[{name}], which stands for a secret that is shown to nobody, and would be written or run as it is. Leave "
        "what holds it alone, refer to the variable by its name, or ask the user to do it."
    )


def together(*groups: Mapping[str, str]) -> dict[str, str]:
    """Return the values of all groups; one whose name another value has is told apart by a number behind it."""
    found: dict[str, str] = {}
    for group in groups:
        for name, value in group.items():
            unique, count = name, 1
            while found.get(unique, value) != value:
                count += 1
                unique = f"{name}_{count}"
            found[unique] = value
    return found


def secrets_in(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what is secret of an environment, by the variable's name.

    A variable is one by its name; a part of a variable is one by its place: a password in an address, in a list of
    settings (`password=…;`), in a `.netrc`, behind `Bearer`; and what carries its issuer's mark is one anywhere.
    """
    found: dict[str, str] = {}
    for name, value in environ.items():
        text = value.strip()
        whole = is_secret_name(name) and _is_whole(name, text)
        if (whole and _is_worth_it(text)) or _SECRET_SHAPE.fullmatch(text):
            found[name] = text
        parts = (*_inside(text), *(_cookies(text) if "COOKIE" in name.upper() else ()))
        for count, part in enumerate(dict.fromkeys(parts), 1):
            if _is_worth_it(part) and part != found.get(name):
                found[name if name not in found else f"{name}_{count}"] = part
    return found


def secrets_in_arguments(arguments: Iterable[str]) -> dict[str, str]:
    """Return what is secret of a command line: `--api-key VALUE`, `--token=VALUE`, passwords in addresses."""
    found: dict[str, str] = {}
    flag = ""
    for argument in arguments:
        name, equals, value = argument.partition("=")
        own = _variable(name) if equals else flag
        given = value if equals else argument
        found = together(found, secrets_in({own or "ARGUMENT": given}))
        flag = "" if equals or not argument.startswith("-") else _variable(argument)
    return found


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    upper = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()
    upper = re.sub(r"[^A-Z0-9]+", "_", upper)
    return _SECRET_WORDS.search(upper) is not None and _NO_SECRET_NAMES.search(upper) is None


def _variable(flag: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", flag).strip("_").upper()


def _is_whole(name: str, text: str) -> bool:
    """Whether the whole of the value is the secret, rather than a part of it or what it names."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://\S*", text):
        return "WEBHOOK" in name.upper()  # of another address, the password in it
    return not re.fullmatch(r"(?:~|\.{0,2})(?:/[\w .+@-]+)+/?", text) or bool(re.search("(?i)secret|password", name))


def _is_worth_it(text: str) -> bool:
    if text.lower() in _DEFAULTS or (text.isdigit() and len(text) < 10):
        return False
    mixed = any(char.isalpha() for char in text) and not text.isalpha()
    return len(text) >= (_MIN_MIXED if mixed else _MIN_CHARS)


def _inside(text: str) -> Iterator[str]:
    for found in _USERINFO.finditer(text):
        user, colon, password = found.group(1).partition(":")
        if colon:
            yield password
        elif len(user) >= _MIN_LINE or _SECRET_SHAPE.fullmatch(user):
            yield user  # a token alone: https://TOKEN@host
    for found in _INSIDE.finditer(text):
        yield found.group(1)
    if found := _SCHEME.fullmatch(text):
        yield found.group(1)


def _cookies(text: str) -> Iterator[str]:
    yield from (pair.partition("=")[2].strip() for pair in text.split(";"))


def _forms(value: str) -> Iterator[str]:
    """Yield how a value is written: as it is, as JSON, JavaScript and addresses have it, and its long lines."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    if (plain := unquote(value)) != value and _is_worth_it(plain):
        yield plain
    if not value.isalnum() and "\n" not in value:
        yield quote(value, safe="")
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (line for each in lines if len(line := each.strip()) >= _MIN_LINE and not line.startswith("-----"))


def _hits(data: bytes, needle: bytes, name: str) -> Iterator[tuple[int, int, str]]:
    at = data.find(needle)
    while at >= 0:
        yield at, at + len(needle), name
        at = data.find(needle, at + len(needle))


def _joined(data: bytes, found: list[tuple[int, int, str]], mark: bytes | None = None) -> bytes:
    """Return `data` with names in the places of what was found; where secrets overlap, one stands for all."""
    parts: list[bytes] = []
    at = 0
    for start, stop, name in sorted(found, key=lambda hit: (hit[0], -hit[1])):
        if start >= at:
            parts += (data[at:start], mark or b"[%b]" % name.encode("utf-8", "surrogatepass"))
        at = max(at, stop)
    return b"".join((*parts, data[at:]))


def _begun(data: bytes, needle: bytes) -> int:
    """Return where the longest beginning of `needle` starts that `data` ends in; its length if there is none."""
    at = data.find(needle[:1], max(0, len(data) - len(needle) + 1))
    while at >= 0:
        if needle.startswith(data[at:]):
            return at
        at = data.find(needle[:1], at + 1)
    return len(data)
