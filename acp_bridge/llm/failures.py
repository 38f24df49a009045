"""What a provider's failure means: from a status, an error object or an exception to a typed `Failed`.

Owns the messages that users read, and the taking out of keys. Knows no SDK: the exceptions of both SDKs and of the HTTP
library under them are told apart by the names of their classes.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import urljoin

from acp_bridge.content import Failure, FailureKind, JsonObject
from acp_bridge.limits import EVENT, MIB
from acp_bridge.text import escaped, mended_text, shortened

from .endpoint import Endpoint
from .error_bodies import EXHAUSTED, kind_of, parse_body, plain_text, retry_after_s, word_and_message
from .model import RETRYABLE, Failed
from .network import PLACE, is_loopback, network_hint, public_url
from .sse import EventTooLarge
from .wire import Refused, Stalled, UnreadableBody

logger = logging.getLogger(__name__)

_MAX_MESSAGE = 600
_LONG_S = 60.0
"""A wait that is worth a word: nobody waits so long for the next attempt."""
_HEADERS = (
    "look at the key, and at OPENAI_ORG_ID, OPENAI_PROJECT_ID, OPENAI_CUSTOM_HEADERS, ANTHROPIC_AUTH_TOKEN and "
    f"ANTHROPIC_CUSTOM_HEADERS {PLACE}"
)
_NO_HEADERS: Mapping[str, str] = {}


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

    def redact(self, text: str) -> str:
        """Return `text` without the key, cut to what a person reads, in characters that log and terminal can take."""
        text = escaped(mended_text(self._without_key(text)).strip(), lines=True)
        return shortened(text, _MAX_MESSAGE)

    def _without_key(self, text: str) -> str:
        """Take the key out. Done before anything is cut off, which would leave half a key that nobody recognises."""
        if len(self.secret) < 4:  # a placeholder of a server that wants none
            return text
        return text.replace(self.secret, "[key]")

    def fail(
        self,
        kind: FailureKind,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        exhausted: bool = False,
    ) -> Failed:
        """Return the failure; whether it can be retried follows from its kind, unless the account is exhausted."""
        failure = Failure(kind=kind, message=self.redact(message), status=status)
        return Failed(failure, retryable=kind in RETRYABLE and not exhausted, retry_after_s=retry_after_s)

    def explain_refusal(self, status: int, body: str, headers: Mapping[str, str] = _NO_HEADERS) -> Failed:
        """Return what an answer that is no 2xx means."""
        body = self._without_key(body)
        word, said = word_and_message(parse_body(body))
        said = said or plain_text(body)
        kind = kind_of(status, word, said)
        return self.fail(
            kind,
            f"{self.name} answered {status}{f': {said}' if said else ''}{self._remedy(kind, status, headers)}",
            status=status,
            retry_after_s=retry_after_s(headers) if kind in RETRYABLE else None,
            exhausted=status == 402 or word in EXHAUSTED,
        )

    def _remedy(self, kind: FailureKind, status: int, headers: Mapping[str, str]) -> str:
        if kind == "auth":
            return "; check the key and what the account may use"
        if 300 <= status < 400:
            to = self._redirect_target(headers.get("location", ""))
            return f" and leads to {to}, which is not followed: key and conversation go where you say and nowhere else"
        if kind in RETRYABLE and (seconds := retry_after_s(headers) or 0) > _LONG_S:
            return f"; it asks to wait {_in_words(seconds)}"
        if status == 404 and self.name != "anthropic" and not self.base_url.endswith("/v1"):
            return f"; check the model's name and the address {self.base_url}, which with most servers ends in /v1"
        return ""

    def _redirect_target(self, location: str) -> str:
        """Return where a redirect leads, as it may be shown; whoever answers may write there what they like."""
        try:
            return public_url(urljoin(f"{self.base_url}/", location)) if location else "nowhere"
        except ValueError:
            return "an address that cannot be read"

    def explain_error(self, error: object) -> Failed:
        """Return what an error object inside a stream means."""
        while isinstance(error, dict) and isinstance(cast("JsonObject", error).get("error"), dict):
            error = cast("JsonObject", error)["error"]  # an event that is one by its name may hold one by its member
        word, said = word_and_message({"error": error})
        status = int(word) if word.isascii() and word.isdecimal() and len(word) == 3 else None
        kind = kind_of(status, word, said)
        reason = said or word or "no reason given"
        exhausted = status == 402 or word in EXHAUSTED
        return self.fail(kind, f"{self.name} broke the answer off: {reason}", status=status, exhausted=exhausted)

    def explain_body(self, body: bytes) -> Failed:
        """Return what it means that a 200 brought something else than events."""
        text = self._without_key(body.decode(errors="replace"))
        parsed = parse_body(text) or {}
        if any(word_and_message(parsed)):
            return self.explain_error(parsed.get("error", parsed))
        return self.fail("broken_stream", f"{self.name} sent no event stream but: {shortened(plain_text(text), 200)}")

    def break_off(self, why: str = "the connection ended in the middle of the answer") -> Failed:
        """Return the failure of a stream that stopped before its end."""
        return self.fail("broken_stream", f"{self.name}: {why}")

    def explain_unreadable(self, why: ValueError) -> Failed:
        """Return the failure of a stream with an event in it that nobody can read: what it held is missing."""
        return self.break_off(f"a piece of the answer cannot be read: {why}")

    def explain_empty(self) -> Failed:
        """Return the failure of an answer with nothing in it."""
        return self.fail("empty", f"{self.name} sent an empty answer")

    def explain_exception(self, exc: Exception) -> Failed:
        """Return what an exception of the SDK or the HTTP library means; one that is neither is logged and internal."""
        names = {cls.__name__ for cls in type(exc).__mro__}
        match exc.__cause__ if "APIConnectionError" in names else exc:
            case Refused(status=status, body=body, headers=headers):
                return self.explain_refusal(status, body.decode(errors="replace"), headers)
            case Stalled(seconds=seconds):
                why = f"{self.name} at {self.base_url} sent nothing of an answer for {seconds:g} s"
                return self.fail("timeout", why)
            case EventTooLarge():
                return self.break_off(f"an event of the answer is larger than {EVENT // MIB} MiB")
            case UnreadableBody() as unreadable:
                return self.break_off(f"the answer cannot be read: {unreadable}")
            case cause:
                pass
        if names & {"UnicodeEncodeError", "LocalProtocolError"} or type(cause).__name__ == "LocalProtocolError":
            return self.fail("unavailable", f"a request to {self.name} holds what no header can carry; {_HEADERS}")
        if names & {"APITimeoutError", "TimeoutException", "TimeoutError"}:
            return self.fail("timeout", f"{self.name} at {self.base_url} did not answer in time")
        if "APIConnectionError" in names:
            return self._unreachable(cause)
        if names & {"TransportError", "RequestError", "DecodingError", "StreamError", "ClosedResourceError"}:
            return self.break_off()
        logger.error("a request to %s failed within the program", self.name, exc_info=exc)
        return self.fail("internal", f"the request to {self.name} failed within the program; see its log")

    def _unreachable(self, cause: BaseException | None) -> Failed:
        names = {cls.__name__ for cls in type(cause).__mro__}
        if names & {"RemoteProtocolError", "ReadError", "WriteError"}:
            return self.fail("connection", f"{self.name} at {self.base_url} closed the connection without an answer")
        detail = f" ({cause})" if cause is not None and str(cause) else ""
        remedy = "; check that it runs and the address"
        if "CERTIFICATE_VERIFY_FAILED" in detail:
            remedy = "; if a proxy of your network signs connections, name its certificate in SSL_CERT_FILE"
        return self.fail("connection", f"cannot reach {self.name} at {self.base_url}{detail}{remedy}{self.hint}")


def provider_of(endpoint: Endpoint) -> Provider:
    """Return whom failures at an endpoint are told of."""
    hint = "" if is_loopback(endpoint.base_url) else network_hint(endpoint.base_url, endpoint.network)
    return Provider(endpoint.provider, public_url(endpoint.base_url), endpoint.key, hint)


def _in_words(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3_600)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{max(2, round(seconds / 60))} minutes"
