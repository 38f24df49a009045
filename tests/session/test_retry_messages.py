"""What a person is told between two attempts."""

import pytest

from acp_bridge.content import Failure, FailureKind
from acp_bridge.session import RequestFailed
from acp_bridge.session.retry_messages import retry_text


def failed(kind: FailureKind, wait_s: float | None, attempts: int | None = 5, *, discarded: bool = False) -> str:
    failure = Failure(kind=kind, message="m")
    return retry_text(
        RequestFailed(
            turn=1,
            step=1,
            attempt=1,
            message_id="m",
            failure=failure,
            retry_after_s=wait_s,
            attempts=attempts,
            discarded=discarded,
        )
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (failed("broken_stream", 0.5), "The answer broke off; asking again, 2 of 5."),
        (
            failed("timeout", 8.0, discarded=True),
            (
                "The model's provider did not answer in time; asking again in 8 s, 2 of 5. "
                "What it had said so far does not count."
            ),
        ),
        (failed("unavailable", 1.0, None), "The request failed; asking again in 1 s, 2."),
        (failed("auth", None), ""),
    ],
)
def test_a_line_tells_what_went_wrong_and_what_comes(said: str, expected: str) -> None:
    assert said == expected
