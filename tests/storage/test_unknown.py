"""Logs that a later version wrote something into, and folders that hold more than storage put there."""

from pathlib import Path

import anyio
import orjson
from support.words import TURN, header, records, store_in

from acp_bridge.session import Place, Sessions, SessionTitled
from acp_bridge.storage.format import Seal, parse_first_line, seal_all


async def test_a_log_that_ends_in_an_ignorable_record_goes_on_behind_it(tmp_path: Path) -> None:
    store = store_in(tmp_path / "sessions")
    held = await store.create(header(), records(TURN))
    session_id = held.loaded.header.session_id
    await held.close()
    path = tmp_path / "sessions" / session_id / "log.jsonl"
    whole = path.read_bytes()
    gen = parse_first_line(whole.split(b"\n")[0], session_id, str(path)).gen
    body = orjson.dumps({"type": "later/thing", "seq": len(TURN), "time": 1, "data": {}, "ignorable": True})[:-1]
    path.write_bytes(whole + b"".join(seal_all(Seal(session_id, gen), [body], len(whole), len(whole))))

    sessions = Sessions(store, version="1")
    journal, _ = await sessions.take(session_id, Place(cwd="/", roots=("/",)), barriers=())
    journal.append(SessionTitled(title="goes on"))
    await sessions.close(session_id)
    seqs = [orjson.loads(line)["seq"] for line in path.read_bytes().splitlines()[1:]]
    assert seqs == list(range(len(seqs)))
    assert [record.seq for record in (await store.read(session_id)).records][-2:] == seqs[-2:]


async def test_a_deleted_session_takes_its_spilled_outputs_along(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    store = store_in(root)
    held = await store.create(header(), records(TURN))
    session_id = held.loaded.header.session_id
    await held.close()
    spill = root / session_id / "spill" / "deeper"
    spill.mkdir(parents=True)
    (spill / "call_1_1_1.txt").write_text("secret")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept.txt").write_text("kept")
    (root / session_id / "spill" / "link").symlink_to(tmp_path / "elsewhere")
    await store.delete(session_id)
    with anyio.fail_after(5):
        while any(path.is_dir() for path in root.iterdir()):  # noqa: ASYNC110  the removal itself is in the background
            await anyio.sleep(0.01)
    assert (tmp_path / "elsewhere" / "kept.txt").read_text() == "kept"
