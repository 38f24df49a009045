"""What every `Store` promises, as tests that any backend can run.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def open_store(self, tmp_path: Path) -> OpenStore:
            return lambda: MyStore(tmp_path)

Owns the claims of `acp_bridge.session.Store` that can be seen through it. What a crash leaves cannot: a backend that
writes to a disk needs crash tests of its own. Async tests run under anyio's pytest plugin, which comes with anyio.
They mark themselves.
"""

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import anyio
import pytest

from acp_bridge.errors import SessionInUse, SessionNotFound, StoreCorrupt, StoreError, StorePoisoned
from acp_bridge.session import (
    Event,
    HeldSession,
    Record,
    SessionFilter,
    SessionSummary,
    SessionTitled,
    StepEnded,
    Store,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

from .samples import A_TURN, EVERY_EVENT, MALFORMED_IDS, PICTURE, PICTURE_BLOCK, PICTURE_NAME, header, records

OpenStore: TypeAlias = Callable[[], Store]
"""Opens the store; each call gives what another process would see of the same place."""

Failing: TypeAlias = Callable[[], AbstractContextManager[None]]
"""While the context is open, nothing can be written."""

Damaging: TypeAlias = Callable[[str], None]
"""Damages the second record of a session that nobody holds, below what is known durable."""


@asynccontextmanager
async def held(store: Store, session_id: str) -> AsyncGenerator[HeldSession]:
    """Hold a session for the time of the context."""
    session = await store.hold(session_id)
    try:
        yield session
    finally:
        await session.close()


async def make_session(
    store: Store, session_id: str = "s1", events: Sequence[Event] = A_TURN, **members: object
) -> None:
    """Make a session of `events` and let it go."""
    start = replace(header(session_id), **members)
    await (await store.create(start, records(events, since=start.created))).close()


async def read_records(store: Store, session_id: str = "s1") -> tuple[Record, ...]:
    """Return what the store holds of a session."""
    return (await store.read(session_id)).records


async def list_summaries(store: Store, **criteria: object) -> list[SessionSummary]:
    """Return the first page's sessions."""
    return list((await store.list(SessionFilter(**criteria))).sessions)  # pyright: ignore[reportArgumentType]


class StoreContract:
    """The claims. Give `open_store`; give `failing` and `damaging` too if the backend can be made to fail or lie."""

    pytestmark = pytest.mark.anyio  # so that it runs in projects whose anyio plugin takes marked tests alone

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """Override: how to open the store."""
        raise NotImplementedError

    @pytest.fixture
    def failing(self) -> Failing | None:
        """Override where the backend can be made to fail."""
        return None

    @pytest.fixture
    def damaging(self) -> Damaging | None:
        """Override where what the backend keeps can be damaged."""
        return None

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """The store, opened once."""
        return open_store()

    # Making, holding, reading.

    async def test_what_was_created_is_there_for_another_process(self, open_store: OpenStore) -> None:
        await make_session(open_store())
        loaded = await open_store().read("s1")
        assert (loaded.header, list(loaded.records)) == (header(), records(A_TURN, since=1_000))
        assert (loaded.dropped_bytes, loaded.may_not_last) == (0, False)

    async def test_an_id_is_given_once(self, store: Store) -> None:
        await make_session(store)
        with pytest.raises(StoreError):
            await store.create(header(), [])
        assert len(await read_records(store)) == 2

    async def test_every_event_comes_back_as_it_was(self, open_store: OpenStore) -> None:
        session = await open_store().create(header(), [])
        written = records(EVERY_EVENT)
        await session.append(written[:5])
        await session.append(written[5:])
        await session.close()
        async with held(open_store(), "s1") as again:
            assert list(again.loaded.records) == written

    async def test_a_synthetic_record_stays_one(self, store: Store) -> None:
        session = await store.create(header(), records(A_TURN))
        await session.repair([Record(2, 9, StepEnded(turn=1, step=1), synthetic=True)])
        await session.close()
        assert (await read_records(store))[-1].synthetic

    async def test_what_is_loaded_is_what_was_there_at_the_hold(self, store: Store) -> None:
        session = await store.create(header(), records(A_TURN))
        await session.append(records([TurnStarted(turn=2)], first=2))
        assert len(session.loaded.records) == 2
        await session.close()

    async def test_reading_from_a_seq_leaves_out_what_is_before(self, store: Store) -> None:
        await make_session(store)
        assert [r.seq for r in (await store.read("s1", from_seq=1)).records] == [1]
        assert (await store.read("s1", from_seq=9)).records == ()

    @pytest.mark.parametrize("limit", [1, 2, 5, 99])
    async def test_a_log_is_read_whole_in_pieces_of_the_size_asked_for(self, store: Store, limit: int) -> None:
        await make_session(store, events=EVERY_EVENT)
        pieces: list[tuple[Record, ...]] = []
        seq, more = 0, True
        while more:
            loaded = await store.read("s1", from_seq=seq, limit=limit)
            pieces.append(loaded.records)
            seq, more = loaded.next_seq, loaded.has_more
        assert [record for piece in pieces for record in piece] == list(await read_records(store))
        assert all(len(piece) == limit for piece in pieces[:-1])
        assert 0 < len(pieces[-1]) <= limit
        assert seq == len(EVERY_EVENT)

    async def test_a_header_can_be_read_alone(self, store: Store) -> None:
        await make_session(store)
        alone = await store.read("s1", limit=0)
        assert (alone.header, alone.records, alone.next_seq, alone.has_more) == (header(), (), 0, True)

    @pytest.mark.parametrize("session_id", [*MALFORMED_IDS, "unknown"], ids=lambda name: ascii(name[:20]))
    async def test_an_id_that_no_session_has_is_not_found(self, store: Store, session_id: str) -> None:
        await make_session(store)
        for attempt in (
            lambda: store.hold(session_id),
            lambda: store.read(session_id),
            lambda: store.fork(session_id, header("s2"), through=1),
            lambda: store.verify(session_id),
            lambda: store.salvage(session_id),
        ):
            with pytest.raises(SessionNotFound):
                await attempt()
        await store.delete(session_id)
        if session_id != "unknown":
            with pytest.raises(SessionNotFound):
                await store.create(header(session_id), [])
        assert [line.session_id for line in await list_summaries(store)] == ["s1"]

    # Appending.

    async def test_an_append_tells_its_bytes_and_an_empty_one_none(self, store: Store) -> None:
        session = await store.create(header(), [])
        assert await session.append(records(A_TURN)) > 0
        assert await session.append([]) == 0
        await session.close()

    async def test_records_with_a_gap_are_refused_and_change_nothing(self, store: Store) -> None:
        session = await store.create(header(), records(A_TURN))
        for first in (1, 3):
            with pytest.raises(ValueError, match="cannot follow"):
                await session.append(records([TurnStarted(turn=2)], first=first))
        await session.append(records([TurnStarted(turn=2)], first=2))
        await session.close()
        assert [r.seq for r in await read_records(store)] == [0, 1, 2]

    async def test_what_no_json_carries_is_refused_and_does_not_poison(self, store: Store) -> None:
        session = await store.create(header(), [])
        with pytest.raises(ValueError, match="JSON"):
            await session.append(records([SessionTitled(title="\ud800")]))
        await session.append(records([SessionTitled(title="fine")]))
        await session.close()
        assert len(await read_records(store)) == 1

    async def test_a_large_record_comes_back_whole(self, store: Store) -> None:
        session = await store.create(header(), [])
        [record] = records([SessionTitled(title="é" * 1_500_000)])
        await session.append([record])
        await session.close()
        assert await read_records(store) == (record,)

    async def test_a_cancelled_append_runs_to_its_end(self, store: Store) -> None:
        session = await store.create(header(), [])
        with anyio.CancelScope() as scope:
            scope.cancel()
            await session.append(records(A_TURN))
        with anyio.fail_after(5):
            await session.append(records([TurnStarted(turn=2)], first=2))
        await session.close()
        assert len(await read_records(store)) == 3

    # One writer.

    async def test_a_session_is_held_once(self, open_store: OpenStore) -> None:
        session = await open_store().create(header(), records(A_TURN))
        with pytest.raises(SessionInUse) as refused:
            await open_store().hold("s1")
        assert refused.value.holder
        await session.close()
        async with held(open_store(), "s1") as again:
            assert len(again.loaded.records) == 2

    async def test_a_held_session_can_be_read(self, open_store: OpenStore) -> None:
        session = await open_store().create(header(), records(A_TURN))
        assert len(await read_records(open_store())) == 2
        await session.close()

    async def test_closing_twice_does_nothing_and_a_closed_session_takes_nothing(self, store: Store) -> None:
        session = await store.create(header(), [])
        await session.close()
        await session.close()
        with pytest.raises(StoreError):
            await session.append(records(A_TURN))
        with pytest.raises(StoreError):
            await session.put_content(PICTURE)
        with pytest.raises(StoreError):
            await session.confirm()
        assert await read_records(store) == ()

    async def test_a_hold_is_confirmed_as_long_as_it_is_one(self, store: Store) -> None:
        session = await store.create(header(), records(A_TURN))
        await session.confirm()
        await session.append(records([TurnStarted(turn=2)], first=2))
        await session.confirm()
        await store.delete("s1")
        with pytest.raises(StoreError):
            await session.confirm()
        await session.close()

    # Repair and salvage.

    async def test_a_repair_appends_its_closers_and_an_empty_one_nothing(self, open_store: OpenStore) -> None:
        await make_session(open_store(), events=A_TURN[:1])
        async with held(open_store(), "s1") as session:
            await session.repair(records(A_TURN[1:], first=1))
            await session.repair([])
            await session.append(records([TurnStarted(turn=2)], first=2))
        assert [r.event for r in await read_records(open_store())] == [*A_TURN, TurnStarted(turn=2)]

    async def test_a_salvage_of_a_healthy_session_appends_what_is_missing(self, store: Store) -> None:
        session = await store.create(header(), records(A_TURN))
        await session.salvage(records([*A_TURN, TurnStarted(turn=2)]))
        await session.salvage([])
        await session.close()
        assert [r.seq for r in await read_records(store)] == [0, 1, 2]

    async def test_a_failed_write_poisons_until_a_salvage_succeeds(
        self, open_store: OpenStore, failing: Failing | None
    ) -> None:
        if failing is None:
            pytest.skip("this backend cannot be made to fail")
        session = await open_store().create(header(), records(A_TURN))
        unsaved = records([TurnStarted(turn=2)], first=2)
        with failing():
            with pytest.raises(StorePoisoned):
                await session.append(unsaved)
            with pytest.raises(StorePoisoned):
                await session.salvage(unsaved)
            with pytest.raises(StoreError):
                await open_store().create(header("s2"), [])
        with pytest.raises(StorePoisoned):
            await session.append(unsaved)
        await session.salvage(unsaved)
        await session.append(records([TurnEnded(turn=2, reason="completed")], first=3))
        await session.close()
        assert [r.seq for r in await read_records(open_store())] == [0, 1, 2, 3]
        assert [line.session_id for line in await list_summaries(open_store(), with_empty=True)] == ["s1"]

    async def test_a_content_file_that_fails_does_not_poison(
        self, open_store: OpenStore, failing: Failing | None
    ) -> None:
        if failing is None:
            pytest.skip("this backend cannot be made to fail")
        session = await open_store().create(header(), [])
        with failing(), pytest.raises(StoreError):
            await session.put_content(PICTURE)
        await session.append(records(A_TURN))
        assert await session.put_content(PICTURE) == PICTURE_NAME
        await session.close()

    # Verifying, and going round damage.

    async def test_a_sound_session_verifies_whether_it_is_held_or_not(self, open_store: OpenStore) -> None:
        session = await open_store().create(header(), records(A_TURN))
        while_held = await open_store().verify("s1")
        await session.close()
        found = await open_store().verify("s1")
        assert while_held == found
        assert (found.session_id, found.records, found.damage, found.dropped_bytes) == ("s1", 2, None, 0)
        assert found.size == found.durable > 0

    async def test_a_sound_session_is_not_salvaged(self, open_store: OpenStore) -> None:
        session = await open_store().create(header(), records(A_TURN))
        with pytest.raises(SessionInUse):
            await open_store().salvage("s1")
        await session.close()
        found = await open_store().salvage("s1")
        assert (found.records, found.damage, found.kept_file) == (2, None, "")
        assert len(await read_records(open_store())) == 2

    async def test_damage_is_refused_found_and_gone_round(
        self, open_store: OpenStore, damaging: Damaging | None
    ) -> None:
        if damaging is None:
            pytest.skip("what this backend keeps cannot be damaged")
        await make_session(open_store(), events=[*A_TURN, TurnStarted(turn=2)])
        damaging("s1")
        for attempt in (open_store().hold("s1"), open_store().read("s1")):
            with pytest.raises(StoreCorrupt):
                await attempt
        found = await open_store().verify("s1")
        assert found.damage is not None
        assert (found.records, found.dropped_bytes, found.kept_file) == (1, 0, "")
        salvaged = await open_store().salvage("s1")
        assert (salvaged.damage, salvaged.records, salvaged.kept_file != "") == (found.damage, 1, True)
        async with held(open_store(), "s1") as session:
            first, last = session.loaded.records
        assert (first.event, last.synthetic, last.event.type) == (A_TURN[0], True, "session/salvaged")
        assert (await open_store().verify("s1")).damage is None

    # Content.

    async def test_content_comes_back_by_its_digest_in_another_process(self, open_store: OpenStore) -> None:
        session = await open_store().create(header(), [])
        assert await session.put_content(PICTURE) == PICTURE_NAME
        assert await session.put_content(PICTURE) == PICTURE_NAME
        assert await session.get_content(PICTURE_NAME) == PICTURE
        await session.close()
        async with held(open_store(), "s1") as again:
            assert await again.get_content(PICTURE_NAME) == PICTURE

    @pytest.mark.parametrize("name", ["0" * 64, "", "..", "log.jsonl", "../s2/log.jsonl"])
    async def test_content_that_is_not_there_is_lost(self, store: Store, name: str) -> None:
        session = await store.create(header(), records(A_TURN))
        assert await session.get_content(name) is None
        await session.close()

    # Forking and deleting.

    async def test_a_fork_has_the_records_and_the_content_of_its_prefix(self, open_store: OpenStore) -> None:
        session = await open_store().create(header(), [])
        await session.put_content(PICTURE)
        asked = UserMessage(id="m1", content=(PICTURE_BLOCK,), source="user")
        await session.append(records([A_TURN[0], asked, A_TURN[1], TurnStarted(turn=2)]))
        start = replace(header("s2", created=5_000), forked_from="s1")
        await open_store().fork("s1", start, through=2)
        await session.close()
        async with held(open_store(), "s2") as forked:
            assert forked.loaded.header == start
            assert forked.loaded.records == (await read_records(open_store()))[:3]
            assert await forked.get_content(PICTURE_NAME) == PICTURE
            await forked.append(records([TurnStarted(turn=2)], first=3, since=9_000))
        await open_store().delete("s1")
        assert len(await read_records(open_store(), "s2")) == 4

    @pytest.mark.parametrize("through", [-1, 0, 2, 9])
    async def test_a_fork_begins_at_a_turns_end_or_not_at_all(self, store: Store, through: int) -> None:
        await make_session(store, events=[*A_TURN, TurnStarted(turn=2)])
        with pytest.raises(StoreError):
            await store.fork("s1", header("s2"), through=through)
        assert [line.session_id for line in await list_summaries(store, with_empty=True)] == ["s1"]

    async def test_what_was_deleted_is_gone(self, open_store: OpenStore) -> None:
        await make_session(open_store())
        await open_store().delete("s1")
        await open_store().delete("s1")
        with pytest.raises(SessionNotFound):
            await open_store().hold("s1")
        assert await list_summaries(open_store(), with_empty=True) == []

    async def test_deleting_closes_a_session_that_this_store_holds(self, store: Store) -> None:
        session = await store.create(header(), records(A_TURN))
        await store.delete("s1")
        with pytest.raises(StoreError):
            await session.append(records([TurnStarted(turn=2)], first=2))
        await session.close()
        with pytest.raises(SessionNotFound):
            await store.read("s1")

    async def test_a_sweep_leaves_alone_what_is_young_or_has_a_turn(self, open_store: OpenStore) -> None:
        await make_session(open_store(), "old")
        await make_session(open_store(), "young", events=(), created=time.time_ns() // 1_000_000)
        assert await open_store().sweep() == 0
        assert len(await list_summaries(open_store(), with_empty=True)) == 2

    # Listing.

    async def test_a_listing_says_what_the_log_says(self, store: Store) -> None:
        events = [SessionTitled(title="old"), *A_TURN, SessionTitled(title="new"), TurnStarted(turn=2)]
        await make_session(store, events=events)
        [line] = await list_summaries(store)
        assert line.size > 0
        assert replace(line, size=1) == SessionSummary(
            session_id="s1",
            cwd="/w",
            roots=("/w",),
            title="new",
            created=1_000,
            updated=1_004,
            turns=2,
            state="interrupted",
            size=1,
        )

    async def test_a_listing_follows_what_is_appended(self, store: Store) -> None:
        session = await store.create(header(), records(A_TURN))
        assert [(line.state, line.title) for line in await list_summaries(store)] == [("open", "")]
        await session.append(records([SessionTitled(title="named")], first=2))
        await session.close()
        assert [(line.state, line.title) for line in await list_summaries(store)] == [("idle", "named")]

    async def test_a_session_without_a_turn_is_listed_while_it_is_open_or_asked_for(self, store: Store) -> None:
        session = await store.create(header(), [])
        assert [line.session_id for line in await list_summaries(store)] == ["s1"]
        await session.close()
        assert await list_summaries(store) == []
        assert [line.session_id for line in await list_summaries(store, with_empty=True)] == ["s1"]

    async def test_each_session_is_on_exactly_one_page_newest_first(self, store: Store) -> None:
        for number, created in enumerate([5_000, 3_000, 3_000, 9_000, 1_000, 3_000, 7_000]):
            await make_session(store, f"s{number}", created=created)
        seen: list[str] = []
        cursor = None
        sizes: list[int] = []
        while True:
            page = await store.list(SessionFilter(), cursor=cursor, limit=3)
            seen += [line.session_id for line in page.sessions]
            sizes.append(len(page.sessions))
            cursor = page.cursor
            if cursor is None:
                break
        assert (seen[:3], seen[6:], sizes) == (["s3", "s6", "s0"], ["s4"], [3, 3, 1])
        assert sorted(seen) == [f"s{number}" for number in range(7)]

    @pytest.mark.parametrize("cursor", ["", "x", "bm90IG91cnM=", "WzEsMl0=", "W3RydWUsImEiXQ==", "é", "A" * 10_000])
    async def test_a_cursor_that_is_not_ours_is_a_value_error(self, store: Store, cursor: str) -> None:
        await make_session(store)
        with pytest.raises(ValueError, match="cursor"):
            await store.list(SessionFilter(), cursor=cursor)

    async def test_a_listing_by_folder_knows_the_folder_by_any_of_its_names(self, store: Store, tmp_path: Path) -> None:
        real, alias = tmp_path / "Real", tmp_path / "alias"
        real.mkdir()
        alias.symlink_to(real)
        await make_session(store, "s1", cwd=str(real))
        await make_session(store, "s2", cwd=str(alias))
        await make_session(store, "s3", cwd=str(tmp_path))
        await make_session(store, "s4", cwd="/Not/There")
        for cwd in (str(real), str(alias), f"{alias}/", f"{tmp_path}/x/../Real"):
            assert sorted(line.session_id for line in await list_summaries(store, cwd=cwd)) == ["s1", "s2"]
        assert [line.session_id for line in await list_summaries(store, cwd="/Not/There")] == ["s4"]

    async def test_an_empty_store_lists_nothing(self, store: Store) -> None:
        page = await store.list(SessionFilter())
        assert (page.sessions, page.cursor, page.damaged) == ((), None, ())
