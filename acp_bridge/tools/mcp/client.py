"""The official SDK's client over a wire. The only module that imports `mcp`, which takes a second; see `servers`.

Owns the handshake and the translation of the SDK's errors. Offers a server nothing: no roots, sampling, elicitation.
"""

import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import anyio
import anyio.lowlevel
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CONNECTION_CLOSED,
    REQUEST_TIMEOUT,
    ErrorData,
    Implementation,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from pydantic import ValidationError

from acp_bridge import __version__
from acp_bridge.content import JsonObject
from acp_bridge.errors import ToolError
from acp_bridge.rpc import Failure, Success

from .wire import Talk, Wire


@asynccontextmanager
async def talking(wire: Wire) -> AsyncGenerator[Talk]:
    """Speak over `wire` while inside. Entered and left in one task, which is the server's own."""
    answers, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(heard, _Outgoing(wire))
    identity = Implementation(name="acp-bridge", version=__version__)

    async def carry() -> None:
        async with answers:
            await wire.run(lambda answer: answers.send(SessionMessage(_as_sent(answer))))

    async with anyio.create_task_group() as tg, heard:
        tg.start_soon(carry)
        async with ClientSession(dispatcher=dispatcher, client_info=identity) as session:
            asking = _Asking(session, dispatcher)
            yield Talk(asking.begin, asking.ask)
        tg.cancel_scope.cancel()


class _Asking:
    """Requests of one session. Results stay the plain objects that came: what a server says is read by us."""

    def __init__(self, session: ClientSession, dispatcher: JSONRPCDispatcher[TransportContext]) -> None:
        self._session = session
        self._dispatcher = dispatcher

    async def begin(self, within_s: float) -> bool:
        """Shake hands; see `Talk`."""
        try:
            with anyio.fail_after(within_s):
                answer = await self._session.initialize()
        except TimeoutError as exc:
            raise ToolError(f"it did not answer initialize within {within_s:g} s", code="TIMED_OUT") from exc
        except MCPError as exc:
            raise self._translate(exc, "initialize", within_s) from exc
        except (RuntimeError, ValueError) as exc:  # a version nobody else speaks, or an answer of another shape
            raise ToolError(f"it answered initialize in a way that is not understood: {_said(exc)}") from exc
        return answer.capabilities.tools is not None

    async def ask(self, method: str, params: JsonObject, within_s: float) -> JsonObject:
        """Send a request; see `Talk`. Cancelled, it tells the server."""
        try:
            return await self._dispatcher.send_raw_request(method, params, {"timeout": within_s})
        except MCPError as exc:
            raise self._translate(exc, method, within_s) from exc

    def _translate(self, error: MCPError, method: str, within_s: float) -> Exception:
        if error.code == CONNECTION_CLOSED and error.message == "Connection closed":  # the SDK's words, not a server's
            return anyio.BrokenResourceError()
        if error.code == REQUEST_TIMEOUT and error.message.endswith("timed out"):
            return ToolError(f"it did not answer {method} within {within_s:g} s", code="TIMED_OUT")
        return ToolError(f"it answered with an error ({error.code}): {error.message}")


def _said(exc: Exception) -> str:
    """Return what is wrong, without the value: it is shown cut in its middle, and half a secret is known by nobody."""
    if isinstance(exc, ValidationError):
        return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in exc.errors()[:5])
    return str(exc)


class _Outgoing:
    """The SDK's way out: never waits, since the SDK shields its last words of a cancelled call for 5 s."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        match message:
            case JSONRPCRequest():
                try:
                    self._wire.post(line, awaited=message.id)
                except anyio.WouldBlock as exc:
                    raise ToolError("it does not read what it is sent") from exc
            case JSONRPCNotification(method="notifications/cancelled", params={"requestId": int() | str() as asked}):
                self._wire.forget(asked)
                self._said(line)
            case _:
                self._said(line)
        await anyio.lowlevel.checkpoint()

    def _said(self, line: bytes) -> None:
        """Say what waits for no answer; to who does not read, it is not said."""
        with contextlib.suppress(anyio.WouldBlock):
            self._wire.post(line)

    async def aclose(self) -> None:
        """The pipes are the wire's to close."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


def _as_sent(answer: Success | Failure) -> JSONRPCResponse | JSONRPCError:
    match answer:
        case Success(int() | str() as request_id, result):
            return JSONRPCResponse(jsonrpc="2.0", id=request_id, result=result)
        case Success(_, _):
            return JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=0, message="it answers nothing"))
        case Failure(request_id, code, message, data):
            return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message, data=data))
