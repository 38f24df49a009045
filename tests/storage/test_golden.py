"""Every log format ever shipped loads, and today's writer makes the same bytes of the same records.

`python tests/storage/test_golden.py` writes the sessions of today's format anew; a change of them is a change of the
format, so it needs a new version and a new folder.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from acp_bridge.session import AssistantDelta, Event, Header, Record, StepStarted, TurnEnded, TurnStarted
from acp_bridge.storage import JsonlStore
from acp_bridge.testing.samples import EVERY_EVENT

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"
GEN = "0123456789abcdef"
PICTURE = b"\x89PNG picture"

_CLOSED: tuple[Event, ...] = (TurnStarted(turn=1), TurnEnded(turn=1, reason="completed"))
_OPEN: tuple[Event, ...] = (
    TurnStarted(turn=1),
    StepStarted(turn=1, step=1),
    AssistantDelta(turn=1, step=1, message_id="a1", kind="text", text="Let me"),
)

SESSIONS: dict[str, Sequence[Sequence[Event]]] = {
    "every-event": (EVERY_EVENT[:4], EVERY_EVENT[4:11], EVERY_EVENT[11:]),
    "interrupted": (_OPEN[:2], _OPEN[2:]),
    "empty": ((),),
    "closed": (_CLOSED,),
}
"""By id, the batches in which the records were written; the first with the session's making."""


def golden_header(session_id: str) -> Header:
    forked = "closed" if session_id == "interrupted" else None
    return Header(
        session_id=session_id,
        created=1_700_000_000_000,
        version="0.1.0",
        cwd="/home/u/é",
        roots=("/home/u/é", "/x"),
        forked_from=forked,
    )


def golden_records(session_id: str) -> list[list[Record]]:
    batches: list[list[Record]] = []
    seq = 0
    for events in SESSIONS[session_id]:
        batches.append(
            [Record(n, 1_700_000_001_000 + n, event, synthetic=n == 22) for n, event in enumerate(events, seq)]
        )
        seq += len(events)
    return batches


async def write_all(root: Path) -> None:
    store = JsonlStore(root, make_gen=lambda: GEN)
    for session_id in SESSIONS:
        first, *rest = golden_records(session_id)
        session = await store.create(golden_header(session_id), first)
        if session_id == "every-event":
            await session.put_content(PICTURE)
        for batch in rest:
            await session.append(batch)
        await session.close()


@pytest.mark.parametrize("session_id", SESSIONS)
@pytest.mark.parametrize("version", ["v1"])
async def test_a_log_of_each_format_loads_and_can_be_gone_on_with(
    tmp_path: Path, version: str, session_id: str
) -> None:
    root = tmp_path / "sessions"
    shutil.copytree(LOGS / version, root)
    root.chmod(0o700)
    session = await JsonlStore(root).hold(session_id)
    written = [record for batch in golden_records(session_id) for record in batch]
    assert (session.loaded.header, list(session.loaded.records)) == (golden_header(session_id), written)
    assert (session.loaded.dropped_bytes, session.loaded.may_not_last) == (0, False)
    await session.append([Record(len(written), 1, TurnStarted(turn=9))])
    await session.close()
    assert len((await JsonlStore(root).read(session_id)).records) == len(written) + 1


async def test_todays_writer_makes_the_same_bytes(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    await write_all(root)
    made = {path.relative_to(root): path.read_bytes() for path in root.rglob("*/*")}
    golden = {path.relative_to(LOGS / "v1"): path.read_bytes() for path in (LOGS / "v1").rglob("*/*")}
    assert made == golden


if __name__ == "__main__":
    anyio.run(write_all, LOGS / "v1")
    for lock in (LOGS / "v1").glob("*.lock"):
        lock.unlink()
