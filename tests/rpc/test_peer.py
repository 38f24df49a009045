"""The peer over a wire in memory: ids, scopes, order, and exactly one answer for each request."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import orjson
import pytest

from acp_bridge.rpc import (
    Admitted,
    Disconnected,
    Failure,
    Handler,
    LineTooLong,
    MemoryWire,
    Notification,
    Peer,
    Request,
    RpcError,
    Success,
    encode,
)


class Client:
    """The other end, which sees every line."""

    def __init__(self, wire: MemoryWire) -> None:
        self.wire = wire

    def send(self, *messages: Request | Notification | Success | Failure) -> None:
        self.wire.send(b"".join(map(encode, messages)))  # in one block, as in one write

    async def next(self) -> dict[str, Any]:
        line = await self.wire.receive()
        return orjson.loads(line)

    async def quiet(self) -> bool:
        """Whether nothing is on its way, now that all tasks wait."""
        await anyio.wait_all_tasks_blocked()
        return self.wire._incoming.pending == 0


@asynccontextmanager
async def serving(
    admit: Callable[[Request], Handler | Admitted],
    notify: Callable[[Notification], None] = lambda notification: None,
    gate: Callable[[Request | Notification], Awaitable[None]] | None = None,
) -> AsyncGenerator[tuple[Peer, Client]]:
    ours, theirs = MemoryWire.pair()
    with anyio.fail_after(5):
        async with Peer(ours, admit=admit, notify=notify, gate=gate) as peer, anyio.create_task_group() as tg:
            tg.start_soon(peer.serve)
            yield peer, Client(theirs)
            theirs.close()


def echo(request: Request) -> Handler:
    async def run() -> Any:
        return request.params

    return run


def forever(request: Request) -> Handler:
    return anyio.sleep_forever


def answers(result: Any) -> Callable[[Request], Handler]:
    async def run() -> Any:
        if isinstance(result, BaseException):
            raise result
        return result

    return lambda request: run


def success(request_id: int | str | None, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def failure(request_id: int | str | None, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


@pytest.mark.parametrize("request_id", [0, -1, 1, 2**53 + 1, "", "1", "é", None])
async def test_a_request_is_answered_with_its_id_and_its_type(request_id: int | str | None) -> None:
    async with serving(echo) as (_, client):
        client.send(Request(request_id, "m", {"a": 1}))
        assert await client.next() == success(request_id, {"a": 1})
        assert await client.quiet()


async def test_ids_of_different_types_run_side_by_side() -> None:
    async with serving(forever) as (peer, client):
        client.send(Request(1, "m", {}), Request("1", "m", {}), Request(None, "m", {}))
        assert await client.quiet()
        assert peer.running == 3


async def test_an_id_in_flight_is_refused_and_the_running_request_goes_on() -> None:
    go = anyio.Event()

    def admit(request: Request) -> Handler:
        async def run() -> Any:
            await go.wait()
            return request.params

        return run

    async with serving(admit) as (_, client):
        client.send(Request(1, "m", {"first": True}), Request(1, "m", {}))
        assert await client.next() == failure(1, -32600, "a request with this id is still running")
        go.set()
        assert await client.next() == success(1, {"first": True})
        client.send(Request(1, "m", {"again": True}))
        assert await client.next() == success(1, {"again": True})


async def test_an_admission_may_refuse() -> None:
    def admit(request: Request) -> Handler:
        raise RpcError(-32601, "no such method", {"method": request.method})

    async with serving(admit) as (peer, client):
        client.send(Request(1, "m", {}))
        answer = await client.next()
        assert answer["error"] == {"code": -32601, "message": "no such method", "data": {"method": "m"}}
        assert peer.running == 0


async def test_admissions_and_notifications_act_in_wire_order_before_any_task_begins() -> None:
    seen: list[str] = []

    def admit(request: Request) -> Handler:
        seen.append(f"admit {request.id}")

        async def run() -> None:
            seen.append(f"run {request.id}")

        return run

    async with serving(admit, lambda notification: seen.append(notification.method)) as (peer, client):
        client.send(Request(1, "m", {}), Notification("a", {}), Request(2, "m", {}), Notification("b", {}))
        await client.next()
        await client.next()
        await peer.idle()
    assert seen[:4] == ["admit 1", "a", "admit 2", "b"]
    assert sorted(seen[4:]) == ["run 1", "run 2"]


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (RpcError(-32002, "no such session"), failure(1, -32002, "no such session")),
        (ValueError("secret"), failure(1, -32603, "Internal error")),
        (ExceptionGroup("several", [ValueError("secret")]), failure(1, -32603, "Internal error")),
    ],
)
async def test_a_failing_handler_is_answered_and_the_connection_lives(
    error: Exception, answer: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(answers(error)) as (_, client):
        for _ in range(2):
            client.send(Request(1, "m", {}))
            assert await client.next() == answer
    assert ("Traceback" in caplog.text) is not isinstance(error, RpcError)


async def test_a_failing_admission_is_answered_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    def admit(request: Request) -> Handler:
        raise ValueError("secret")

    async with serving(admit) as (_, client):
        client.send(Request(1, "m", {}))
        assert await client.next() == failure(1, -32603, "Internal error")
    assert "Traceback" in caplog.text


async def test_a_failing_notification_is_logged_and_never_answered(caplog: pytest.LogCaptureFixture) -> None:
    def notify(notification: Notification) -> None:
        raise ValueError("secret")

    async with serving(echo, notify) as (_, client):
        client.send(Notification("n", {}), Request(1, "m", {}))
        assert await client.next() == success(1, {})
        assert await client.quiet()
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("result", ["\ud800", 2**64, {1, 2}, object()])
async def test_a_result_that_no_json_can_say_is_an_internal_error(result: Any) -> None:
    async with serving(answers(result)) as (_, client):
        client.send(Request(1, "m", {}))
        assert await client.next() == failure(1, -32603, "Internal error")


async def test_error_data_that_no_json_can_say_is_an_internal_error() -> None:
    async with serving(answers(RpcError(-1, "m", {1}))) as (_, client):
        client.send(Request(1, "m", {}))
        assert await client.next() == failure(1, -32603, "Internal error")


async def test_a_result_that_makes_too_long_a_line_is_an_error_that_says_so() -> None:
    async with serving(answers("x" * 9_000_000)) as (_, client):
        client.send(Request(1, "m", {}))
        answer = await client.next()
        assert answer["error"]["code"] == -32603
        assert "bytes" in answer["error"]["message"]


async def test_a_notification_that_cannot_be_sent_is_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(echo) as (peer, client):
        peer.send_notification("long", {"a": "x" * 9_000_000})
        peer.send_notification("odd", {"a": "\ud800"})
        peer.send_notification("good", {})
        peer.send_raw(b'{"raw":1}\n')
        assert (await client.next())["method"] == "good"
        assert await client.next() == {"raw": 1}
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2


async def test_what_a_handler_sends_goes_out_before_its_answer() -> None:
    def admit(request: Request) -> Handler:
        async def run() -> None:
            peer.send_notification("update", {"n": 1})
            peer.send_notification("update", {"n": 2})

        return run

    async with serving(admit) as (peer, client):
        client.send(Request(1, "m", {}))
        assert [(await client.next()).get("params") for _ in range(3)] == [{"n": 1}, {"n": 2}, None]


# --- cancellation ---


def cancel(request_id: Any) -> Notification:
    return Notification("$/cancel_request", {"requestId": request_id})


async def test_a_cancelled_request_is_answered_once_with_the_cancelled_code() -> None:
    async with serving(forever) as (peer, client):
        client.send(Request(1, "m", {}))
        await anyio.wait_all_tasks_blocked()
        client.send(cancel(1), cancel(1))
        assert await client.next() == failure(1, -32800, "Request cancelled")
        assert await client.quiet()
        assert peer.running == 0


async def test_a_cancel_in_the_same_write_as_its_request_is_heard() -> None:
    async with serving(forever) as (_, client):
        client.send(Request("a", "m", {}), cancel("a"))
        assert await client.next() == failure("a", -32800, "Request cancelled")


@pytest.mark.parametrize("other", [True, 1.0, "1", 2, None, [1], {"a": 1}])
async def test_a_cancel_of_another_id_is_ignored(other: Any) -> None:
    async with serving(forever) as (peer, client):
        client.send(Request(1, "m", {}), cancel(other), Notification("$/cancel_request", {}))
        assert await client.quiet()
        assert peer.running == 1


async def test_a_handler_that_returns_after_a_cancel_is_answered_with_its_value() -> None:
    def admit(request: Request) -> Handler:
        async def run() -> str:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            return "done"

        return run

    async with serving(admit) as (_, client):
        client.send(Request(1, "m", {}), cancel(1))
        assert await client.next() == success(1, "done")


async def test_a_handler_that_fails_while_it_is_cancelled_is_answered_as_cancelled() -> None:
    def admit(request: Request) -> Handler:
        async def run() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                raise ValueError("clean-up failed")

        return run

    async with serving(admit) as (_, client):
        client.send(Request(1, "m", {}), cancel(1))
        assert await client.next() == failure(1, -32800, "Request cancelled")


async def test_an_admitted_request_may_end_in_its_own_way_when_it_is_cancelled() -> None:
    stopped = anyio.Event()

    def admit(request: Request) -> Admitted:
        async def run() -> dict[str, str]:
            await stopped.wait()
            return {"stopReason": "cancelled"}

        return Admitted(run, stopped.set)

    async with serving(admit) as (_, client):
        client.send(Request(1, "m", {}), cancel(1))
        assert await client.next() == success(1, {"stopReason": "cancelled"})
        assert await client.quiet()


async def test_if_its_own_way_fails_the_request_is_cancelled_all_the_same() -> None:
    def fail() -> None:
        raise ValueError

    async with serving(lambda request: Admitted(anyio.sleep_forever, fail)) as (_, client):
        client.send(Request(1, "m", {}), cancel(1))
        assert await client.next() == failure(1, -32800, "Request cancelled")


# --- the gate, refusal, the end ---


async def test_what_follows_waits_behind_a_closed_gate_and_is_admitted_in_order() -> None:
    opened = anyio.Event()
    seen: list[str] = []

    async def gate(message: Request | Notification) -> None:
        if message.method != "initialize":
            await opened.wait()

    def admit(request: Request) -> Handler:
        seen.append(request.method)
        return echo(request)

    async with serving(admit, lambda notification: seen.append(notification.method), gate) as (peer, client):
        client.send(Request(1, "initialize", {}), Request(2, "a", {}), Notification("b", {}), Request(3, "c", {}))
        assert await client.next() == success(1, {})
        assert await client.quiet()
        assert (seen, peer.running) == (["initialize"], 1)
        opened.set()
        assert [(await client.next())["id"] for _ in range(2)] == [2, 3]
    assert seen == ["initialize", "a", "b", "c"]


async def test_a_gate_that_fails_is_the_answer() -> None:
    async def gate(message: Request | Notification) -> None:
        raise RpcError(-32603, "it does not start")

    async with serving(echo, gate=gate) as (_, client):
        client.send(Notification("n", {}), Request(1, "m", {}))
        assert await client.next() == failure(1, -32603, "it does not start")


async def test_once_nothing_is_taken_requests_are_refused_and_cancels_still_heard() -> None:
    seen: list[Notification] = []
    async with serving(forever, seen.append) as (peer, client):
        client.send(Request(1, "m", {}))
        await anyio.wait_all_tasks_blocked()
        peer.stop_taking(-32000, "the agent is shutting down")
        client.send(Request(2, "m", {}), Notification("n", {}), cancel(1))
        assert await client.next() == failure(2, -32000, "the agent is shutting down")
        assert await client.next() == failure(1, -32800, "Request cancelled")
    assert seen == []


async def test_a_request_behind_the_gate_is_refused_if_nothing_is_taken_any_more() -> None:
    opened = anyio.Event()

    async def gate(message: Request | Notification) -> None:
        await opened.wait()

    async with serving(echo, gate=gate) as (peer, client):
        client.send(Request(1, "m", {}))
        await anyio.wait_all_tasks_blocked()
        peer.stop_taking(-32000, "closing")
        opened.set()
        assert await client.next() == failure(1, -32000, "closing")


async def test_requests_outlive_the_input_and_idle_waits_for_their_answers() -> None:
    go = anyio.Event()

    def admit(request: Request) -> Handler:
        async def run() -> str:
            await go.wait()
            return "late"

        return run

    ours, theirs = MemoryWire.pair()
    with anyio.fail_after(5):
        async with Peer(ours, admit=admit, notify=lambda notification: None) as peer:
            await peer.idle()
            theirs.send(encode(Request(1, "m", {})) + b'{"half')
            theirs.close()
            await peer.serve()
            assert peer.running == 1
            go.set()
            await peer.idle()
            assert peer.running == 0
        assert orjson.loads(await theirs.receive()) == success(1, "late")


async def test_leaving_ends_what_runs_and_answers_nothing() -> None:
    ours, theirs = MemoryWire.pair()
    with anyio.fail_after(5):
        async with Peer(ours, admit=forever, notify=lambda notification: None) as peer:
            theirs.send(encode(Request(1, "m", {})))
            theirs.close()
            await peer.serve()
        assert peer.running == 0
        ours.close()
        assert await theirs.receive() == b""


async def test_a_cancel_from_outside_ends_everything() -> None:
    ours, theirs = MemoryWire.pair()
    peer = Peer(ours, admit=forever, notify=lambda notification: None)
    with anyio.fail_after(5), anyio.CancelScope() as scope:
        async with peer, anyio.create_task_group() as tg:
            tg.start_soon(peer.serve)
            theirs.send(encode(Request(1, "m", {})))
            await anyio.wait_all_tasks_blocked()
            assert peer.running == 1
            scope.cancel()
    assert peer.running == 0


async def test_invalid_input_is_answered_in_its_place() -> None:
    async with serving(echo) as (_, client):
        client.wire.send(b'nonsense\n[]\n{"jsonrpc":"2.0","id":7,"method":"m","params":[]}\n')
        answers = [await client.next() for _ in range(3)]
        assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [
            (None, -32700),
            (None, -32600),
            (7, -32602),
        ]


async def test_a_thousand_requests_in_one_write_are_all_answered() -> None:
    async with serving(echo) as (_, client):
        client.send(*(Request(n, "m", {}) for n in range(1000)))
        assert sorted([(await client.next())["id"] for _ in range(1000)]) == list(range(1000))


# --- requests to the other side ---


async def test_a_request_to_the_client_returns_its_result_or_raises_its_error() -> None:
    found: list[Any] = []

    async def ask(peer: Peer, method: str) -> None:
        try:
            found.append(await peer.request(method, {"a": 1}))
        except RpcError as exc:
            found.append((exc.code, exc.message, exc.data))

    async with serving(echo) as (peer, client), anyio.create_task_group() as tg:
        tg.start_soon(ask, peer, "good")
        assert await client.next() == {"jsonrpc": "2.0", "id": 1, "method": "good", "params": {"a": 1}}
        client.send(Success(99, None), Success(1, None), Success(1, "again"))
        await anyio.wait_all_tasks_blocked()
        tg.start_soon(ask, peer, "bad")
        assert (await client.next())["id"] == 2
        client.send(Failure(2, -32002, "not found", {"uri": "x"}))
        await anyio.wait_all_tasks_blocked()
    assert found == [None, (-32002, "not found", {"uri": "x"})]


async def test_two_peers_can_ask_each_other_at_once() -> None:
    ours, theirs = MemoryWire.pair()
    with anyio.fail_after(5):
        async with (
            Peer(ours, admit=echo, notify=lambda notification: None) as here,
            Peer(theirs, admit=echo, notify=lambda notification: None) as there,
            anyio.create_task_group() as tg,
        ):
            tg.start_soon(here.serve)
            tg.start_soon(there.serve)
            assert await here.request("m", {"a": 1}) == {"a": 1}
            assert await there.request("m", {"b": 1}) == {"b": 1}
            tg.cancel_scope.cancel()


async def test_a_cancelled_request_to_the_client_is_taken_back_and_a_late_answer_ignored() -> None:
    async with serving(echo) as (peer, client):
        async with anyio.create_task_group() as tg:
            tg.start_soon(peer.request, "ask", {})
            assert (await client.next())["id"] == 1
            tg.cancel_scope.cancel()
        assert await client.next() == {
            "jsonrpc": "2.0",
            "method": "$/cancel_request",
            "params": {"requestId": 1},
        }
        client.send(Success(1, "late"), Request(1, "m", {}))
        assert await client.next() == success(1, {})
        assert await client.quiet()


async def test_a_request_is_not_taken_back_once_it_is_answered() -> None:
    async with serving(echo) as (peer, client):
        async with anyio.create_task_group() as tg:

            async def ask() -> None:
                with pytest.raises(RpcError):
                    await peer.request("ask", {})

            tg.start_soon(ask)
            await client.next()
            client.send(Failure(1, -1, "no"))
        assert await client.quiet()


async def test_a_request_whose_answer_can_no_longer_come_is_disconnected() -> None:
    ours, theirs = MemoryWire.pair()
    found: list[type] = []
    with anyio.fail_after(5):
        async with Peer(ours, admit=echo, notify=lambda notification: None) as peer, anyio.create_task_group() as tg:

            async def ask() -> None:
                try:
                    await peer.request("ask", {})
                except RpcError as exc:
                    found.append(type(exc))

            tg.start_soon(ask)
            await theirs.receive()
            theirs.close()
            await peer.serve()
            await ask()
    assert found == [Disconnected, Disconnected]


async def test_a_request_that_makes_too_long_a_line_raises_and_sends_nothing() -> None:
    async with serving(echo) as (peer, client):
        with pytest.raises(LineTooLong):
            await peer.request("ask", {"a": "x" * 9_000_000})
        assert await client.quiet()


async def test_who_sends_in_bulk_waits_for_a_slow_client() -> None:
    line = encode(Notification("n", {"a": "x" * 100_000}))
    sent = 0

    async def produce(peer: Peer) -> None:
        nonlocal sent
        for _ in range(100):
            await peer.ready()
            peer.send_raw(line)
            sent += 1

    async with serving(echo) as (peer, client), anyio.create_task_group() as tg:
        tg.start_soon(produce, peer)
        await anyio.wait_all_tasks_blocked()
        assert 40 <= sent < 50
        for _ in range(100):
            assert await client.wire.receive() == line
    assert sent == 100
