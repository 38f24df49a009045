"""The journal: joins streamed text, writes in groups, fails closed, and lets nobody down who waits."""

from typing import Any

import anyio
import pytest
from support.strategies import HEADER
from support.world import CountingStore

from acp_bridge.content import Text
from acp_bridge.errors import IllegalEvent, StoreError, StorePoisoned, StoreReplaced
from acp_bridge.session import (
    AssistantMessage,
    Journal,
    Log,
    Record,
    SessionConfigured,
    SessionTitled,
    StepStarted,
    TurnStarted,
)


class Teller:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def recorded(self, record: Record) -> None:
        self.told.append(record.event)

    def streamed(self, message_id: str, kind: Any, text: str) -> None:
        self.told.append(text)

    def durable(self, seq: int) -> None:
        self.told.append(seq)


class Grumbler(Teller):
    def recorded(self, record: Record) -> None:
        raise ValueError("no")

    streamed = durable = recorded  # pyright: ignore


async def journal_on(store: CountingStore) -> Journal:
    journal = Journal(Log(HEADER, clock=lambda: 1), await store.create(HEADER, ()))
    for event in (TurnStarted(turn=1), StepStarted(turn=1, step=1)):
        journal.append(event)
    return journal


def message(text: str, **more: Any) -> AssistantMessage:
    return AssistantMessage(turn=1, step=1, id="m", content=(Text(text=text),), **more)


def types(journal: Journal) -> list[str]:
    return [record.event.type for record in journal.log.records]


async def test_streamed_text_is_one_event_until_something_else_happens() -> None:
    journal = await journal_on(CountingStore())
    for kind, text in (("text", "a"), ("text", "b"), ("thought", "c"), ("text", "d")):
        journal.stream(1, 1, "m", kind, text)  # pyright: ignore[reportArgumentType]
    assert journal.last_seq == 4
    assert [getattr(record.event, "text", "") for record in journal.log.records[2:]] == ["ab", "c", "d"]


async def test_much_streamed_text_is_sealed_in_pieces_and_none_is_lost() -> None:
    journal = await journal_on(CountingStore())
    for _ in range(10):
        journal.stream(1, 1, "m", "text", "x" * 9_000)
    assert journal.last_seq == 4
    assert sum(len(getattr(record.event, "text", "")) for record in journal.log.records) == 90_000


async def test_a_message_takes_the_place_of_the_text_that_still_waits() -> None:
    journal = await journal_on(CountingStore())
    journal.stream(1, 1, "m", "text", "hello")
    assert journal.append(message("hello")).seq == 2
    assert types(journal) == ["turn/start", "step/start", "assistant/message"]


async def test_a_refused_message_leaves_the_text_that_still_waits() -> None:
    journal = await journal_on(CountingStore())
    journal.stream(1, 1, "m", "text", "hello")
    with pytest.raises(IllegalEvent):
        journal.append(AssistantMessage(turn=1, step=9, id="m", content=()))
    assert journal.last_seq == 2
    assert types(journal) == ["turn/start", "step/start", "assistant/delta"]


async def test_another_messages_text_is_not_taken_for_the_messages_own() -> None:
    journal = await journal_on(CountingStore())
    journal.stream(1, 1, "m0", "text", "hello")
    journal.append(message("other"))
    assert types(journal) == ["turn/start", "step/start", "assistant/delta", "assistant/message"]


async def test_an_observer_that_raises_changes_nothing_and_hides_nothing_from_the_others() -> None:
    journal = await journal_on(CountingStore())
    teller = Teller()
    journal.observe(Grumbler())
    undo = journal.observe(teller)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.run)
            journal.stream(1, 1, "m", "text", "hi")
            event = SessionTitled(title="t")
            journal.append(event)
            await journal.flush(journal.last_seq)
            assert teller.told == ["hi", event, 3]
            undo()
            journal.append(event)
            assert teller.told == ["hi", event, 3]
            tasks.cancel_scope.cancel()


async def test_waiters_that_fall_due_together_share_one_write() -> None:
    store = CountingStore()
    journal = await journal_on(store)

    async def wait(n: int) -> None:
        journal.append(SessionTitled(title=str(n)))
        await journal.flush(journal.last_seq)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.run)
            async with anyio.create_task_group() as waiters:
                for n in range(10):
                    waiters.start_soon(wait, n)
            assert len(store.writes) == 1
            tasks.cancel_scope.cancel()


async def test_whoever_waits_is_told_when_nobody_writes_any_more() -> None:
    store = CountingStore()
    journal = await journal_on(store)
    store.door.shut()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                with pytest.raises(StorePoisoned, match="closed"):
                    await journal.flush(journal.last_seq)

            async with anyio.create_task_group() as writer:
                writer.start_soon(journal.run)
                await anyio.wait_all_tasks_blocked()
                writer.cancel_scope.cancel()
            tasks.start_soon(wait)
        store.door.open()
        await journal.close()
    assert [record.event.type for batch in store.writes for record in batch] == ["turn/start", "step/start"]


async def test_a_write_under_way_outlives_the_end_of_its_writer() -> None:
    store = CountingStore()
    journal = await journal_on(store)
    store.door.shut()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as writer:
            writer.start_soon(journal.run)
            writer.start_soon(journal.flush, journal.last_seq)
            await store.door.reached.wait()
            writer.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
            assert journal.durable_seq == -1
            store.door.open()
        assert journal.durable_seq == 1


async def test_events_that_come_while_a_write_fails_are_all_salvaged_in_order() -> None:
    store = CountingStore()
    journal = await journal_on(store)
    store.memory.failing = True
    store.door.shut()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.run)

            async def wait() -> None:
                with pytest.raises(StorePoisoned):
                    await journal.flush(journal.last_seq)

            async with anyio.create_task_group() as waiters:
                waiters.start_soon(wait)
                await store.door.reached.wait()
                journal.append(SessionTitled(title="meanwhile"))
                store.door.open()
            with pytest.raises(StorePoisoned):
                await journal.salvage()
            store.memory.failing = False
            journal.stream(1, 1, "m", "text", "and this")
            await journal.salvage()
            assert journal.failure is None
            await journal.flush(journal.last_seq)
            tasks.cancel_scope.cancel()
        await journal.close()
        await journal.close()
    saved = (await store.read("s1")).records
    assert list(saved) == journal.log.records


async def test_an_event_is_encoded_once_and_its_bytes_go_with_the_write() -> None:
    store = CountingStore()
    journal = await journal_on(store)
    await journal.close()
    [batch] = store.writes
    assert [record.encoded for record in batch] == [b'{"turn":1}', b'{"turn":1,"step":1}']
    for records in (journal.log.records, (await store.read("s1")).records):
        assert [record.encoded for record in records] == [b"", b""]


@pytest.mark.parametrize("fails_first", [False, True])
async def test_only_the_first_write_of_a_taken_session_is_a_repair(fails_first: bool) -> None:
    store = CountingStore()
    journal = Journal(Log(HEADER, clock=lambda: 1), await store.create(HEADER, ()), repair=True)
    journal.append(TurnStarted(turn=1))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.run)
            if fails_first:
                store.memory.failing = True
                with pytest.raises(StorePoisoned):
                    await journal.flush(journal.last_seq)
                store.memory.failing = False
                await journal.salvage()
            await journal.flush(journal.last_seq)
            journal.append(StepStarted(turn=1, step=1))
            assert await journal.flush(journal.last_seq) > 0  # what an append costs is measured
            tasks.cancel_scope.cancel()


async def test_a_salvage_stores_what_its_records_need_before_them() -> None:
    store = CountingStore()
    journal = await journal_on(store)
    store.memory.failing = True
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.run)
            with pytest.raises(StorePoisoned):
                await journal.flush(journal.last_seq)
            store.memory.failing = False
            name = journal.attach(b"picture")
            journal.append(SessionTitled(title=name))
            await journal.salvage()
            assert await journal.held.get_content(name) == b"picture"
            tasks.cancel_scope.cancel()


async def test_a_full_disk_is_tried_once_more_at_the_close() -> None:
    store = CountingStore()
    journal = await journal_on(store)
    store.memory.failing = True
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.run)
            with pytest.raises(StorePoisoned):
                await journal.flush(journal.last_seq)
            tasks.cancel_scope.cancel()
        store.memory.failing = False
        await journal.close()
    assert list((await store.read("s1")).records) == journal.log.records


async def test_a_store_that_breaks_inside_is_a_failed_store_and_no_end_of_the_writer() -> None:
    store = CountingStore()
    journal = await journal_on(store)

    async def broken() -> None:
        raise ValueError("a record holds what JSON cannot carry")

    store.door.pass_through = broken
    told: list[object] = []
    journal.on_failure(told.append)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.run)
            with pytest.raises(StorePoisoned):
                await journal.flush(journal.last_seq)
            tasks.cancel_scope.cancel()
    assert told == [journal.failure]


@pytest.mark.parametrize("value", ["\ud800", 2**64, object(), {1: 2}])
async def test_an_event_that_json_cannot_carry_is_refused_and_the_session_goes_on(value: object) -> None:
    store = CountingStore()
    journal = await journal_on(store)
    teller = Teller()
    journal.observe(teller)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.run)
            with pytest.raises(IllegalEvent, match="session/config holds what JSON cannot carry"):
                journal.append(SessionConfigured(values={"key": value}))
            assert (types(journal), teller.told) == (["turn/start", "step/start"], [])
            journal.append(SessionTitled(title="next"))
            await journal.flush(journal.last_seq)
            tasks.cancel_scope.cancel()
    assert list((await store.read("s1")).records) == journal.log.records


async def test_a_salvage_by_a_store_that_breaks_inside_fails_as_a_store_does() -> None:
    store = CountingStore()
    journal = await journal_on(store)

    async def broken() -> None:
        raise ValueError("record 1 cannot follow record 1")

    store.memory.failing = True
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.run)
            with pytest.raises(StorePoisoned):
                await journal.flush(journal.last_seq)
            store.on_salvage = broken
            with pytest.raises(StorePoisoned, match="failed inside"):
                await journal.salvage()
            assert journal.failure is not None
            tasks.cancel_scope.cancel()
        with pytest.raises(StoreError, match="failed inside"):
            await journal.close()


async def test_content_that_breaks_inside_the_store_is_no_end_of_the_writer() -> None:
    store = CountingStore()
    journal = await journal_on(store)

    async def broken(data: bytes) -> str:
        raise ValueError("no")

    journal.attach(b"picture")
    kept, journal.held.put_content = journal.held.put_content, broken
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.run)
            with pytest.raises(StoreError, match="failed inside"):
                await journal.flush(journal.last_seq)
            journal.held.put_content = kept
            await journal.flush(journal.last_seq)
            tasks.cancel_scope.cancel()


async def test_a_picture_for_a_log_that_is_gone_does_not_keep_its_records_from_being_kept_elsewhere() -> None:
    journal = await journal_on(CountingStore())
    asked: list[str] = []

    async def put(data: bytes) -> str:
        asked.append("put")
        raise StoreReplaced("the log was changed by somebody else")

    async def append(records: Any) -> int:
        asked.append("append")
        raise StoreReplaced("the log was changed by somebody else; what was not saved is in /elsewhere")

    journal.attach(b"picture")
    journal.held.put_content, journal.held.append = put, append
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.run)
            with pytest.raises(StorePoisoned, match="is in /elsewhere"):
                await journal.flush(journal.last_seq)
            tasks.cancel_scope.cancel()
    assert asked == ["put", "append"]


async def test_a_close_that_leaves_content_unsaved_says_so() -> None:
    store = CountingStore()
    journal = await journal_on(store)
    journal.attach(b"picture")
    store.memory.failing = True
    with anyio.fail_after(5):
        with pytest.raises(StoreError, match="no content file can be written"):
            await journal.close()
        await journal.close()
    assert (await store.hold("s1")).loaded.records == ()


async def test_streamed_text_that_no_log_can_hold_is_mended() -> None:
    journal = await journal_on(CountingStore())
    journal.stream(1, 1, "m", "text", "half a pair \ud83d")
    with anyio.fail_after(5):
        await journal.close()
    assert getattr(journal.log.records[-1].event, "text", "") == "half a pair \ufffd"
