"""The route `record:FOLDER=ROUTE`: what it writes, and how it refuses."""

import json
from pathlib import Path

import anyio
import pytest

from acp_bridge.content import Text
from acp_bridge.errors import ConfigError
from acp_bridge.llm import Options, open_model, script_from
from acp_bridge.llm.recording import Recorder, open_recording
from acp_bridge.llm.scripted import ScriptedModel
from acp_bridge.session import FromUser, ModelRequest

REQUEST = ModelRequest(route="r", system="s", messages=(FromUser((Text(text="Hello sk-123"),)),))


async def test_a_route_is_recorded_without_its_key(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"answers": [{"text": "Hi, sk-123."}], "context_window": 99}))
    model = open_model(f"record:{tmp_path / 'model'}=scripted:{script}", Options(keys={"openai": "sk-123"}))
    said = [delta async for delta in model.stream(REQUEST)]
    await model.aclose()
    assert len(said) == 2
    written = "".join(path.read_text() for path in (tmp_path / "model").iterdir())
    assert "sk-123" not in written
    assert "Hi, <secret>." in written
    assert open_recording(tmp_path / "model").context_window == 99


async def test_a_cancelled_answer_is_one_that_hangs(tmp_path: Path) -> None:
    script = script_from([{"deltas": [{"text": "One, "}, {"hang": True}]}], "x")
    recorder = Recorder(ScriptedModel(script), tmp_path)
    with anyio.move_on_after(0.05):
        _ = [delta async for delta in recorder.stream(REQUEST)]
    await recorder.aclose()
    answer = json.loads((tmp_path / "0001.json").read_text())
    assert answer["deltas"] == [{"text": "One, "}, {"hang": True}]
    played: list[object] = []
    with anyio.move_on_after(0.05):
        async for delta in open_recording(tmp_path).stream(REQUEST):
            played.append(delta)
    assert len(played) == 1


@pytest.mark.parametrize("route", ["record:folder", "record:=demo", "record:folder="])
def test_a_route_without_folder_or_model_is_refused_with_an_example(route: str) -> None:
    with pytest.raises(ConfigError, match="record:FOLDER=openai"):
        open_model(route)


def test_a_watched_recording_needs_no_answers_and_an_unwatched_one_does(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no recording"):
        open_recording(tmp_path)
    (tmp_path / "served.jsonl").touch()
    assert open_recording(tmp_path).takes_images
