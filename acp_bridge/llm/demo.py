"""The built-in model `demo`: a small coding agent without a mind, for the tour and for trying an editor without a key.

Reads a file, edits it, runs a command and sums up. What comes next is told from the transcript alone, so it goes on
after a crash as a real model would. Works with any prompt. Knows no network.
"""

import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import anyio.lowlevel
import orjson

from acp_bridge.content import JsonObject, Text, ToolRequest, Usage
from acp_bridge.session import FromAssistant, FromTools, FromUser, Message, ModelRequest, ToolAnswer

from .model import Delta, Finished, TextDelta, ThoughtDelta, ToolDelta

_FILE = re.compile(r"[\w./-]*\w\.[A-Za-z]\w{0,9}\b")
_DEFAULT_FILE = "greeting.py"
_NOTE = "# touched by the acp-bridge demo"
_NUMBER = re.compile(r"\s*\d+(?:\t|→|\s?\| ?|: )")
_PIECE = re.compile(r"\S+\s*")


@dataclass(frozen=True, slots=True)
class _Ask:
    """Say something, then ask for a tool."""

    text: str
    tool: str
    arguments: JsonObject
    thought: str = ""


@dataclass(frozen=True, slots=True)
class _Say:
    """Say something and be done."""

    text: str


_Move: TypeAlias = _Ask | _Say


class DemoModel:
    """The demo agent."""

    @property
    def context_window(self) -> int | None:
        """None: it reads no more than the last turn."""
        return None

    @property
    def takes_images(self) -> bool:
        """No."""
        return False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Yield the next move, word by word."""
        offered = frozenset(str(tool.get("name")) for tool in request.tools)
        move = _next_move(request.messages, offered)
        thought = move.thought if isinstance(move, _Ask) else ""
        for word in _PIECE.findall(thought):
            await anyio.lowlevel.checkpoint()
            yield ThoughtDelta(word)
        for word in _PIECE.findall(move.text):
            await anyio.lowlevel.checkpoint()
            yield TextDelta(word)
        usage = Usage(input_tokens=len(repr(request.messages)) // 4, output_tokens=len(move.text) // 4 + 1)
        match move:
            case _Ask():
                yield ToolDelta(0, move.tool, orjson.dumps(move.arguments).decode())
                yield Finished("tools", usage)
            case _Say():
                yield Finished("end", usage)

    async def aclose(self) -> None:
        """Nothing to free."""


def _next_move(messages: Sequence[Message], offered: frozenset[str]) -> _Move:
    prompt, results = _turn(messages)
    path = match.group() if (match := _FILE.search(prompt)) else _DEFAULT_FILE
    last = results[-1] if results else None
    match last:
        case None:
            move = _Ask(
                f"I will look at {path} first. ",
                "read_file",
                {"path": path},
                "The user wants something done here. I read before I change anything.",
            )
        case (ToolRequest(name="read_file"), ToolAnswer(is_error=False) as answer):
            move = _edit(path, _text(answer))
        case (ToolRequest(name="read_file"), _):
            move = _Ask(
                f"There is no {path} that I can read, so I make one. ",
                "write_file",
                {"path": path, "content": 'print("hello")\n' if path.endswith(".py") else "hello\n"},
            )
        case (ToolRequest(name="edit_file" | "write_file"), ToolAnswer(is_error=False)):
            move = _Ask("Changed. Now I run a command to see that it holds. ", "run_command", {"command": _check(path)})
        case (ToolRequest(name="run_command"), answer) if "Outcome unknown" in _text(answer):
            move = _Ask(
                "I do not know whether that command ran. I look at what it left behind instead of running it again. ",
                "list_files",
                {},
            )
        case (ToolRequest(name="list_files"), ToolAnswer(is_error=False) as answer):
            left = ", ".join(_text(answer).split()[:12])
            move = _Say(
                f"In the folder there is: {left}. The command had begun and left its trace, so I do not run it again. "
                f"{path} is changed as you asked."
            )
        case (ToolRequest(name="run_command"), ToolAnswer(is_error=False)):
            move = _Say(f"Done: I read {path}, changed it and ran a command, and all of it went well.")
        case (request, answer):
            why = next(iter(_text(answer).strip().splitlines()), "it did not say why")
            move = _Say(f"I stop here: {request.name} did not go well ({why[:300]}). Nothing was tried a second time.")
    if isinstance(move, _Ask) and move.tool not in offered:
        return _Say(f"I would call {move.tool} now, which is not offered in this session. So I stop here.")
    return move


def _turn(messages: Sequence[Message]) -> tuple[str, list[tuple[ToolRequest, ToolAnswer]]]:
    """Return the last prompt and what was asked for and answered since."""
    start = max((i for i, message in enumerate(messages) if isinstance(message, FromUser)), default=0)
    prompt, results = "", list[tuple[ToolRequest, ToolAnswer]]()
    requests: dict[str, ToolRequest] = {}
    for message in messages[start:]:
        match message:
            case FromUser(content):
                said = [b.text for b in content if isinstance(b, Text) and not b.text.startswith("<turn-note>")]
                prompt = said[-1] if said else ""
            case FromAssistant():
                requests = {request.call_id: request for request in message.requests}
            case FromTools(answers):
                results += [(requests[a.call_id], a) for a in answers if a.call_id in requests]
    return prompt, results


def _edit(path: str, content: str) -> _Ask:
    """Change one line: the greeting if there is one, else the first line that occurs once."""
    content = _plain(content)
    lines = [line for line in content.splitlines() if line.strip()]
    once = [line for line in lines if lines.count(line) == 1 and content.count(line) == 1]
    if greeting := next((line for line in once if "hello" in line.lower()), None):
        new = re.sub(
            "hello", lambda m: "Good day" if m.group()[0] == "H" else "good day", greeting, flags=re.IGNORECASE
        )
        return _Ask(f"{path} greets plainly. I make it more polite. ", "edit_file", _edit_of(path, greeting, new))
    if once and path.endswith(".py"):
        return _Ask(f"I add a comment to {path}. ", "edit_file", _edit_of(path, once[-1], f"{once[-1]}  {_NOTE}"))
    if once:
        return _Ask(
            f"I add a line to {path}. ", "edit_file", _edit_of(path, once[-1], f"{once[-1]}\n(seen by the demo)")
        )
    return _Ask(
        f"{path} has no line I could change, so I write it anew. ", "write_file", {"path": path, "content": "hello\n"}
    )


def _plain(content: str) -> str:
    """Take line numbers away, in case the tool shows a file with them."""
    lines = content.splitlines()
    if lines and all(_NUMBER.match(line) for line in lines):
        return "\n".join(_NUMBER.sub("", line, count=1) for line in lines)
    return content


def _edit_of(path: str, old: str, new: str) -> JsonObject:
    return {"path": path, "old_text": old, "new_text": new}


def _check(path: str) -> str:
    return f"python3 '{path}'" if path.endswith(".py") else f"wc -l '{path}'"


def _text(answer: ToolAnswer) -> str:
    return "\n".join(block.text for block in answer.content if isinstance(block, Text))
