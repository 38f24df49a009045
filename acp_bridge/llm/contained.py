"""Somebody else's model behind one boundary: what it raises or yields wrongly is a failure that names it.

Owns the words about a model that does not keep its port. Knows no provider.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Final, cast, get_args

import anyio

from acp_bridge.content import Failure, Usage
from acp_bridge.effects import no_stray_cancellation
from acp_bridge.errors import PART_FAILURES, BridgeError
from acp_bridge.session import ModelRequest
from acp_bridge.text import describe

from .model import Delta, Failed, Finished, Model, StopCause, TextDelta, ThoughtDelta, ToolDelta

logger = logging.getLogger(__name__)

DELTAS: Final[tuple[type, ...]] = get_args(Delta)


class ContainedModel:
    """A model whose failures end an attempt, and nothing else.

    Args:
        model: keeps the port, or does not.
        part: what it is named by, e.g. `'mine:EchoModel'`.
        enter: enters a set-up that it has of its own, once, before it is asked anything.
    """

    def __init__(self, model: Model, part: str, enter: Callable[[], Awaitable[object]] | None = None) -> None:
        self._model = model
        self._part = part
        self._enter = enter
        self._entering: anyio.Lock | None = None

    @property
    def context_window(self) -> int | None:
        """What it says; None where that is no number of tokens."""
        size = self._attribute("context_window")
        return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None

    @property
    def takes_images(self) -> bool:
        """What it says; False where that is neither yes nor no."""
        return self._attribute("takes_images") is True

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Pass its answer on; what is no answer ends it as a failure that no retry mends."""
        try:
            async with AsyncExitStack() as closing:
                await closing.enter_async_context(no_stray_cancellation())
                await self._enter_once()
                deltas: Any = self._model.stream(request)
                if hasattr(deltas, "aclose"):
                    closing.push_async_callback(deltas.aclose)
                async for delta in deltas:
                    if problem := problem_of(delta):
                        logger.error("the model %s gave %s", self._part, problem)
                        yield self._fail(f"gave {problem}")
                        return
                    yield cast("Delta", delta)
                    if isinstance(delta, Finished | Failed):
                        return
        except BridgeError as exc:
            yield Failed(Failure(kind="unavailable", message=str(exc)), retryable=False)
        except PART_FAILURES as exc:
            logger.exception("the model %s failed", self._part)
            yield self._fail(f"failed inside: {describe(exc)}")

    async def aclose(self) -> None:
        """Close it.

        Raises:
            Exception: as it does, with a note that names it.
        """
        try:
            async with no_stray_cancellation():
                await self._model.aclose()
        except Exception as exc:
            exc.add_note(f"the model {self._part} could not be closed")
            raise

    async def _enter_once(self) -> None:
        if self._enter is None:
            return
        self._entering = self._entering or anyio.Lock()
        async with self._entering:
            if self._enter is not None:
                made = await self._enter()
                self._model, self._enter = cast("Model", made), None

    def _attribute(self, name: str) -> object:
        try:
            return cast("object", getattr(self._model, name))
        except PART_FAILURES:
            logger.exception("the model %s has no %s that can be read", self._part, name)
            return None

    def _fail(self, what: str) -> Failed:
        return Failed(Failure(kind="internal", message=f"the model {self._part} {what}"), retryable=False)


def problem_of(delta: object) -> str:
    """Return why something is no delta of an answer; empty if it is one."""
    if not isinstance(delta, DELTAS):
        return f"a value of type {type(delta).__name__}, which is no delta"
    match delta:
        case TextDelta():
            wrong = _wrong_texts(delta.text)
        case ThoughtDelta():
            wrong = _wrong_texts(delta.text, delta.signature)
        case ToolDelta():
            index = cast("object", delta.index)
            wrong = _wrong_texts(delta.name, delta.arguments) or not isinstance(index, int) or index < 0
        case Finished():
            usage = cast("object", delta.usage)
            wrong = delta.cause not in get_args(StopCause) or not (usage is None or isinstance(usage, Usage))
        case Failed():
            wrong = not isinstance(cast("object", delta.failure), Failure)
        case _:
            wrong = False
    return f"a {type(delta).__name__} whose members are not what they should be: {str(delta)[:200]}" if wrong else ""


def _wrong_texts(*texts: object) -> bool:
    return not all(isinstance(text, str) for text in texts)
