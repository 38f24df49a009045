"""Figures beside their floors, measured in one run: what an append, a load and a listing cost. Run by name."""

import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from support.words import header, lines, store_in

from acp_bridge.content import Text
from acp_bridge.session import (
    AssistantDelta,
    Event,
    Header,
    Record,
    SessionFilter,
    SessionTitled,
    StepStarted,
    ToolCalled,
    ToolResult,
    TurnEnded,
    TurnStarted,
    encode_header,
)
from acp_bridge.storage.format import body_of
from acp_bridge.storage.log import lines_of

pytestmark = [pytest.mark.bench, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def say(capsys: pytest.CaptureFixture[str], words: str) -> None:
    with capsys.disabled():
        print(f"\n  {words}")


async def test_an_append_beside_a_write_and_a_sync(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = await store_in(tmp_path / "sessions").create(header(), [])
    raw = os.open(tmp_path / "raw", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    ours, floor = list[float](), list[float]()
    delta = AssistantDelta(turn=1, step=1, message_id="m", kind="text", text="x" * 800)
    for seq in range(300):
        began = time.perf_counter()
        size = await session.append([Record(seq, 1, delta)])
        ours.append(time.perf_counter() - began)
        data = b"x" * size
        began = time.perf_counter()
        os.write(raw, data)
        os.fdatasync(raw)
        floor.append(time.perf_counter() - began)
    os.close(raw)
    await session.close()
    a, b = (statistics.quantiles(times, n=4) for times in (ours, floor))
    lower, middle = 1e3 * (a[0] - b[0]), 1e3 * (a[1] - b[1])
    say(capsys, f"append {1e3 * a[1]:.3f} ms, write and fdatasync {1e3 * b[1]:.3f} ms (medians);")
    say(capsys, f"overhead {lower:.3f} ms at the lower quartile, {middle:.3f} ms at the median")


def _long_log() -> Iterator[Record]:
    """100,000 records, 36 MB: six in ten are deltas, two are results of 700 bytes."""
    for seq in range(100_000):
        event: Event
        match seq % 10:
            case 6 | 7:
                event = ToolResult(turn=1, step=1, call_id=f"c{seq}", content=(Text(text="z" * 700),))
            case 8:
                arguments = {"path": f"/a/{seq}"}
                event = ToolCalled(
                    turn=1, step=1, call_id=f"c{seq}", name="read_file", arguments=arguments, effect="read"
                )
            case 9:
                event = StepStarted(turn=1, step=seq)
            case _:
                event = AssistantDelta(turn=1, step=1, message_id="m1", kind="text", text=f"{seq} word " * 12)
        yield Record(seq, 1_700_000_000_000 + seq, event)


_HOLD = """
import resource, sys, time, zlib
from pathlib import Path
import anyio, orjson
from acp_bridge.storage import JsonlStore

async def ours(root):
    session = await JsonlStore(root).hold("s1")
    await session.close()
    return session.loaded.records

def floor(root):
    kept = []
    for line in (root / "s1" / "log.jsonl").read_bytes().splitlines():
        zlib.crc32(line)
        kept.append(orjson.loads(line))
    return kept

root = Path(sys.argv[2])
began = time.process_time()
kept = anyio.run(ours, root) if sys.argv[1] == "ours" else floor(root)
print(time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


async def test_a_hold_of_100_000_events_beside_reading_and_parsing_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "sessions"
    await (await store_in(root).create(header(), list(_long_log()))).close()
    size = sum(map(len, lines(root / "s1" / "log.jsonl"))) / 1e6
    for who, what in (("ours", "hold"), ("floor", "read, crc32 and orjson")):
        ended = await anyio.run_process([sys.executable, "-c", _HOLD, who, str(root)])
        seconds, peak = map(float, ended.stdout.split())
        say(capsys, f"100,000 events, {size:.1f} MB: {what} takes {seconds:.2f} s of CPU, peak RSS {peak:.0f} MB")


def _many(root: Path, count: int) -> None:
    root.mkdir(mode=0o700)
    for number in range(count):
        session_id, cwd = f"{number:032x}", f"/proj/{number % 50}"
        start = Header(session_id=session_id, created=number, version="1", cwd=cwd, roots=(cwd,))
        events = [SessionTitled(title=f"Session {number}"), TurnStarted(turn=1), TurnEnded(turn=1, reason="completed")]
        bodies = [body_of(Record(seq, number + seq, event)) for seq, event in enumerate(events)]
        (root / session_id).mkdir(mode=0o700)
        log = b"".join(lines_of(session_id, "0" * 16, encode_header(start), bodies))
        (root / session_id / "log.jsonl").write_bytes(log)
        (root / f"{session_id}.lock").touch()


async def test_the_first_page_of_10_000_sessions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "sessions"
    _many(root, 10_000)
    taken = list[float]()
    for _ in range(4):
        began = time.process_time()
        page = await store_in(root).list(SessionFilter())
        taken.append(1e3 * (time.process_time() - began))
        assert len(page.sessions) == 50
    say(
        capsys,
        f"first page of 10,000: {min(taken[1:]):.0f} ms of CPU in a new process, {taken[0]:.0f} ms without its cache",
    )
