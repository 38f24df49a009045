"""A program that is spoken to over its pipes ends, with all that it started, when it is left."""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from acp_bridge.errors import ToolError
from acp_bridge.tools.process import guarded_process

from .conftest import Marked


@pytest.fixture
def env(marked: Marked) -> Mapping[str, str]:
    return marked.env


async def test_what_is_sent_comes_back_also_when_it_is_more_than_a_pipe_holds(
    env: Mapping[str, str], marked: Marked, tmp_path: Path
) -> None:
    data = bytes(range(256)) * 4096
    got = bytearray()
    before = len(os.listdir("/proc/self/fd"))
    with anyio.fail_after(10):
        async with guarded_process(["cat"], env=env, cwd=tmp_path) as cat, anyio.create_task_group() as tg:

            async def read() -> None:
                async for chunk in cat.stdout:
                    got.extend(chunk)

            tg.start_soon(read)
            await cat.stdin.send(data)
            await cat.stdin.aclose()
            assert await cat.wait() == 0
    assert bytes(got) == data
    assert not marked.pids()
    assert len(os.listdir("/proc/self/fd")) <= before + 2


async def test_it_gets_exactly_the_environment_and_folder_it_is_given(tmp_path: Path) -> None:
    with anyio.fail_after(10):
        code = "import os; print(sorted(os.environ), os.getcwd())"
        async with guarded_process(
            [sys.executable, "-c", code], env={"A": "1", "LC_ALL": "C.UTF-8"}, cwd=tmp_path
        ) as it:
            assert await it.stdout.receive() == f"['A', 'LC_ALL'] {tmp_path}\n".encode()


async def test_leaving_ends_it_with_all_that_it_started(env: Mapping[str, str], marked: Marked, tmp_path: Path) -> None:
    stubborn = "trap '' TERM; setsid sleep 1000 & echo up; while :; do sleep 0.1; done"
    with anyio.fail_after(10):
        async with guarded_process(["sh", "-c", stubborn], env=env, cwd=tmp_path, leave_s=0.1) as it:
            assert await it.stdout.receive() == b"up\n"
            assert len(marked.pids()) >= 3
        assert not marked.pids()


async def test_a_program_that_ends_with_its_input_is_given_time_to(env: Mapping[str, str], tmp_path: Path) -> None:
    with anyio.fail_after(10):
        async with guarded_process(["sh", "-c", "cat; touch left"], env=env, cwd=tmp_path, leave_s=5):
            pass
    assert (tmp_path / "left").exists()


async def test_a_cancelled_user_leaves_nothing(env: Mapping[str, str], marked: Marked, tmp_path: Path) -> None:
    started = time.monotonic()
    with anyio.move_on_after(0.2):
        async with guarded_process(["sleep", "1000"], env=env, cwd=tmp_path, leave_s=0.1) as it:
            await it.stdout.receive()
    assert not marked.pids()
    assert time.monotonic() - started < 3


async def test_a_program_that_does_not_exist_ends_with_127(env: Mapping[str, str], tmp_path: Path) -> None:
    with anyio.fail_after(10):
        async with guarded_process(["no-such-program"], env=env, cwd=tmp_path) as it:
            assert await it.wait() == 127
        with pytest.raises(ToolError, match="could not be started"):
            async with guarded_process(["true"], env=env, cwd=tmp_path / "nowhere"):
                pass


async def test_a_closed_or_broken_pipe_is_said_to_be(env: Mapping[str, str], tmp_path: Path) -> None:
    with anyio.fail_after(10):
        async with guarded_process(["true"], env=env, cwd=tmp_path) as it:
            assert await it.wait() == 0
            with pytest.raises(anyio.EndOfStream):
                await it.stdout.receive()
            with pytest.raises(anyio.BrokenResourceError):
                await it.stdin.send(b"x")
            await it.stdin.aclose()
            with pytest.raises(anyio.ClosedResourceError):
                await it.stdin.send(b"x")
            await it.stdout.aclose()
            with pytest.raises(anyio.ClosedResourceError):
                await it.stdout.receive()
