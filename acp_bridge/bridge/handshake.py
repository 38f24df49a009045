"""The first exchange of a connection: `initialize`, and the gate that everything else waits at.

Owns what may come before what. Knows no session, and imports nothing heavier than the protocol's names.
"""

from collections.abc import Callable
from typing import Any, Protocol

import anyio

from acp_bridge.acp import (
    CONTINUE,
    AuthMethod,
    ClientCapabilities,
    Method,
    initialized,
)
from acp_bridge.rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Admitted,
    Handler,
    Notification,
    Request,
    RpcError,
)

_OF_A_SESSION = {
    Method.SESSION_PROMPT,
    Method.SESSION_SET_MODE,
    Method.SESSION_SET_CONFIG_OPTION,
    Method.SESSION_CLOSE,
    CONTINUE,
}
"""What needs a session that is open in this process."""


class Taker(Protocol):
    """Whoever takes requests once the gate is open."""

    def admit(self, request: Request) -> Handler | Admitted:
        """Register what a request starts and return its handler."""
        ...

    def notify(self, notification: Notification) -> None:
        """Act on a notification, at once."""
        ...


class Handshake:
    """Answers `initialize` at once, once, and lets the rest wait until `open` was called.

    Attributes:
        initialized: set when the answer to `initialize` is under way.
        client: the client's capabilities, from then on.
    """

    def __init__(
        self,
        *,
        program_version: str,
        auth_methods: Callable[[], tuple[AuthMethod, ...]],
        client: ClientCapabilities | None = None,
    ) -> None:
        """`client` is given where `initialize` was answered already."""
        self.initialized = anyio.Event()
        self.client = client or ClientCapabilities()
        self._program_version = program_version
        self._auth_methods = auth_methods
        self._opened = anyio.Event()
        self._taker: Taker | None = None
        self._begun = client is not None
        if self._begun:
            self.initialized.set()
        self._why = ""

    def open(self, taker: Taker) -> None:
        """Let what waits, and all that follows, go to `taker`."""
        self._taker = taker
        self._opened.set()

    def fail(self, why: str = "") -> None:
        """Answer what waits, and all that follows, with an error: there is no taker. `why` is for the user to mend."""
        self._why = self._why or why
        self._opened.set()

    async def gate(self, message: Request | Notification) -> None:
        """Wait until `message` may be admitted.

        Raises:
            RpcError: it may not come before `initialize`.
        """
        if message.method == Method.INITIALIZE:
            return
        if not self._begun:
            if isinstance(message, Notification):
                return
            raise _too_early(message.method)
        await self._opened.wait()

    def admit(self, request: Request) -> Handler | Admitted:
        """Admit a request behind the gate."""
        if request.method == Method.INITIALIZE:
            result = self._initialize(request.params)

            async def answer() -> Any:
                self.initialized.set()  # whoever waits runs once this answer is sent
                return result

            return answer
        if self._taker is None and self._why:
            said = "the agent could not start"
            raise RpcError(INTERNAL_ERROR, f"{said}: {self._why}", {"details": f"{said}: {self._why}"})
        if self._taker is None:
            raise RpcError(INTERNAL_ERROR, "the agent could not start; its log on stderr says why")
        return self._taker.admit(request)

    def notify(self, notification: Notification) -> None:
        """Pass a notification on; before there is anybody to act on it, there is nothing to act on."""
        if self._taker is not None:
            self._taker.notify(notification)

    def _initialize(self, params: Any) -> dict[str, Any]:
        if self._begun:
            raise RpcError(INVALID_REQUEST, "initialize came a second time on this connection")
        try:
            self.client, result = initialized(
                params, program_version=self._program_version, auth_methods=self._auth_methods()
            )
        except ValueError as exc:
            raise RpcError(INVALID_PARAMS, str(exc)) from exc
        self._begun = True
        return result


def _too_early(method: str) -> RpcError:
    """Return the error for what came before `initialize`: it tells the client's author what has to be sent first."""
    said = f"{method} came before initialize"
    first = "" if method not in _OF_A_SESSION else "session/load or session/resume with the session's id, then "
    details = (
        f"{said}: the client must send initialize first to each process that it starts, also to one that takes the "
        f"place of an earlier one; then {first}{method}"
    )
    return RpcError(INVALID_REQUEST, said, {"details": details})
