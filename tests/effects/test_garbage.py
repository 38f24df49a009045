"""Nothing is collected while something that lives long is made, and nothing is left switched off."""

import gc
import threading
from collections.abc import Generator

import pytest

from acp_bridge.effects import pause_gc, unfreeze_gc
from acp_bridge.effects.garbage import MANY


@pytest.fixture(autouse=True)
def as_before() -> Generator[None]:
    yield
    gc.unfreeze()
    assert gc.isenabled()


def test_nothing_is_collected_within_and_what_was_made_is_looked_at_once_it_is_let_go() -> None:
    with pause_gc():
        assert not gc.isenabled()
        made: list[list[int]] = [[] for _ in range(MANY + 1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= len(made)
    unfreeze_gc()
    assert gc.get_freeze_count() == 0


def test_a_few_objects_are_left_to_the_collector() -> None:
    with pause_gc():
        made: list[list[int]] = [[] for _ in range(100)]
    assert len(made) == 100
    assert gc.get_freeze_count() == 0


def test_blocks_that_overlap_in_threads_end_with_the_last_of_them() -> None:
    within, go_on = threading.Event(), threading.Event()

    def other() -> None:
        with pause_gc():
            within.set()
            go_on.wait(5)

    thread = threading.Thread(target=other)
    with pause_gc():
        thread.start()
        assert within.wait(5)
    assert not gc.isenabled()
    go_on.set()
    thread.join(5)
    assert gc.isenabled()


def test_a_failure_within_leaves_the_collector_as_it_was() -> None:
    with pytest.raises(KeyError), pause_gc():
        raise KeyError
    assert gc.isenabled()


def test_a_program_that_collects_by_itself_is_left_to_it() -> None:
    gc.disable()
    try:
        with pause_gc():
            pass
        assert not gc.isenabled()
        assert gc.get_freeze_count() == 0
    finally:
        gc.enable()
