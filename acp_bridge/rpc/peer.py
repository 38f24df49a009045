"""One side of a JSON-RPC connection. Owns ids, the scopes of running requests and the order of what is sent.

Never looks into params, but for the id in `$/cancel_request`, which is the connection's own.
"""

import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import anyio
from anyio.abc import TaskGroup

from .codec import LineDecoder, encode
from .messages import (
    CANCEL_REQUEST,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    Disconnected,
    Failure,
    Invalid,
    LineTooLong,
    Message,
    Notification,
    Request,
    RequestId,
    RpcError,
    Success,
)

logger = logging.getLogger(__name__)


class Transport(Protocol):
    """Carries bytes to the other side and back, in order. There are `Wire` and `MemoryWire`."""

    async def receive(self) -> bytes:
        """The next bytes, cut anywhere; `b""` at the end, and from then on."""
        ...

    def send(self, line: bytes) -> None:
        """Queue `line`. Never blocks, always accepts."""
        ...

    @property
    def congested(self) -> bool:
        """Whether too much is queued."""
        ...

    async def ready(self) -> None:
        """Wait while too much is queued."""
        ...

    @property
    def behind(self) -> bool:
        """Whether the other side takes more slowly than it is sent: much is queued, though not yet too much."""
        ...

    async def caught_up(self) -> None:
        """Wait while the other side is behind."""
        ...

    async def drain(self, deadline_s: float) -> int:
        """Wait until all is delivered, `deadline_s` at most; how many bytes were not."""
        ...


class Connection(Transport, Protocol):
    """A transport with a beginning and an end: what an agent is served on. There are `Wire` and `MemoryWire`."""

    @property
    def broken(self) -> anyio.Event:
        """Set once the other side takes no more; the input ends with it."""
        ...

    @property
    def written_bytes(self) -> int:
        """How much the other side has taken so far; what does not grow for a minute is not read."""
        ...

    async def __aenter__(self) -> Self:
        """Begin to carry."""
        ...

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Send no more."""
        ...


Handler: TypeAlias = Callable[[], Awaitable[Any]]


class Admitted(NamedTuple):
    """What an admission may return instead of the bare handler: one that ends in its own way when it is taken back.

    `cancel` is called synchronously, in wire order, for `$/cancel_request`, perhaps before the handler has begun. It
    makes the handler return soon, with a result of its own; the handler's scope is left alone.
    """

    run: Handler
    cancel: Callable[[], None]


class _Running:
    """A request that was read and is not answered yet."""

    __slots__ = ("cancel", "scope")

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.cancel: Callable[[], object] = self.scope.cancel


class _Waiting:
    """A request of ours that is not answered yet."""

    __slots__ = ("answer", "answered")

    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.answer: Success | Failure | None = None


class Peer:
    """Answers every request it reads exactly once, and asks the other side.

    Requests are answered in tasks that live in the block `async with peer:`, not in `serve`, so they go on when the
    input ends: the host stops them in its own order, waits with `idle`, and leaves the block. Leaving cancels what
    still runs, and that is then not answered.

    Args:
        wire: carries the lines; entered and left by whoever made it.
        admit: called for each request, in wire order and synchronously. Registers what the request starts and returns
            the handler, whose task begins afterwards; or raises `RpcError`, which is the answer.
        notify: called for each notification, in wire order and synchronously.
        gate: awaited before a request or notification is admitted; what follows on the wire waits behind it. An
            `RpcError` it raises is the answer.
    """

    def __init__(
        self,
        wire: Transport,
        *,
        admit: Callable[[Request], Handler | Admitted],
        notify: Callable[[Notification], None],
        gate: Callable[[Request | Notification], Awaitable[None]] | None = None,
    ) -> None:
        self._wire = wire
        self._admit = admit
        self._notify = notify
        self._gate = gate
        self._tasks: TaskGroup | None = None
        self._refusal: RpcError | None = None
        self._running: dict[RequestId, _Running] = {}
        self._all_answered = anyio.Event()
        self._waiting: dict[RequestId, _Waiting] = {}
        self._last_id = 0
        self._ended = False

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        assert self._tasks is not None
        self._tasks.cancel_scope.cancel()
        return await self._tasks.__aexit__(exc_type, exc, traceback)

    # --- in ---

    @property
    def running(self) -> int:
        """How many requests were read and are not answered yet."""
        return len(self._running)

    async def serve(self) -> None:
        """Take what the other side sends, until the input ends. Ends no request: that is the caller's business."""
        decoder = LineDecoder()
        try:
            while block := await self._wire.receive():
                for message in decoder.feed(block):
                    await self._take(message)
        finally:
            self._ended = True
            for waiting in self._waiting.values():
                waiting.answered.set()  # with no answer

    def stop_taking(self, code: int, message: str) -> None:
        """From now on refuse new requests with this error and ignore notifications; cancels are still heard."""
        self._refusal = RpcError(code, message)

    async def idle(self) -> None:
        """Wait until every request that was read has been answered."""
        while self._running:
            await self._all_answered.wait()

    async def _take(self, message: Message | Invalid) -> None:
        match message:
            case Request():
                await self._take_request(message)
            case Notification(method, params) if method == CANCEL_REQUEST:
                self._cancel(params.get("requestId"))
            case Notification():
                await self._take_notification(message)
            case Success() | Failure():
                self._settle(message)
            case Invalid(_, code, text, answers) if answers is not None and answers in self._waiting:
                self._settle(Failure(answers, code, f"the answer could not be read: {text}"))
            case Invalid(request_id, code, text):
                self._wire.send(encode(Failure(request_id, code, text)))

    async def _take_request(self, request: Request) -> None:
        if request.id in self._running:
            self._wire.send(encode(Failure(request.id, INVALID_REQUEST, "a request with this id is still running")))
            return
        if not self._running:
            self._all_answered = anyio.Event()
        running = self._running[request.id] = _Running()
        try:
            handler = await self._admitted(request)
        except RpcError as exc:
            self._answer(Failure(request.id, exc.code, exc.message, exc.data))
        except Exception:
            logger.exception("the admission of %r failed", request.method)
            self._answer(Failure(request.id, INTERNAL_ERROR, "Internal error"))
        else:
            if isinstance(handler, Admitted):
                running.cancel = handler.cancel
                handler = handler.run
            assert self._tasks is not None, "serve inside `async with peer:`"
            self._tasks.start_soon(self._run, request, handler, running.scope)

    async def _admitted(self, request: Request) -> Handler | Admitted:
        if self._gate is not None and self._refusal is None:
            await self._gate(request)
        if self._refusal is not None:
            raise self._refusal
        return self._admit(request)

    async def _take_notification(self, notification: Notification) -> None:
        try:
            if self._gate is not None and self._refusal is None:
                await self._gate(notification)
            if self._refusal is None:
                self._notify(notification)
        except Exception:
            logger.exception("the notification %r was not heeded", notification.method)

    async def _run(self, request: Request, handler: Handler, scope: anyio.CancelScope) -> None:
        reply: Success | Failure = Failure(request.id, REQUEST_CANCELLED, "Request cancelled")
        try:
            with scope:  # a cancel by the other side ends here and leaves `reply` as it stands
                try:
                    reply = Success(request.id, await handler())
                except RpcError as exc:
                    if not scope.cancel_called:
                        reply = Failure(request.id, exc.code, exc.message, exc.data)
                except Exception:
                    logger.exception("the handler of %r failed", request.method)
                    if not scope.cancel_called:
                        reply = Failure(request.id, INTERNAL_ERROR, "Internal error")
        except BaseException:  # the host itself is ending: nobody answers any more
            self._forget(request.id)
            raise
        self._answer(reply)

    def _cancel(self, request_id: Any) -> None:
        if isinstance(request_id, (bool, float)) or not isinstance(request_id, (int, str, type(None))):
            return  # True and 1.0 are keys equal to 1
        running = self._running.get(request_id)
        if running is None:
            return
        try:
            running.cancel()
        except Exception:
            logger.exception("the request %r could not be cancelled in its own way", request_id)
            running.scope.cancel()

    def _answer(self, reply: Success | Failure) -> None:
        try:
            line = encode(reply)
        except LineTooLong as exc:
            logger.warning("the answer of request %r was not sent: %s", reply.id, exc)
            line = encode(Failure(reply.id, INTERNAL_ERROR, exc.message))
        except TypeError:
            logger.exception("the answer of request %r cannot be said in JSON", reply.id)
            line = encode(Failure(reply.id, INTERNAL_ERROR, "Internal error"))
        self._wire.send(line)
        self._forget(reply.id)

    def _forget(self, request_id: RequestId) -> None:
        del self._running[request_id]
        if not self._running:
            self._all_answered.set()

    # --- out ---

    def send_notification(self, method: str, params: Any) -> None:
        """Send a notification behind all that was sent before. Never blocks.

        One that makes too long a line, or that no JSON can say, is dropped and logged.
        """
        try:
            line = encode(Notification(method, params))
        except (LineTooLong, TypeError) as exc:
            logger.warning("dropped a notification %r: %s", method, exc)
            return
        self._wire.send(line)

    def send_raw(self, line: bytes) -> None:
        """Send a line that is encoded already, newline included."""
        self._wire.send(line)

    @property
    def congested(self) -> bool:
        """Whether the other side is too far behind; then whoever sends in bulk awaits `ready`."""
        return self._wire.congested

    async def ready(self) -> None:
        """Wait while the other side is too far behind. For whoever sends in bulk."""
        await self._wire.ready()

    @property
    def behind(self) -> bool:
        """Whether the other side takes more slowly than it is sent; then what can be joined had better be."""
        return self._wire.behind

    def when_caught_up(self, act: Callable[[], None]) -> None:
        """Call `act` once the other side is not behind any more; not at all if the host ends first."""

        async def wait() -> None:
            await self._wire.caught_up()
            act()

        assert self._tasks is not None, "inside `async with peer:`"
        self._tasks.start_soon(wait)

    async def request(self, method: str, params: Any) -> Any:
        """Ask the other side; its result. Cancelled, it takes the request back, and a late answer goes unheeded.

        Raises:
            RpcError: the other side answered with an error.
            LineTooLong: the request is too long to be sent.
            Disconnected: the input has ended, so no answer can come.
        """
        if self._ended:
            raise Disconnected
        self._last_id += 1
        request_id = self._last_id
        line = encode(Request(request_id, method, params))
        waiting = self._waiting[request_id] = _Waiting()
        self._wire.send(line)
        try:
            await waiting.answered.wait()
        finally:
            del self._waiting[request_id]
            if not waiting.answered.is_set():
                self.send_notification(CANCEL_REQUEST, {"requestId": request_id})
        match waiting.answer:
            case Success(_, result):
                return result
            case Failure(_, code, message, data):
                raise RpcError(code, message, data)
            case None:
                raise Disconnected

    def _settle(self, answer: Success | Failure) -> None:
        if answer.id not in self._waiting and isinstance(answer.id, str) and answer.id.isdecimal():
            said = f"the answer names the request {answer.id!r}, a string; its id is a number"
            answer = Failure(int(answer.id), INVALID_REQUEST, said)
        waiting = self._waiting.get(answer.id)
        if waiting is None or waiting.answer is not None:
            logger.debug("ignored a response to %r, which nobody waits for", answer.id)
            return
        waiting.answer = answer
        waiting.answered.set()
