"""A model that answers from a JSON file which a person can write: `scripted:FILE`.

Owns the file's format and the rule by which a request finds its answer. Knows no network.

The file is a list of answers, or `{"answers": [...], "context_window": 8192, "takes_images": false}`. An answer:

    {"text": "I look first.", "thought": "Hm.",
     "tools": [{"name": "read_file", "arguments": {"path": "a.py"}}],
     "stop": "tools",                                   end | tools | length | refusal; else told from `tools`
     "usage": {"input_tokens": 10, "output_tokens": 5},
     "kept": {"message": {}, "calls": {"0": {}}},       what comes beside the answer and has to go back with it
     "expect": "def main",                              or a list: must occur in the request's last message
     "when": "TOOL_OUTCOME_UNKNOWN"}                    or a list: see below

Tool arguments may be a string, which is sent as it is, so that broken JSON can be scripted. In place of `text`,
`thought` and `tools` an answer may give its pieces: `{"deltas": [...]}`, each one of

    {"text": "a"}   {"thought": "b", "signature": "s", "form": "thinking"}
    {"tool": {"index": 0, "name": "x", "arguments": "{"}}
    {"pause_s": 0.01}   {"wait_for": "/path/of/a/file"}   {"hang": true}
    {"fail": {"kind": "rate_limit", "message": "slow down", "status": 429, "retryable": true, "retry_after_s": 0.1}}

with `"repeat": 1000` beside `text`, `thought` or `tool`. `fail` and `hang` end an answer; a file to wait for is looked
for beside the script unless its path is absolute. Whether a failure is retryable follows from its kind if unsaid.

**Which answer.** The request alone decides, so that a process which was killed and started again goes on rightly:

1. The first answer whose `when` occurs in the request's last message, any number of times.
2. Otherwise the answer at the *place* that the conversation has come to: one further for each assistant message in it
   (those that a `when` answered are left out), and for each request that a turn's closing note shows to have ended
   without one: cancelled, killed or failed before the model had said anything.

A retry repeats its request, so failures need one thing more. Answers that end in a retryable `fail` share the place of
the answer after them: the first request there gets the first, its retry the second, and so on; the last is repeated.
These attempts are count_of in memory: a new process meets the failures again. Compaction drops messages, so a script
for what follows it goes by `when`.
"""

import os
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import assert_never

import anyio
import anyio.lowlevel

from acp_bridge.content import (
    AnswerBlock,
    Failure,
    Image,
    PromptBlock,
    Resource,
    ResourceLink,
    Text,
    Thought,
    ToolRequest,
)
from acp_bridge.session import FromAssistant, FromTools, FromUser, Message, ModelRequest

from .model import Delta, Failed, Finished, TextDelta, ToolDelta
from .script import Answer, Fail, Hang, Pause, Say, Script, WaitFor
from .script_parser import read_script

_POLL_S = 0.01
_AT_LIMIT = "stopped at the limit of model requests"
"""What the closing note says of a turn that ended behind its results without another request."""


class ScriptedModel:
    """Answers from a script. Give it a path, or a `Script` that was parsed before."""

    def __init__(self, script: Script | str | os.PathLike[str]) -> None:
        """Read the script.

        Raises:
            ConfigError: it cannot be read or is malformed; the message names file, place and remedy.
        """
        self._script = script if isinstance(script, Script) else read_script(script)
        self._places = _places(self._script.answers)
        self._attempts: Counter[int] = Counter()

    @property
    def context_window(self) -> int | None:
        """What the script says, if it does."""
        return self._script.context_window

    @property
    def takes_images(self) -> bool:
        """What the script says; yes if it does not."""
        return self._script.takes_images

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Yield the answer that the request has come to; see the module's docstring."""
        answer = self._choose(request.messages)
        if answer is None:
            yield _refuse(f"the script {self._script.name!r} is at its end: it has no answer for this request; add one")
            return
        last = text_of(request.messages[-1]) if request.messages else ""
        if missing := next((part for part in answer.expect if part not in last), None):
            yield _refuse(
                f"the script {self._script.name!r} expects {missing!r} in the request's last message at {answer.at}, "
                f"which is {last[:500]!r}"
            )
            return
        async for delta in self._play(answer):
            yield delta

    async def aclose(self) -> None:
        """Nothing to free."""

    def _choose(self, messages: Sequence[Message]) -> Answer | None:
        if messages and (answer := _by_when(self._script.answers, messages[-1])):
            return answer
        place = _place(self._script.answers, self._places, messages)
        if place >= len(self._places):
            return None
        attempts = self._places[place]
        if len(attempts) == 1:
            return attempts[0]
        key = hash((place, repr(_opening(messages))))
        self._attempts[key] += 1
        return attempts[min(self._attempts[key], len(attempts)) - 1]

    async def _play(self, answer: Answer) -> AsyncGenerator[Delta, None]:
        for piece in answer.pieces:
            match piece:
                case Say(delta, repeat):
                    for _ in range(repeat):
                        await anyio.lowlevel.checkpoint()
                        yield delta
                case Pause(seconds):
                    await anyio.sleep(seconds)
                case WaitFor(path):
                    target = anyio.Path(Path(self._script.name).parent / path)
                    while not await target.exists():  # noqa: ASYNC110 - another process makes it
                        await anyio.sleep(_POLL_S)
                case Hang():
                    await anyio.sleep_forever()
                case Fail(failed):
                    await anyio.lowlevel.checkpoint()
                    yield failed
                    return
        await anyio.lowlevel.checkpoint()
        yield _end(answer)


def text_of(message: Message) -> str:
    """Return what a message says, a line a block: text, and the address of what was pointed at."""
    return "\n".join(_text_of(block) for block in _blocks(message))


def _blocks(message: Message) -> tuple[PromptBlock | AnswerBlock, ...]:
    match message:
        case FromUser(content) | FromAssistant(content):
            return content
        case FromTools(answers):
            return tuple(block for answer in answers for block in answer.content)
        case _:
            assert_never(message)


def _text_of(block: PromptBlock | AnswerBlock) -> str:
    match block:
        case Text() | Thought():
            return block.text
        case Resource():
            return f"{block.uri}\n{block.text}"
        case ResourceLink() | Image():
            return block.uri
        case ToolRequest():
            return f"{block.name} {block.arguments}"
        case _:
            assert_never(block)


def _end(answer: Answer) -> Finished | Failed:
    said = [piece.delta for piece in answer.pieces if isinstance(piece, Say)]
    tools = any(isinstance(delta, ToolDelta) for delta in said)
    stop = answer.stop or ("tools" if tools else "end")
    if stop in ("end", "tools") and not tools and not any(isinstance(d, TextDelta) and d.text for d in said):
        return Failed(Failure(kind="empty", message="the model's answer was empty"), retryable=True)
    return Finished(stop, answer.usage, answer.kept)


def _refuse(message: str) -> Failed:
    return Failed(Failure(kind="bad_request", message=message), retryable=False)


def _places(answers: Sequence[Answer]) -> tuple[tuple[Answer, ...], ...]:
    """Group the answers that go by place: retryable failures share the place of what follows them."""
    places: list[tuple[Answer, ...]] = []
    attempts: tuple[Answer, ...] = ()
    for answer in answers:
        if answer.when:
            continue
        attempts += (answer,)
        if (failed := answer.failed) is None or not failed.retryable:
            places.append(attempts)
            attempts = ()
    return (*places, attempts) if attempts else tuple(places)


def _by_when(answers: Sequence[Answer], message: Message) -> Answer | None:
    text = text_of(message)
    return next((a for a in answers if a.when and all(part in text for part in a.when)), None)


def _place(answers: Sequence[Answer], places: Sequence[tuple[Answer, ...]], messages: Sequence[Message]) -> int:
    """Count the places that the conversation has used up."""
    place = 0
    for i, message in enumerate(messages):
        before = messages[i - 1] if i else None
        match message:
            case FromAssistant():
                place += before is None or _by_when(answers, before) is None
            case FromUser(content):
                for k, block in enumerate(content):
                    if not isinstance(block, Text) or not block.text.startswith("<turn-note>"):
                        continue
                    unanswered = k > 0 or (_all_tools_ended_well(before) and _AT_LIMIT not in block.text)
                    fails_over = place < len(places) and places[place][-1].failed is None
                    retried = "ended with an error" in block.text and fails_over and len(places[place]) > 1
                    place += unanswered and not retried
            case FromTools():
                pass
    return place


def _all_tools_ended_well(message: Message | None) -> bool:
    """Whether a turn that ended after these results had most likely made its next request already."""
    return isinstance(message, FromTools) and not any(answer.is_error for answer in message.answers)


def _opening(messages: Sequence[Message]) -> tuple[object, ...]:
    """What stays the same while one answer is tried for: the conversation up to the first block not yet answered."""
    for i in range(len(messages) - 1, -1, -1):
        if isinstance(messages[i], FromAssistant):
            return tuple(messages[: i + 1])
    first = messages[0] if messages else None
    return first.content[:1] if isinstance(first, FromUser) else ()
