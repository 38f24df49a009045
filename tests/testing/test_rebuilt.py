"""Model-visible means logged: each request that a model was sent can be rebuilt from the log alone."""

import sys
from pathlib import Path
from typing import Any

import pytest

from acp_bridge.llm.recording import message_json
from acp_bridge.session import Log, decode_header, decode_record
from acp_bridge.testing.play import play
from acp_bridge.testing.sandbox import make_sandbox
from acp_bridge.testing.scenario import read_scenario

LIBRARY = Path(__file__).parents[2] / "fixtures" / "snapshots"
AGENT = (sys.executable, "-m", "acp_bridge", "serve")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "tools/side_by_side",
        "failures/broken_stream",
        "recovery/unknown_write",
        "recovery/one_of_three",
        "recovery/interrupted_text",
        "recovery/sigterm_in_a_command",
        "recovery/dropped_queue",
        "permissions/allow_always",
        "stops/cancelled_in_text",
        "updates/image_prompt",
    ],
)
def test_each_request_can_be_rebuilt_from_the_log(name: str) -> None:
    scenario = read_scenario(LIBRARY / name / "scenario.toml")
    with make_sandbox(scenario) as sandbox:
        played = play(scenario, sandbox, AGENT)
    assert not played.faults
    [[head, *records]] = played.logs.values()
    log = Log(decode_header(head["session"]), clock=lambda: 0)
    moments: list[Any] = []
    for envelope in records:
        record = decode_record(envelope)
        assert record is not None
        log.append(record.event, synthetic=record.synthetic, time=record.time)
        if log.state.header is not None:
            request = log.request()
            moments.append((request.system, [message_json(message) for message in request.messages]))
    asked = iter(moments)
    for request in played.served:
        wanted = (request["system"], request["messages"])
        assert any(moment == wanted for moment in asked), f"no moment of the log makes this request: {wanted}"
