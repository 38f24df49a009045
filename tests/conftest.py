"""Agents are started warm in every test but those that are about the start; what is asynchronous runs on both loops."""

import gc
import sys
from collections.abc import Generator

import pytest
from support.warm import STARTS

STARTS.install()
gc.disable()  # until all is collected: next to nothing of it is garbage

_LONGEST_ID = 200


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--cold", action="store_true", help="start every agent by its command: slow, and nothing shared")


def pytest_configure(config: pytest.Config) -> None:
    """Read the option."""
    STARTS.cold = STARTS.cold or bool(config.getoption("--cold"))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a long text by its length: a test's id is sent, compared and printed, and would else be the text itself."""
    return f"{argname} of {len(val)}" if isinstance(val, str | bytes) and len(val) > _LONGEST_ID else None


def pytest_collection_finish() -> None:
    """Leave all that was collected out of every later search for garbage."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """Let hypothesis, where it is imported only now, see who holds the generators that it is given."""
    if "hypothesis" not in sys.modules:
        gc.unfreeze()


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Both event loops, unless a module has one of its own to say."""
    return request.param


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Start agents by their command in a test that is about that."""
    if item.get_closest_marker("cold_start") is None:
        return (yield)
    with STARTS.all_cold():
        return (yield)
