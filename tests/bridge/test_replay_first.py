"""A prompt is answered behind all that its turn showed, also while a client that loads the session is behind."""

import time
from pathlib import Path

from support.client import Client
from support.script import hang, say, written


def test_a_prompt_is_answered_behind_the_replay_that_is_under_way(tmp_path: Path) -> None:
    script = written(tmp_path / "s.json", say("Ok.", when="fill"), hang("I begin", when="hang"))
    with Client(tmp_path / "home", script) as client:
        client.initialize()
        session = client.new_session(tmp_path)
        for _ in range(4):
            client.prompted(session, "fill" + "y" * 3_000_000)
        prompt = client.prompt(session, "hang")
        client.wait_for(lambda message: "I begin" in str(message.get("params", ""))[-300:])
        with client.not_reading():
            load = client.request("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
            time.sleep(1)
            client.cancel(session)
            time.sleep(0.5)
        assert client.result(prompt) == {"stopReason": "cancelled"}
        client.result(load)
        assert not client.updates(session, since=client.place_of(client.answer(prompt)), kind="agent_message_chunk")
