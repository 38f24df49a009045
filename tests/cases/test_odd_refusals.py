"""What a server writes into an answer that is no 2xx is told as it is, whatever it writes."""

from typing import Any

import orjson
import pytest

from acp_bridge.llm import Failed
from acp_bridge.llm.failures import Provider
from acp_bridge.llm.wire import Refused
from acp_bridge.text import mended

PROVIDER = Provider("server", "http://127.0.0.1:1/v1")


def refused_with(status: int, body: bytes = b"", **headers: str) -> Failed:
    return PROVIDER.explain_exception(
        Refused(status, {name.replace("_", "-"): said for name, said in headers.items()}, body)
    )


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("http://[", "an address that cannot be read"),
        ("http://host:abc/", "an address that cannot be read"),
        ("http://host:99999999/", "an address that cannot be read"),
        ("http://user:secret@host/x?key=secret", "http://host/x"),
        ("/v1/other", "http://127.0.0.1:1/v1/other"),
        ("//host/x", "http://host/x"),
        ("", "nowhere"),
    ],
)
def test_a_redirect_says_where_it_leads_whatever_is_written_there(location: str, shown: str) -> None:
    failed = refused_with(307, location=location)
    assert failed.failure.kind == "bad_request"
    assert f"leads to {shown}, which is not followed" in failed.failure.message


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":' * 900 + b"1" + b"}" * 900,
        b'{"message":' + b"[" * 400 + b"]" * 400 + b"}",
        b'{"error":{"message":' + b"[" * 900 + b"]" * 900 + b"}}",
    ],
)
def test_an_error_however_deep_is_a_failure_of_its_status(body: bytes) -> None:
    assert refused_with(503, body).failure.kind == "overloaded"
    assert PROVIDER.explain_body(body).failure.kind != "internal"
    assert PROVIDER.explain_error(orjson.loads(body)).failure.kind != "internal"


def test_half_a_character_hides_no_message() -> None:
    assert (
        refused_with(400, b'{"error":{"message":"a \\ud800 b"}}').failure.message == "server answered 400: a \ufffd b"
    )


@pytest.mark.parametrize(
    ("wait", "said"), [("30", ""), ("600", "; it asks to wait 10 minutes"), ("1e9", "; it asks to wait 11,574 days")]
)
def test_a_wait_that_nobody_waits_for_is_said(wait: str, said: str) -> None:
    assert refused_with(429, b'{"error":{"message":"slow"}}', retry_after=wait).failure.message.endswith(f"slow{said}")


def test_json_of_any_depth_is_mended() -> None:
    deep: Any = orjson.loads(b"[" * 1000 + b"]" * 1000)
    assert mended(deep, depth=4)[0][0][0][0] == "…"
