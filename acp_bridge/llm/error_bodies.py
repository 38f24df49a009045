"""What a provider says of its failure: the status, the error object in a body or an event, the wait that it asks for.

Pure. Owns the tables that decide the kind of a failure. Knows no exception and writes no message.
"""

import email.utils
import math
import re
import time
from collections.abc import Mapping
from typing import Any, cast

from acp_bridge.content import FailureKind, JsonObject
from acp_bridge.text import read_json, shortened

from .payloads import json_text

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

EXHAUSTED = frozenset(("billing_error", "insufficient_quota"))
"""Waiting does not help against these, nor against a 402: somebody has to pay."""

_OVERFLOW = re.compile(
    r"context[ _](?:length|window|size|limit)|maximum (?:context|prompt)|prompt is too long|input is too long"
    r"|too many (?:input )?tokens|reduce the length of",
    re.IGNORECASE,
)


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


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def kind_of(status: int | None, word: str, said: str) -> FailureKind:
    """Return what kind of failure a status, an error's word and its message mean; the word goes first."""
    if (by_word := _WORD.get(word)) is not None and not (by_word == "overloaded" and _OVERFLOW.search(said)):
        return by_word
    if status not in (401, 403, 429) and _OVERFLOW.search(said):
        return "context_overflow"
    if status is None:
        return "bad_request" if word.startswith("invalid") else "overloaded"
    return _STATUS.get(status) or ("overloaded" if status >= 500 else "bad_request")


def parse_body(body: str) -> JsonObject | None:
    """Return the object that a body holds, None if it is no JSON object."""
    try:
        value = read_json(body)
    except ValueError:
        return None
    if isinstance(value, list) and value:  # Google's compatible endpoint wraps its error in a list
        value = cast("list[Any]", value)[0]
    return cast("JsonObject", value) if isinstance(value, dict) else None


def word_and_message(body: JsonObject | None) -> tuple[str, str]:
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


def plain_text(body: str) -> str:
    """Return what a person can read of a body that is no JSON, e.g. a proxy's page."""
    words = re.sub(r"<(?:style|script)\b.*?</(?:style|script)>|<[^>]*>", " ", body[:20_000], flags=re.DOTALL).split()
    return shortened(" ".join(words), 300)
