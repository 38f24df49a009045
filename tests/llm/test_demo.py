"""The demo model, played against tools that are real enough."""

from pathlib import Path
from typing import Any

import anyio
import orjson
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.content import Text, ToolRequest
from acp_bridge.llm.demo import DemoModel
from acp_bridge.llm.model import Finished, TextDelta, ThoughtDelta, ToolDelta
from acp_bridge.session import FromAssistant, FromTools, FromUser, Message, ModelRequest, ToolAnswer

TOOLS = tuple(
    {"name": n, "description": "", "parameters": {}} for n in ("read_file", "edit_file", "write_file", "run_command")
)


def use(folder: Path, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    path = folder / str(arguments.get("path", ""))
    match name:
        case "read_file":
            return (path.read_text(), False) if path.exists() else ("no such file", True)
        case "edit_file":
            text = path.read_text()
            assert text.count(arguments["old_text"]) == 1
            path.write_text(text.replace(arguments["old_text"], arguments["new_text"]))
            return "edited", False
        case "write_file":
            path.write_text(arguments["content"])
            return "written", False
        case _:
            return f"ran {arguments['command']}", False


async def play(folder: Path, prompt: str) -> tuple[list[str], str]:
    messages: list[Message] = [FromUser((Text(text=prompt),))]
    used: list[str] = []
    with anyio.fail_after(5):
        while True:
            text, asked, end = "", None, None
            request = ModelRequest(route="demo", system="", messages=tuple(messages), tools=TOOLS)
            async for delta in DemoModel().stream(request):
                match delta:
                    case TextDelta():
                        text += delta.text
                    case ToolDelta():
                        asked = delta
                    case Finished():
                        end = delta
                    case _:
                        assert isinstance(delta, ThoughtDelta)
            assert end is not None
            if asked is None:
                return used, text
            call = ToolRequest(call_id=str(len(used)), name=asked.name, arguments=asked.arguments, title="")
            used.append(asked.name)
            output, is_error = use(folder, asked.name, orjson.loads(asked.arguments))
            messages += [
                FromAssistant((Text(text=text), call)),
                FromTools((ToolAnswer(call.call_id, (Text(text=output),), is_error),)),
            ]


async def test_the_tour_reads_edits_runs_and_sums_up(tmp_path: Path) -> None:
    (tmp_path / "greeting.py").write_text('def greet():\n    print("hello")\n')
    used, text = await play(tmp_path, "Make the greeting polite")
    assert used == ["read_file", "edit_file", "run_command"]
    assert "good day" in (tmp_path / "greeting.py").read_text()
    assert text.startswith("Done")


async def test_a_file_named_in_the_prompt_is_the_one_that_is_changed(tmp_path: Path) -> None:
    (tmp_path / "b.py").write_text("x = 1\n")
    used, _ = await play(tmp_path, "please look at b.py")
    assert used == ["read_file", "edit_file", "run_command"]
    assert (tmp_path / "b.py").read_text().startswith("x = 1  #")


async def test_a_missing_file_is_made(tmp_path: Path) -> None:
    used, _ = await play(tmp_path, "hi")
    assert used == ["read_file", "write_file", "run_command"]


async def test_tools_that_are_not_offered_are_not_asked_for() -> None:
    request = ModelRequest(route="demo", system="", messages=(FromUser((Text(text="hi"),)),))
    got = [delta async for delta in DemoModel().stream(request)]
    assert isinstance(got[-1], Finished)
    assert not any(isinstance(delta, ToolDelta) for delta in got)


@given(content=st.text(), prompt=st.text())
def test_any_prompt_and_any_file_get_an_answer(content: str, prompt: str) -> None:
    call = ToolRequest(call_id="c", name="read_file", arguments="{}", title="")
    messages = (
        FromUser((Text(text=prompt),)),
        FromAssistant((call,)),
        FromTools((ToolAnswer("c", (Text(text=content),), is_error=False),)),
    )

    async def ends() -> bool:
        request = ModelRequest(route="demo", system="", messages=messages, tools=TOOLS)
        return isinstance([delta async for delta in DemoModel().stream(request)][-1], Finished)

    assert anyio.run(ends)
