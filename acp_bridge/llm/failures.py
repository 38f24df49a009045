"""What a provider's failure means: from a status, an error object or an exception to a typed `Failed`.

Owns the tables that decide kind and retry, the reading of `Retry-After`, and the taking out of keys. Knows no SDK: the
exceptions of both SDKs and of the HTTP library under them are told apart by the names of their classes.
"""

import email.utils
import logging
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urljoin

from acp_bridge.content import Failure, FailureKind, JsonObject
from acp_bridge.limits import EVENT, MIB
from acp_bridge.text import escaped, mended_text, read_json, shortened

from .endpoint import Endpoint
from .events import json_text
from .model import Failed
from .script import RETRYABLE
from .settings import PLACE, network_hint
from .sse import EventTooLarge
from .wire import Refused, Stalled, UnreadableBody, is_loopback, shown_url

logger = logging.getLogger(__name__)

_MAX_MESSAGE = 600
_LONG_S = 60.0
"""A wait that is worth a word: nobody waits so long for the next attempt."""
_HEADERS = (
    "look at the key, and at OPENAI_ORG_ID, OPENAI_PROJECT_ID, OPENAI_CUSTOM_HEADERS, ANTHROPIC_AUTH_TOKEN and "
    f"ANTHROPIC_CUSTOM_HEADERS {PLACE}"
)
_NO_HEADERS: Mapping[str, str] = {}

_STATUS: dict[int, FailureKind] = {
    401: "auth",
    402: "rate_limit",
    403: "auth",
    408: "timeout",
    409: "overloaded",
    413: "context_overflow",
    425: "overloaded",
    429: "rate_limit",
    504: "timeout",
}

_WORD: dict[str, FailureKind] = {
    "api_error": "overloaded",
    "authentication_error": "auth",
    "billing_error": "rate_limit",
    "context_length_exceeded": "context_overflow",
    "exceed_context_size_error": "context_overflow",
    "insufficient_quota": "rate_limit",
    "internal_error": "overloaded",
    "internal_server_error": "overloaded",
    "invalid_api_key": "auth",
    "model_context_window_exceeded": "context_overflow",
    "overloaded_error": "overloaded",
    "permission_error": "auth",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "request_too_large": "context_overflow",
    "server_error": "overloaded",
    "timeout_error": "timeout",
    "unavailable_error": "overloaded",
}
"""Codes and types of error objects. They say more than a status: a quota that is used up is a 429 that never ends."""

_EXHAUSTED = frozenset(("billing_error", "insufficient_quota"))
"""Waiting does not help against these, nor against a 402: somebody has to pay."""

_OVERFLOW = re.compile(
    r"context[ _](?:length|window|size|limit)|maximum (?:context|prompt)|prompt is too long|input is too long"
    r"|too many (?:input )?tokens|reduce the length of",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Provider:
    """Whom a failure is told of.

    Attributes:
        secret: taken out of every message.
        hint: what else may be to blame if it cannot be reached.
    """

    name: str
    base_url: str
    secret: str = ""
    hint: str = ""

    def redacted(self, text: str) -> str:
        """Return `text` without the key, cut to what a person reads, in characters that log and terminal can take."""
        text = escaped(mended_text(self._without_key(text)).strip(), lines=True)
        return shortened(text, _MAX_MESSAGE)

    def _without_key(self, text: str) -> str:
        """Take the key out. Done before anything is cut off, which would leave half a key that nobody recognises."""
        if len(self.secret) < 4:  # a placeholder of a server that wants none
            return text
        return text.replace(self.secret, "[key]")

    def failed(
        self,
        kind: FailureKind,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        exhausted: bool = False,
    ) -> Failed:
        """Return the failure; whether it can be retried follows from its kind, unless the account is exhausted."""
        failure = Failure(kind=kind, message=self.redacted(message), status=status)
        return Failed(failure, retryable=kind in RETRYABLE and not exhausted, retry_after_s=retry_after_s)

    def refused(self, status: int, body: str, headers: Mapping[str, str] = _NO_HEADERS) -> Failed:
        """Return what an answer that is no 2xx means."""
        body = self._without_key(body)
        word, said = _told(_parsed(body))
        said = said or _plain(body)
        kind = _kind(status, word, said)
        return self.failed(
            kind,
            f"{self.name} answered {status}{f': {said}' if said else ''}{self._remedy(kind, status, headers)}",
            status=status,
            retry_after_s=retry_after_s(headers) if kind in RETRYABLE else None,
            exhausted=status == 402 or word in _EXHAUSTED,
        )

    def _remedy(self, kind: FailureKind, status: int, headers: Mapping[str, str]) -> str:
        if kind == "auth":
            return "; check the key and what the account may use"
        if 300 <= status < 400:
            to = self._led_to(headers.get("location", ""))
            return f" and leads to {to}, which is not followed: key and conversation go where you say and nowhere else"
        if kind in RETRYABLE and (seconds := retry_after_s(headers) or 0) > _LONG_S:
            return f"; it asks to wait {_in_words(seconds)}"
        if status == 404 and self.name != "anthropic" and not self.base_url.endswith("/v1"):
            return f"; check the model's name and the address {self.base_url}, which with most servers ends in /v1"
        return ""

    def _led_to(self, location: str) -> str:
        """Return where a redirect leads, as it may be shown; whoever answers may write there what they like."""
        try:
            return shown_url(urljoin(f"{self.base_url}/", location)) if location else "nowhere"
        except ValueError:
            return "an address that cannot be read"

    def told(self, error: object) -> Failed:
        """Return what an error object inside a stream means."""
        while isinstance(error, dict) and isinstance(cast("JsonObject", error).get("error"), dict):
            error = cast("JsonObject", error)["error"]  # an event that is one by its name may hold one by its member
        word, said = _told({"error": error})
        status = int(word) if word.isascii() and word.isdecimal() and len(word) == 3 else None
        kind = _kind(status, word, said)
        reason = said or word or "no reason given"
        exhausted = status == 402 or word in _EXHAUSTED
        return self.failed(kind, f"{self.name} broke the answer off: {reason}", status=status, exhausted=exhausted)

    def instead_of_a_stream(self, body: bytes) -> Failed:
        """Return what it means that a 200 brought something else than events."""
        text = self._without_key(body.decode(errors="replace"))
        parsed = _parsed(text) or {}
        if any(_told(parsed)):
            return self.told(parsed.get("error", parsed))
        return self.failed("broken_stream", f"{self.name} sent no event stream but: {shortened(_plain(text), 200)}")

    def cut(self, why: str = "the connection ended in the middle of the answer") -> Failed:
        """Return the failure of a stream that stopped before its end."""
        return self.failed("broken_stream", f"{self.name}: {why}")

    def unreadable(self, why: ValueError) -> Failed:
        """Return the failure of a stream with an event in it that nobody can read: what it held is missing."""
        return self.cut(f"a piece of the answer cannot be read: {why}")

    def empty(self) -> Failed:
        """Return the failure of an answer with nothing in it."""
        return self.failed("empty", f"{self.name} sent an empty answer")

    def raised(self, exc: Exception) -> Failed:
        """Return what an exception of the SDK or the HTTP library means; one that is neither is logged and internal."""
        names = {cls.__name__ for cls in type(exc).__mro__}
        match exc.__cause__ if "APIConnectionError" in names else exc:
            case Refused(status=status, body=body, headers=headers):
                return self.refused(status, body.decode(errors="replace"), headers)
            case Stalled(seconds=seconds):
                why = f"{self.name} at {self.base_url} sent nothing of an answer for {seconds:g} s"
                return self.failed("timeout", why)
            case EventTooLarge():
                return self.cut(f"an event of the answer is larger than {EVENT // MIB} MiB")
            case UnreadableBody() as unreadable:
                return self.cut(f"the answer cannot be read: {unreadable}")
            case cause:
                pass
        if names & {"UnicodeEncodeError", "LocalProtocolError"} or type(cause).__name__ == "LocalProtocolError":
            return self.failed("unavailable", f"a request to {self.name} holds what no header can carry; {_HEADERS}")
        if names & {"APITimeoutError", "TimeoutException", "TimeoutError"}:
            return self.failed("timeout", f"{self.name} at {self.base_url} did not answer in time")
        if "APIConnectionError" in names:
            return self._unreachable(cause)
        if names & {"TransportError", "RequestError", "DecodingError", "StreamError", "ClosedResourceError"}:
            return self.cut()
        logger.error("a request to %s failed within the program", self.name, exc_info=exc)
        return self.failed("internal", f"the request to {self.name} failed within the program; see its log")

    def _unreachable(self, cause: BaseException | None) -> Failed:
        names = {cls.__name__ for cls in type(cause).__mro__}
        if names & {"RemoteProtocolError", "ReadError", "WriteError"}:
            return self.failed("connection", f"{self.name} at {self.base_url} closed the connection without an answer")
        detail = f" ({cause})" if cause is not None and str(cause) else ""
        remedy = "; check that it runs and the address"
        if "CERTIFICATE_VERIFY_FAILED" in detail:
            remedy = "; if a proxy of your network signs connections, name its certificate in SSL_CERT_FILE"
        return self.failed("connection", f"cannot reach {self.name} at {self.base_url}{detail}{remedy}{self.hint}")


def provider_of(endpoint: Endpoint) -> Provider:
    """Return whom failures at an endpoint are told of."""
    hint = "" if is_loopback(endpoint.base_url) else network_hint(endpoint.base_url, endpoint.network)
    return Provider(endpoint.provider, shown_url(endpoint.base_url), endpoint.key, hint)


def says_error(event: JsonObject) -> bool:
    """Whether an event without the member `error` is one all the same, as vLLM and FastAPI write it."""
    told = event.get("message") or event.get("detail")
    return bool(told) and (event.get("object") == "error" or "detail" in event or "code" in event)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a provider asks to wait, from `retry-after-ms` or `retry-after` (seconds or a date)."""
    if (seconds := _number(headers.get("retry-after-ms"))) is not None:
        return seconds / 1000
    value = headers.get("retry-after")
    if (seconds := _number(value)) is not None:
        return seconds
    try:
        when = email.utils.parsedate_to_datetime(value or "").timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, when - time.time())


def _in_words(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3_600)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{max(2, round(seconds / 60))} minutes"


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _kind(status: int | None, word: str, said: str) -> FailureKind:
    if (by_word := _WORD.get(word)) is not None and not (by_word == "overloaded" and _OVERFLOW.search(said)):
        return by_word
    if status not in (401, 403, 429) and _OVERFLOW.search(said):
        return "context_overflow"
    if status is None:
        return "bad_request" if word.startswith("invalid") else "overloaded"
    return _STATUS.get(status) or ("overloaded" if status >= 500 else "bad_request")


def _parsed(body: str) -> JsonObject | None:
    try:
        value = read_json(body)
    except ValueError:
        return None
    if isinstance(value, list) and value:  # Google's compatible endpoint wraps its error in a list
        value = cast("list[Any]", value)[0]
    return cast("JsonObject", value) if isinstance(value, dict) else None


def _told(body: JsonObject | None) -> tuple[str, str]:
    """Return an error body's most telling code or type, and its message."""
    if body is None:
        return "", ""
    error: Any = body.get("error", body.get("detail", body))
    if isinstance(error, str):
        return str(body.get("code") or body.get("error_type") or ""), error
    if not isinstance(error, dict):
        return "", ""
    found = cast("JsonObject", error)
    words = [str(found[key]) for key in ("code", "type") if found.get(key) not in (None, "")]
    word = next((w for w in words if w in _WORD), words[0] if words else "")
    message = found.get("message") or found.get("error") or found.get("detail") or ""
    return word, message if isinstance(message, str) else json_text(message)


def _plain(body: str) -> str:
    """Return what a person can read of a body that is no JSON, e.g. a proxy's page."""
    words = re.sub(r"<(?:style|script)\b.*?</(?:style|script)>|<[^>]*>", " ", body[:20_000], flags=re.DOTALL).split()
    return shortened(" ".join(words), 300)
