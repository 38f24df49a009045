"""A client that is behind gets the pieces of a message joined, in order, whole, and a cancel's answer soon."""

import time
from pathlib import Path
from typing import Any

from support import log
from support.client import Client
from support.processes import eventually
from support.script import pieces, say, use, written

PIECES = 40_000


def long_answer(end: str) -> dict[str, Any]:
    """Return an answer of two thoughts and two texts in turn, each piece numbered, so that a lost one shows."""
    deltas: list[dict[str, Any]] = []
    for part in range(4):
        kind = "thought" if part % 2 == 0 else "text"
        deltas += [{kind: f"{part}.{n} "} for n in range(PIECES // 4)]
    return pieces(*deltas, *([{"hang": True}] if end == "hang" else []))


def expected() -> list[tuple[str, str]]:
    return [
        (
            f"agent_{'thought' if part % 2 == 0 else 'message'}_chunk",
            "".join(f"{part}.{n} " for n in range(PIECES // 4)),
        )
        for part in range(4)
    ]


def joined(client: Client, session: str) -> list[tuple[str, str]]:
    """Return the streamed text, neighbours of one kind joined."""
    runs: list[tuple[str, list[str]]] = []
    for update in client.updates(session):
        kind = update["sessionUpdate"]
        if kind in ("agent_message_chunk", "agent_thought_chunk"):
            if not runs or runs[-1][0] != kind:
                runs.append((kind, []))
            runs[-1][1].append(update["content"]["text"])
    return [(kind, "".join(texts)) for kind, texts in runs]


def test_a_client_that_is_behind_gets_fewer_chunks_and_every_word(tmp_path: Path) -> None:
    """Process and pipe cases: coalesce chunk updates; nothing is dropped, and the order is kept."""
    script = written(tmp_path / "s.json", long_answer("end"), use("list_files", when="then"), say("Done."))
    (project := tmp_path / "project").mkdir()  # beside the home folder: one that holds it frees nothing
    with Client(tmp_path / "home", script) as client:
        client.initialize()
        session = client.new_session(project)
        with client.not_reading():
            prompt = client.prompt(session, "go")
            log.wait_for_event(client.home, session, "step/end")
        client.result(prompt, timeout_s=30)
        assert joined(client, session) == expected()
        chunks = len(client.updates(session, kind="agent_message_chunk"))
        chunks += len(client.updates(session, kind="agent_thought_chunk"))
        assert chunks < PIECES / 2
        place = client.place_of(client.answer(prompt))
        assert not client.updates(session, since=place)  # none behind the answer
        mark = client.mark
        client.prompted(session, "then")
        kinds = [update["sessionUpdate"] for update in client.updates(session, since=mark)]
        assert kinds.index("tool_call") < kinds.index("agent_message_chunk")


def test_what_was_held_back_is_shown_once_the_client_has_caught_up_though_the_model_is_silent(tmp_path: Path) -> None:
    script = written(tmp_path / "s.json", long_answer("hang"))
    with Client(tmp_path / "home", script) as client:
        client.initialize()
        session = client.new_session(tmp_path)
        file = log.log_file(client.home, session)
        with client.not_reading():
            prompt = client.prompt(session, "go")
            eventually(lambda: f"3.{PIECES // 4 - 1} " in file.read_text(), "the end of what the model says")
        last = expected()[-1][1]
        client.wait_for(
            lambda message: "3.9999 " in str(message.get("params", "")), timeout_s=20, what=f"the end of {last[-20:]!r}"
        )
        assert joined(client, session) == expected()
        began = time.monotonic()
        client.cancel(session)
        assert client.result(prompt) == {"stopReason": "cancelled"}
        assert time.monotonic() - began < 2


def test_a_cancel_of_a_client_that_is_behind_is_answered_behind_a_short_queue(tmp_path: Path) -> None:
    """Keep cancel responsive: what waits before the answer is bounded, however much the model says."""
    script = written(tmp_path / "s.json", pieces({"text": "word ", "repeat": 2_000_000}))
    with Client(tmp_path / "home", script) as client:
        client.initialize()
        session = client.new_session(tmp_path)
        file = log.log_file(client.home, session)
        with client.not_reading():
            prompt = client.prompt(session, "go")
            eventually(lambda: file.stat().st_size > 100_000 * len("word "), "far more words than may wait")
            mark = client.mark
            client.cancel(session)
            time.sleep(0.5)
        assert client.result(prompt, timeout_s=10) == {"stopReason": "cancelled"}
        assert len(client.updates(session, since=mark)) < 10_000
