"""The wire's two threads over descriptors of this process."""

import os
import pty
import socket
import threading
import tty
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from acp_bridge.rpc import MemoryWire, Wire
from acp_bridge.rpc.stdio import QUEUE_SIZE

pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")


async def received(wire: Wire | MemoryWire) -> bytes:
    """All that comes until the end."""
    found = b""
    while block := await wire.receive():
        found += block
    assert await wire.receive() == b""  # and stays so
    return found


def written(fd: int) -> tuple[bytearray, threading.Thread]:
    """What comes out of `fd` until the end, read in a thread that then closes it."""
    found = bytearray()

    def read() -> None:
        while block := os.read(fd, 65536):
            found.extend(block)
        os.close(fd)

    thread = threading.Thread(target=read)
    thread.start()
    return found, thread


def nowhere() -> int:
    return os.open(os.devnull, os.O_RDWR)


def pipe_source() -> int:
    read, write = os.pipe()
    os.write(write, b"one\ntwo\n")
    os.close(write)
    return read


def socket_source() -> int:
    here, there = socket.socketpair()
    with here, there:
        here.sendall(b"one\ntwo\n")
        return os.dup(there.fileno())


@pytest.mark.parametrize("source", [pipe_source, socket_source])
async def test_the_input_is_read_to_its_end(source: Callable[[], int]) -> None:
    with anyio.fail_after(5):
        async with Wire(source(), nowhere()) as wire:
            assert await received(wire) == b"one\ntwo\n"


async def test_a_non_blocking_input_that_is_empty_has_not_ended() -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    with anyio.fail_after(5):
        async with Wire(read, nowhere()) as wire:
            with anyio.move_on_after(0.05) as waiting:
                await wire.receive()
            assert waiting.cancelled_caught
            os.write(write, b"one\n")
            os.close(write)
            assert await received(wire) == b"one\n"


async def test_a_regular_file_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"x" * 1_000_000)
    with anyio.fail_after(5):
        async with Wire(os.open(path, os.O_RDONLY), nowhere()) as wire:
            assert await received(wire) == b"x" * 1_000_000


async def test_the_null_device_ends_at_once() -> None:
    with anyio.fail_after(5):
        async with Wire(nowhere(), nowhere()) as wire:
            assert await received(wire) == b""


async def test_a_terminal_is_read_and_written() -> None:
    main, side = pty.openpty()
    tty.setraw(side)
    with anyio.fail_after(5):
        async with Wire(side, os.dup(side)) as wire:
            os.write(main, b"hello\n")
            assert await wire.receive() == b"hello\n"
            wire.send(b"there\n")
            assert await wire.drain(5) == 0
            assert os.read(main, 100) == b"there\n"
            os.close(main)
            assert await wire.receive() == b""  # EIO is the end of a terminal


async def test_a_reader_that_falls_behind_holds_up_the_sender() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    with anyio.fail_after(5):
        async with Wire(read, nowhere()) as wire:
            sent = refused = 0
            while sent < 10_000_000 and refused < 2000:  # a reader that does not stop makes room within a few turns
                try:
                    sent += os.write(write, b"x" * 65536)
                    refused = 0
                except BlockingIOError:
                    refused += 1
                    await anyio.lowlevel.checkpoint()
            assert sent < 1_000_000
            os.close(write)
            assert len(await received(wire)) == sent


async def test_all_that_is_sent_comes_out_in_order() -> None:
    read, write = os.pipe()
    found, thread = written(read)
    lines = [b"%d\n" % n for n in range(100_000)]
    with anyio.fail_after(5):
        async with Wire(nowhere(), write) as wire:
            for line in lines:
                wire.send(line)
            assert await wire.drain(5) == 0
        await anyio.to_thread.run_sync(thread.join)
    assert bytes(found) == b"".join(lines)


async def test_what_is_queued_on_leaving_is_still_written_and_then_the_output_ends() -> None:
    read, write = os.pipe()
    with anyio.fail_after(5):
        async with Wire(nowhere(), write) as wire:
            wire.send(b"x" * 5_000_000 + b"\n")
        found, thread = written(read)
        await anyio.to_thread.run_sync(thread.join)
    assert len(found) == 5_000_001


async def test_a_non_blocking_output_loses_nothing() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    with anyio.fail_after(5):
        async with Wire(nowhere(), write) as wire:
            wire.send(b"x" * 1_000_000)
            found, thread = written(read)
            assert await wire.drain(5) == 0
        await anyio.to_thread.run_sync(thread.join)
    assert len(found) == 1_000_000


async def test_a_client_that_does_not_read_slows_the_producer_and_not_the_loop() -> None:
    read, write = os.pipe()
    sent = 0
    reading: list[tuple[bytearray, threading.Thread]] = []

    async def produce(wire: Wire) -> None:
        nonlocal sent
        for _ in range(200):
            await wire.ready()
            wire.send(b"x" * 99_999 + b"\n")
            sent += 1

    with anyio.fail_after(5):
        async with Wire(nowhere(), write) as wire:
            async with anyio.create_task_group() as tg:
                tg.start_soon(produce, wire)
                await anyio.wait_all_tasks_blocked()
                assert QUEUE_SIZE < wire.pending_bytes <= QUEUE_SIZE + 200_000
                wire.send(b"an answer\n")  # always accepted
                reading.append(written(read))
        [(found, thread)] = reading
        await anyio.to_thread.run_sync(thread.join)
    assert sent == 200
    assert len(found) == 200 * 100_000 + len(b"an answer\n")


async def cancel_soon(scope: anyio.CancelScope) -> None:
    scope.cancel()


async def test_a_producer_whose_client_is_fast_lets_others_have_their_turn() -> None:
    with anyio.fail_after(5):
        async with Wire(nowhere(), nowhere()) as wire:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tg:
                    tg.start_soon(cancel_soon, scope)
                    for _ in range(1000):
                        wire.send(b"x" * 999 + b"\n")
                        await wire.ready()
            assert scope.cancelled_caught


async def test_draining_ends_with_its_deadline_and_says_what_is_left() -> None:
    read, write = os.pipe()
    with anyio.fail_after(5):
        async with Wire(nowhere(), write) as wire:
            wire.send(b"x" * 1_000_000)
            assert 900_000 < await wire.drain(0.05) <= 1_000_000
            os.close(read)
            await wire.broken.wait()


async def test_a_client_that_is_gone_breaks_the_wire_and_ends_the_input() -> None:
    read, write = os.pipe()
    source, feed = os.pipe()
    os.close(read)
    with anyio.fail_after(5):
        async with Wire(source, write) as wire, anyio.create_task_group() as tg:
            assert not wire.broken.is_set()
            tg.start_soon(received, wire)
            for _ in range(4):
                wire.send(b"x" * 299_999 + b"\n")
            await wire.broken.wait()
            wire.send(b"y\n")
            assert await wire.drain(5) == 1_200_002
            await wire.ready()
            assert not wire._queue  # what nobody will read is not kept
        os.close(feed)


async def test_a_client_that_goes_while_the_queue_is_full_frees_the_producer() -> None:
    read, write = os.pipe()
    with anyio.fail_after(5):
        async with Wire(nowhere(), write) as wire, anyio.create_task_group() as tg:
            wire.send(b"x" * (QUEUE_SIZE + 1_000_000))
            tg.start_soon(wire.ready)
            tg.start_soon(wire.drain, 5)
            await anyio.wait_all_tasks_blocked()
            os.close(read)


async def test_a_wire_that_is_left_leaves_no_descriptor_open() -> None:
    source, feed = os.pipe()
    read, write = os.pipe()
    with anyio.fail_after(5):
        async with Wire(source, write):
            pass
        os.close(feed)
        threads = [thread for thread in threading.enumerate() if thread.name.startswith("rpc-")]
        for thread in threads:
            await anyio.to_thread.run_sync(thread.join)
    os.close(read)
    for fd in (source, write):
        with pytest.raises(OSError):
            os.fstat(fd)


async def test_memory_carries_what_is_sent_until_it_is_closed() -> None:
    here, there = MemoryWire.pair()
    here.send(b"one\n")
    here.send(b"two\n")
    here.close()
    here.send(b"dropped\n")
    with anyio.fail_after(5):
        assert await here.drain(0.01) == 8
        assert await received(there) == b"one\ntwo\n"
        assert await here.drain(5) == 0
