"""What each method of the protocol does.

Owns the table of methods, the order of updates and answers, and the first step of dispose. Knows neither which store
nor which model there is.
"""

import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from typing import Any, TypeAlias, TypeVar

from anyio.abc import TaskGroup

from acp_bridge.acp import CONTINUE, ClientCapabilities, Method, outbound
from acp_bridge.acp.inbound import (
    Authenticate,
    Inbound,
    ListSessions,
    LoadSession,
    NewSession,
    OneSession,
    Prompt,
    ResumeSession,
    SetConfigOption,
    SetMode,
    parsed,
)
from acp_bridge.acp.outbound import Json, StopReason
from acp_bridge.agent import Assembly, Job, Outcome, UnknownOption, UnusableFolder, UnusableRoute, place_of
from acp_bridge.effects import Deadline
from acp_bridge.errors import BarrierFailed, BridgeError, ConfigError
from acp_bridge.rpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Admitted,
    Handler,
    Notification,
    Peer,
    Request,
    RpcError,
)
from acp_bridge.session import Place, SessionFilter, Sessions

from .client_sessions import ClientSession, ClientSessions
from .failures import failed, no_model, turn_failed
from .options import config_options, session_state
from .prompts import prompt_content
from .slash import permissions, slash_command

logger = logging.getLogger(__name__)

InboundT = TypeVar("InboundT", bound=Inbound)
Admission: TypeAlias = Callable[[Any], Handler | Admitted]

PAGE_SIZE = 50

_STOP_REASONS: dict[str, StopReason] = {
    "completed": "end_turn",
    "max_tokens": "max_tokens",
    "max_requests": "max_turn_requests",
    "refused": "refusal",
    "cancelled": "cancelled",
}


class Bridge:
    """Takes a connection's requests, one table row a method."""

    def __init__(self, peer: Peer, sessions: Sessions, assembly: Assembly, opened: ClientSessions) -> None:
        self._peer = peer
        self._sessions = sessions
        self._assembly = assembly
        self._opened = opened
        self._said = count(1)
        self._requests: dict[str, Admission] = {
            Method.AUTHENTICATE: _row(Authenticate, self._authenticate),
            Method.SESSION_NEW: _row(NewSession, self._new),
            Method.SESSION_LOAD: _row(LoadSession, self._load),
            Method.SESSION_RESUME: _row(ResumeSession, self._resume),
            Method.SESSION_LIST: _row(ListSessions, self._list),
            Method.SESSION_CLOSE: _row(OneSession, self._close),
            Method.SESSION_DELETE: _row(OneSession, self._delete),
            Method.SESSION_SET_MODE: _row(SetMode, self._set_mode),
            Method.SESSION_SET_CONFIG_OPTION: _row(SetConfigOption, self._set_config_option),
            Method.SESSION_PROMPT: self._admit_prompt,
            CONTINUE: self._admit_continuation,
        }

    @property
    def busy(self) -> bool:
        """Whether a turn is under way in any session."""
        return self._opened.busy

    # --- admission: synchronous, in wire order ---

    def admit(self, request: Request) -> Handler | Admitted:
        """Register what a request starts and return its handler."""
        admission = self._requests.get(request.method)
        if admission is None:
            raise RpcError(METHOD_NOT_FOUND, f"unknown method {request.method[:100]!r}")
        return admission(request.params)

    def notify(self, notification: Notification) -> None:
        """Act on a notification at once; unknown and malformed ones are ignored."""
        if notification.method != Method.SESSION_CANCEL:
            return
        try:
            session = self._opened.find(parsed(OneSession, notification.params).session_id)
        except ValueError as exc:
            logger.info("ignored a malformed %s: %s", Method.SESSION_CANCEL, exc)
            return
        if session is not None:
            session.agent.cancel("client")

    def _admit_prompt(self, params: Any) -> Admitted:
        prompt = _checked(Prompt, params)
        session = self._opened.get(prompt.session_id)
        try:
            content = prompt_content(
                prompt,
                takes_images=self._assembly.takes_images(session.agent.route),
                attach=session.agent.journal.attach,
            )
        except ValueError as exc:
            raise RpcError(INVALID_PARAMS, str(exc)) from exc
        match slash_command(content):
            case ("continue", _):
                return self._continuation(session)
            case ("permissions", argument):
                return Admitted(lambda: self._permissions(session, argument), lambda: None)
            case _:
                return self._answered_by(session, session.agent.submit(content))

    async def _permissions(self, session: ClientSession, argument: str) -> Json:
        try:
            said = await permissions(session.agent, argument)
        except BridgeError as exc:
            raise failed(exc, session.session_id) from exc
        message_id = f"permissions_{next(self._said)}"
        session.front.show(outbound.chunk("agent_message_chunk", outbound.text_block(said), message_id))
        await session.front.shown()
        return {"stopReason": "end_turn"}

    def _admit_continuation(self, params: Any) -> Admitted:
        return self._continuation(self._opened.get(_checked(OneSession, params).session_id))

    def _continuation(self, session: ClientSession) -> Admitted:
        job = session.agent.submit_continuation()
        if job is None:
            said = "there is no interrupted turn to go on with"
            details = f"{said}: the last one was completed, or was gone on with already"
            raise RpcError(INVALID_REQUEST, said, {"sessionId": session.session_id, "details": details})
        return self._answered_by(session, job)

    def _answered_by(self, session: ClientSession, job: Job) -> Admitted:
        async def handler() -> Json:
            try:
                outcome = await session.agent.settled(job)
            finally:
                session.jobs.discard(job)
            await session.front.shown()
            return {"stopReason": _stop_reason(outcome)}

        session.jobs.add(job)
        return Admitted(handler, lambda: session.agent.cancel_job(job, "client"))

    # --- handlers ---

    async def _authenticate(self, params: Authenticate) -> Json:
        if params.method_id != "configured":
            raise RpcError(INVALID_PARAMS, "methodId: no such way to authenticate")
        await self._require_route()
        return {}

    async def _new(self, params: NewSession) -> Json:
        place = await _place(params.cwd, params.additional_directories)
        await self._require_route()
        session = await self._opened.new(place, params.mcp_servers)
        return {"sessionId": session.session_id, **session_state(session.agent, self._assembly.routes)}

    async def _load(self, params: LoadSession) -> Json:
        place = await _place(params.cwd, params.additional_directories)
        session, recovery = await self._opened.take(params.session_id, place, params.mcp_servers)
        await session.front.replay()
        self._opened.tell_recovery(session, recovery)
        return session_state(session.agent, self._assembly.routes)

    async def _resume(self, params: ResumeSession) -> Json:
        place = await _place(params.cwd, params.additional_directories)
        named = params.mcp_servers if "mcp_servers" in params.model_fields_set else None
        session, recovery = await self._opened.take(params.session_id, place, named)
        self._opened.tell_recovery_later(session, recovery)
        return session_state(session.agent, self._assembly.routes)

    async def _list(self, params: ListSessions) -> Json:
        try:
            page = await self._sessions.store.list(SessionFilter(cwd=params.cwd), cursor=params.cursor, limit=PAGE_SIZE)
        except ValueError as exc:
            raise RpcError(INVALID_PARAMS, f"cursor: {exc}") from exc
        result: Json = {
            "sessions": [
                outbound.session_info_entry(
                    summary.session_id,
                    cwd=summary.cwd,
                    additional_directories=[root for root in summary.roots if root != summary.cwd],
                    title=summary.title or None,
                    updated_at=_rfc3339(summary.updated),
                )
                for summary in page.sessions
                if summary.turns  # an empty one that is open here can be loaded, but there is nothing to come back to
            ]
        }
        return result if page.cursor is None else {**result, "nextCursor": page.cursor}

    async def _close(self, params: OneSession) -> Json:
        await self._opened.put_away(params.session_id)
        return {}

    async def _delete(self, params: OneSession) -> Json:
        await self._opened.delete(params.session_id)
        return {}

    async def _set_mode(self, params: SetMode) -> Json:
        session = self._opened.get(params.session_id)
        await self._configure(session, "mode", params.mode_id, member="modeId")
        session.front.show(outbound.config_options_update(config_options(session.agent, self._assembly.routes)))
        return {}

    async def _set_config_option(self, params: SetConfigOption) -> Json:
        session = self._opened.get(params.session_id)
        if not isinstance(params.value, str):
            raise RpcError(INVALID_PARAMS, "value: this option takes a string")
        await self._configure(session, params.config_id, params.value, member="value")
        if params.config_id == "mode":
            session.front.show(outbound.current_mode(session.agent.mode))
        return {"configOptions": config_options(session.agent, self._assembly.routes)}

    async def _configure(self, session: ClientSession, key: str, value: str, *, member: str) -> None:
        before = session.agent.mode
        try:
            await session.agent.configure(key, value)
        except UnusableRoute as exc:
            raise no_model(str(exc)) from exc
        except UnknownOption as exc:
            raise RpcError(INVALID_PARAMS, f"configId: {exc}") from exc
        except ConfigError as exc:
            raise RpcError(INVALID_PARAMS, f"{member}: {exc}") from exc
        except BarrierFailed:
            if session.agent.mode != before:  # what narrows holds, saved or not: the client must not show another
                session.front.show(outbound.current_mode(session.agent.mode))
                options = config_options(session.agent, self._assembly.routes)
                session.front.show(outbound.config_options_update(options))
            raise

    async def _require_route(self) -> None:
        try:
            await self._assembly.settings.require_usable(self._assembly.route)
        except UnusableRoute as exc:
            raise no_model(str(exc)) from exc

    # --- dispose ---

    async def dispose(self, deadline: Deadline) -> None:
        """Stop taking requests and bring every agent to quiet: its turn closed, on disk, and answered.

        Raises:
            TimeoutError: some did not come to quiet in time.
        """
        self._peer.stop_taking(INVALID_REQUEST, "the agent is ending")
        await self._opened.leave(deadline)


@asynccontextmanager
async def bridging(
    peer: Peer,
    client: ClientCapabilities,
    sessions: Sessions,
    assembly: Assembly,
    tasks: TaskGroup,
    deadline: Callable[[], Deadline],
) -> AsyncGenerator[Bridge]:
    """Open the bridge; leaving it disposes of it within `deadline()`. Agents run in `tasks`, older than all parts."""
    bridge = Bridge(peer, sessions, assembly, ClientSessions(peer, client, sessions, assembly, tasks))
    try:
        yield bridge
    finally:
        await bridge.dispose(deadline())


def _row(model: type[InboundT], handle: Callable[[InboundT], Awaitable[Json]]) -> Admission:
    """Return the admission of a method whose params are `model`: checked in wire order, handled in a task.

    None of these runs long, and half of a session's opening or closing would be worse than a late answer: a cancel of
    one is heard and changes nothing (protocol: whoever is asked may honour it).
    """

    def admission(params: Any) -> Admitted:
        checked = _checked(model, params)

        async def handler() -> Json:
            try:
                return await handle(checked)
            except BridgeError as exc:
                raise failed(exc, getattr(checked, "session_id", "")) from exc

        return Admitted(handler, lambda: None)

    return admission


async def _place(cwd: str, additional: list[str]) -> Place:
    try:
        return await place_of(cwd, additional)
    except UnusableFolder as exc:
        raise RpcError(INVALID_PARAMS, f"{_named(exc, cwd)}: no such folder", {"details": str(exc)}) from exc


def _named(unusable: UnusableFolder, cwd: str) -> str:
    return "cwd" if unusable.path in (cwd, os.path.normpath(cwd)) else "additionalDirectories"


def _stop_reason(outcome: Outcome) -> StopReason:
    reason = _STOP_REASONS.get(outcome.reason)
    if reason is None or outcome.failure is not None:
        raise turn_failed(outcome)
    return reason


def _checked(model: type[InboundT], params: Any) -> InboundT:
    try:
        return parsed(model, params)
    except ValueError as exc:
        raise RpcError(INVALID_PARAMS, str(exc)) from exc


def _rfc3339(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
