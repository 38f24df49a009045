"""No update is dropped for its length: long messages come in pieces, the rest is cut with a word about it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest
from support.client import Client
from support.script import written
from support.world import World

from acp_bridge.bridge.updates import live, replay
from acp_bridge.content import Diff, Image, PromptBlock, Resource, ResourceLink, Text, ToolRequest
from acp_bridge.rpc import MAX_LINE_OUT
from acp_bridge.session import AssistantMessage, Event, Record, ToolResult, UserMessage

LONG = 9_000_000


def shown(*events: Event) -> list[dict[str, Any]]:
    records = [Record(seq, 0, event) for seq, event in enumerate(events)]
    return list(replay(records, durable_seq=len(records), files={}))


def fit(updates: Sequence[dict[str, Any]]) -> bool:
    return all(len(orjson.dumps(update)) < MAX_LINE_OUT - 1000 for update in updates)


@pytest.mark.parametrize("character", ["x", "\x01", "ü", "😀"])
def test_a_long_message_is_replayed_whole_in_chunks_of_one_id(character: str) -> None:
    text = character * LONG
    said = UserMessage(id="m1", content=(Text(text=text),), source="client")
    answer = AssistantMessage(turn=1, step=1, id="m2", content=(Text(text=text),))
    updates = shown(said, answer)
    assert fit(updates)
    for message_id in ("m1", "m2"):
        texts = [update["content"]["text"] for update in updates if update["messageId"] == message_id]
        assert len(texts) > 1
        assert "".join(texts) == text


@pytest.mark.parametrize(
    "block",
    [
        Resource(uri="file:///x", text="\x01" * LONG),
        ResourceLink(uri="data:" + "x" * LONG, name="n" * LONG, title="t", description="d" * LONG),
        Image(mime_type="image/png", file="00", size=1, uri="u" * LONG),
    ],
)
def test_a_long_block_of_a_prompt_is_shown_as_far_as_it_goes(block: PromptBlock) -> None:
    updates = shown(UserMessage(id="m1", content=(block,), source="client"))
    assert len(updates) == 1
    assert fit(updates)


def test_a_card_with_long_arguments_and_long_content_is_shown() -> None:
    arguments = '{"text": "' + "x" * LONG + '"}'
    request = ToolRequest(call_id="c", name="t", arguments=arguments, title="T", kind="edit")
    result = ToolResult(
        turn=1,
        step=1,
        call_id="c",
        content=(Text(text="done"),),
        shown=(Text(text="\x01" * LONG), Diff(path="/f", old_text="a" * LONG, new_text="b" * LONG), Text(text="end")),
    )
    answer = AssistantMessage(turn=1, step=1, id="m", content=(request,))
    updates = [*shown(answer, result), *live(Record(0, 0, answer), {}), *live(Record(1, 0, result), {})]
    assert [update.get("status") for update in updates] == ["completed", "pending", "completed"]
    assert fit(updates)


async def test_a_long_piece_is_streamed_in_pieces() -> None:
    world = World.of([{"text": "x" * LONG}])
    with anyio.fail_after(10):
        async with world.running():
            await world.prompt()
    texts = [
        update["content"]["text"] for update in world.peer.updates if update["sessionUpdate"] == "agent_message_chunk"
    ]
    assert max(map(len, texts)) < MAX_LINE_OUT // 6
    assert sum(map(len, texts)) == LONG


def test_a_long_prompt_is_loaded_again(tmp_path: Path) -> None:
    with Client(tmp_path / "home", written(tmp_path / "s.json")) as client:
        client.initialize()
        session = client.new_session(tmp_path)
        client.prompted(session, "q" * LONG, timeout_s=30)
        mark = client.mark
        client.call("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}, timeout_s=30)
        chunks = client.updates(session, since=mark, kind="user_message_chunk")
        assert "".join(chunk["content"]["text"] for chunk in chunks) == "q" * LONG
