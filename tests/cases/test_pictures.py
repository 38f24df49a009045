"""Pictures that tools return: on disk before the record that names them, shown and sent wherever they can be.

A picture reaches a model that sees, whichever process asks it, and one that does not see reads words in its place; the
person is shown the same live and on load.
"""

import hashlib
import json
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from crash.kills.provider import Asked, Provider, Reply, Wanted
from support.client import clean_environment
from support.lives import Json, Start, answering, cards, load
from support.parts import Asking, Greet, config
from support.pixels import jpeg, png, png_of_size
from support.world import CountingStore, ToldModel, ToldTool, World

from acp_bridge.content import JsonObject, Text
from acp_bridge.errors import StoreError, ToolError
from acp_bridge.headless import open_runtime
from acp_bridge.limits import PICTURE
from acp_bridge.session import FromTools, ModelRequest, ToolResult
from acp_bridge.session.events import contents_named
from acp_bridge.tools import Call, Picture, ToolOutput

ASKS = [{"tools": [{"name": "shoot", "arguments": {}}]}, {"text": "Seen."}]


class Shooting(ToldTool):
    """A tool that returns pictures, with a word before them."""

    def __init__(self, *pictures: bytes) -> None:
        super().__init__("shoot")
        self.pictures = pictures

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        pictures = tuple(Picture(data=data, uri="file:///work/a.png") for data in self.pictures)
        return ToolOutput(content=(Text(text="Shot."), *pictures))


class Seeing(ToldModel):
    sees = True

    @property
    def takes_images(self) -> bool:
        return self.sees


def world_of(
    *pictures: bytes, answers: list[Any] = ASKS, store: CountingStore | None = None, sees: bool = True
) -> World:
    world = World.of(answers, Shooting(*pictures), store=store)
    world.model = Seeing(answers)
    world.model.sees = sees
    return world


def results(request: ModelRequest) -> list[object]:
    [message] = [message for message in request.messages if isinstance(message, FromTools)]
    return [block for answer in message.answers for block in answer.content]


def shown(world: World, call_id: str = "call_1_1_1") -> list[Any]:
    """The content of a card as it stands last."""
    said = [u["content"] for u in world.peer.updates if u.get("toolCallId") == call_id and u.get("content")]
    return said[-1] if said else []


def block(data: bytes, mime_type: str = "image/png") -> Json:
    image = {"type": "image", "data": b64encode(data).decode(), "mimeType": mime_type, "uri": "file:///work/a.png"}
    return {"type": "content", "content": image}


WORD: Json = {"type": "content", "content": {"type": "text", "text": "Shot."}}


@pytest.mark.parametrize("how", ["closed", "killed"])
async def test_a_tools_picture_reaches_the_model_and_the_person_now_and_after_a_load(how: str) -> None:
    first = world_of(png(), jpeg())
    with anyio.fail_after(10):
        async with first.running() if how == "closed" else first.killed():
            assert (await first.prompt()).reason == "completed"
            live = shown(first)
    request = first.model.requests[-1]
    assert [type(b).__name__ for b in results(request)] == ["Text", "Image", "Image"]
    assert set(request.files.values()) == {png(), jpeg()}
    assert live == [WORD, block(png()), block(jpeg(), "image/jpeg")]
    second = world_of(answers=[*ASKS, {"text": "Again."}], store=first.store)
    with anyio.fail_after(10):
        async with second.running(take=True):
            await second.conversation.replay()
            assert shown(second) == live
            assert (await second.prompt("And?")).reason == "completed"
    assert second.model.requests[-1].files == request.files


async def test_a_model_that_does_not_see_reads_words_and_one_that_sees_gets_the_picture_later() -> None:
    """The user may change the model in the middle of a session."""
    world = world_of(png(), answers=[*ASKS, {"text": "Now I see."}], sees=False)
    with anyio.fail_after(10):
        async with world.running():
            await world.prompt()
            assert shown(world) == [WORD, block(png())]
            cast("Seeing", world.model).sees = True
            await world.prompt("And now?")
    blind, seeing = world.model.requests[1], world.model.requests[2]
    assert (blind.files, results(blind)[1]) == (
        {},
        Text(text="[a picture (image/png, file:///work/a.png) was left out: this model does not take it]"),
    )
    assert [type(b).__name__ for b in results(seeing)] == ["Text", "Image"]
    assert list(seeing.files.values()) == [png()]


async def test_a_picture_that_is_none_fails_only_itself() -> None:
    world = world_of(png(), b"\x89PNG\r\n\x1a\nlies", png_of_size(PICTURE + 1), jpeg())
    with anyio.fail_after(10):
        async with world.running():
            assert (await world.prompt()).reason == "completed"
    said = results(world.model.requests[-1])
    assert [type(b).__name__ for b in said] == ["Text", "Image", "Text", "Text", "Image"]
    assert "broken or cut off" in str(said[2])
    assert "at most 3.75 MiB are taken" in str(said[3])


async def test_a_large_picture_is_kept_whole_and_shown_as_words_where_a_line_has_no_room() -> None:
    large = png_of_size(PICTURE)
    world = world_of(png(), large, png())
    with anyio.fail_after(10):
        async with world.running():
            await world.prompt()
            live = shown(world)
            await world.conversation.replay()
            assert shown(world) == live
    assert live[1] == live[3] == block(png())
    assert "too large to be shown here" in live[2]["content"]["text"]
    assert large in world.model.requests[-1].files.values()


async def test_the_same_picture_twice_is_stored_once_and_shown_twice() -> None:
    world = world_of(png(), png())
    with anyio.fail_after(10):
        async with world.running():
            await world.prompt()
            assert shown(world) == [WORD, block(png()), block(png())]


async def test_a_picture_that_is_lost_is_said_to_be_and_the_session_goes_on() -> None:
    first = world_of(png())
    with anyio.fail_after(10):
        async with first.running():
            await first.prompt()
    first.store.memory._sessions["s1"].content.clear()
    second = world_of(answers=[*ASKS, {"text": "Again."}], store=first.store)
    with anyio.fail_after(10):
        async with second.running(take=True):
            await second.conversation.replay()
            assert "which is lost" in shown(second)[1]["content"]["text"]
            assert (await second.prompt("And?")).reason == "completed"
    assert second.model.requests[-1].files == {}


async def test_a_result_is_neither_shown_nor_sent_before_its_picture_is_on_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And a disk that takes the log and not the picture fails the barrier without poisoning the log."""
    world = world_of(png(), answers=[*ASKS, {"text": "Later."}])
    with anyio.fail_after(10):
        async with world.running():
            held = world.journal.held
            put, tried = held.put_content, list[str]()

            async def full(data: bytes) -> str:
                tried.append(hashlib.sha256(data).hexdigest())
                raise StoreError("no room", session_id="s1", path="")

            monkeypatch.setattr(held, "put_content", full)
            outcome = await world.prompt()
            assert (outcome.reason, outcome.failure.kind) == ("error", "not_saved")
            assert world.peer.status("call_1_1_1") == "in_progress"
            assert len(world.model.requests) == 1
            assert set(tried) == {hashlib.sha256(png()).hexdigest()}
            assert not [event for event in world.saved() if isinstance(event, ToolResult)]
            monkeypatch.setattr(held, "put_content", put)
            assert (await world.prompt("And now?")).reason == "completed"
            assert world.peer.status("call_1_1_1") == "completed"
            assert shown(world) == [WORD, block(png())]
            [result] = [event for event in world.saved() if isinstance(event, ToolResult)]
            assert await held.get_content(*contents_named(result)) == png()


# --- parts of other people, and tools that call tools ---


class Outer(Greet):
    """A tool that hands on what an inner one has read."""

    def __init__(self, path: str) -> None:
        super().__init__(None, name="outer", effect="read")
        self._path = path

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        output = await call.dispatch("read_file", {"path": self._path})
        if output.is_error:
            raise ToolError(str(output.content))
        return ToolOutput(content=output.content)


class Watching(Asking):
    takes_images = True


async def test_a_tool_may_hand_on_the_picture_of_one_that_it_calls(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png())
    model = Watching("outer")
    async with open_runtime(config(), tools=(Outer("a.png"),), open_model=lambda _route: model) as runtime:
        session = await runtime.new_session(str(tmp_path), permit=None)  # pyright: ignore[reportArgumentType]  nobody is asked
        with anyio.fail_after(10):
            async with session.prompt("Go.") as turn:
                async for _ in turn:
                    pass
    assert list(model.requests[-1].files.values()) == [png()]


@pytest.mark.parametrize("wrong", [Picture(data="text"), Picture(data=b"", uri=7)])  # pyright: ignore[reportArgumentType]
async def test_what_somebody_elses_tool_returns_as_a_picture_and_is_none_is_told(
    wrong: Picture, tmp_path: Path
) -> None:
    model = Watching()
    greet = Greet({"run": lambda: ToolOutput(content=(wrong,))})
    async with open_runtime(config(), tools=(greet,), open_model=lambda _route: model) as runtime:
        session = await runtime.new_session(str(tmp_path), permit=None)  # pyright: ignore[reportArgumentType]
        with anyio.fail_after(10):
            async with session.prompt("Go.") as turn:
                async for _ in turn:
                    pass
        assert turn.outcome is not None
        assert turn.outcome.reason == "completed"
    assert "what it returned cannot be used" in str(results(model.requests[-1]))


# --- a whole life ---


def pictures(asked: Asked) -> list[str]:
    parts = [p for m in asked.messages if isinstance(m["content"], list) for p in m["content"]]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def exported(home: Path, session: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "acp_bridge", "sessions", *arguments]
    run = subprocess.run(
        command, env=clean_environment(home, ""), capture_output=True, text=True, check=True, timeout=20
    )
    return run.stdout


def test_a_picture_that_was_read_outlives_kill_change_of_model_fork_and_export(
    start: Start, project: Path, tmp_path: Path
) -> None:
    (project / "shot.png").write_bytes(png(40, 30))
    url = f"data:image/png;base64,{b64encode(png(40, 30)).decode()}"
    reading = Reply(calls=[Wanted("read_file", {"path": "shot.png"})])
    with Provider(answering(reading, otherwise=Reply(["Done."]))) as provider:
        models = {"ACP_BRIDGE_MODELS": "openai:fake,openai:gpt-oss", "ACP_BRIDGE_MODEL": "openai:gpt-oss"}
        client = start(provider, environment=models)
        session = client.new_session(project)
        assert client.prompted(session, "Read it") == "end_turn"
        assert (pictures(provider.asked[-1]), "left out: this model does not take it" in provider.asked[-1].text) == (
            [],
            True,
        )
        live = cards(client, session)
        option = {"sessionId": session, "configId": "model", "value": "openai:fake"}
        client.call("session/set_config_option", option)
        assert client.prompted(session, "And now?") == "end_turn"
        assert pictures(provider.asked[-1]) == [url]
        client.kill()

        other = start(provider, environment=models)
        load(other, session, project)
        loaded = cards(other, session)
        assert loaded["call_1_1_1"]["content"] == live["call_1_1_1"]["content"]
        assert loaded["call_1_1_1"]["content"][1]["content"]["data"] == url.partition(",")[2]
        assert other.prompted(session, "Still?") == "end_turn"
        assert pictures(provider.asked[-1]) == [url]
        other.kill()

        home = tmp_path / "home"
        assert url in exported(home, session, "export", session, "--format", "html")
        assert "image/png" in exported(home, session, "export", session)
        assert "image/png" in exported(home, session, "show", session)
        exported(home, session, "fork", session)
        [fork] = {p.name for p in (home / "bridge" / "sessions").iterdir() if (p / "log.jsonl").exists()} - {session}
        exported(home, session, "delete", "-y", session)
        third = start(provider, environment=models)
        load(third, fork, project)
        assert cards(third, fork)["call_1_1_1"]["content"] == live["call_1_1_1"]["content"]
        assert third.prompted(fork, "And in the fork?") == "end_turn"
        assert pictures(provider.asked[-1]) == [url]
        (home / "bridge" / "sessions" / fork / hashlib.sha256(png(40, 30)).hexdigest()).unlink()
        assert "lost" in exported(home, fork, "export", fork, "--format", "html")
        assert provider.rejected == []
    assert json.dumps(live).count("shot.png") > 0
