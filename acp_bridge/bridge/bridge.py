"""What each method of the protocol does.

Owns the sessions that this connection has open, the order of updates and answers, and the first step of dispose: every
agent stopped at once, then waited for until it is quiet and its answers are written. Knows neither which store nor
which model there is.
"""

import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar

import anyio
from anyio.abc import TaskGroup

from acp_bridge.acp import AUTH_REQUIRED, CONTINUE, ClientCapabilities, Method, outbound
from acp_bridge.acp.inbound import (
    Authenticate,
    Inbound,
    ListSessions,
    LoadSession,
    McpServer,
    NewSession,
    OneSession,
    Prompt,
    ResumeSession,
    SetConfigOption,
    SetMode,
    parsed,
)
from acp_bridge.acp.outbound import Json, StopReason
from acp_bridge.agent import Agent, Assembly, Job, Outcome
from acp_bridge.effects import Deadline
from acp_bridge.errors import BarrierFailed, BridgeError, SessionInUse
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
from acp_bridge.session import Journal, Place, Recovery, SessionFilter, Sessions
from acp_bridge.tools import MODES, Commands

from .conversation import Conversation
from .failures import failed, session_not_found, turn_failed
from .options import COMMANDS, config_options, session_state
from .prompts import is_command, prompt_content

logger = logging.getLogger(__name__)

InboundT = TypeVar("InboundT", bound=Inbound)
Admission: TypeAlias = Callable[[Any], Handler | Admitted]

PAGE_SIZE = 50
_DRAIN_SHARE = 0.8
"""Of the time that is left, what the agents may take to come to quiet."""

_STOP_REASONS: dict[str, StopReason] = {
    "completed": "end_turn",
    "max_tokens": "max_tokens",
    "max_requests": "max_turn_requests",
    "refused": "refusal",
    "cancelled": "cancelled",
}


@dataclass(frozen=True, slots=True)
class Open:
    """A session that is open on this connection."""

    agent: Agent
    conversation: Conversation
    commands: Commands
    place: Place

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.agent.journal.session_id


class Bridge:
    """Takes a connection's requests, one table row a method."""

    def __init__(
        self, peer: Peer, client: ClientCapabilities, sessions: Sessions, assembly: Assembly, tasks: TaskGroup
    ) -> None:
        self._peer = peer
        self._client = client
        self._sessions = sessions
        self._assembly = assembly
        self._tasks = tasks
        self._open: dict[str, Open] = {}
        self._closing: set[str] = set()
        self._requests: dict[str, Admission] = {
            Method.AUTHENTICATE: self._row(Authenticate, self._authenticate),
            Method.SESSION_NEW: self._row(NewSession, self._new),
            Method.SESSION_LOAD: self._row(LoadSession, self._load),
            Method.SESSION_RESUME: self._row(ResumeSession, self._resume),
            Method.SESSION_LIST: self._row(ListSessions, self._list),
            Method.SESSION_CLOSE: self._row(OneSession, self._close),
            Method.SESSION_DELETE: self._row(OneSession, self._delete),
            Method.SESSION_SET_MODE: self._row(SetMode, self._set_mode),
            Method.SESSION_SET_CONFIG_OPTION: self._row(SetConfigOption, self._set_config_option),
            Method.SESSION_PROMPT: self._admit_prompt,
            CONTINUE: self._admit_continuation,
        }

    @property
    def busy(self) -> bool:
        """Whether a turn is under way in any session."""
        return any(entry.agent.busy for entry in self._open.values())

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
            entry = self._open.get(parsed(OneSession, notification.params).session_id)
        except ValueError as exc:
            logger.info("ignored a malformed %s: %s", Method.SESSION_CANCEL, exc)
            return
        if entry is not None:
            entry.agent.cancel("client")

    def _row(self, model: type[InboundT], handle: Callable[[InboundT], Awaitable[Json]]) -> Admission:
        def admission(params: Any) -> Handler:
            checked = _checked(model, params)

            async def handler() -> Json:
                try:
                    return await handle(checked)
                except BridgeError as exc:
                    raise failed(exc, getattr(checked, "session_id", "")) from exc

            return handler

        return admission

    def _admit_prompt(self, params: Any) -> Admitted:
        prompt = _checked(Prompt, params)
        entry = self._opened(prompt.session_id)
        try:
            content = prompt_content(prompt)
        except ValueError as exc:
            raise RpcError(INVALID_PARAMS, str(exc)) from exc
        if is_command(content, "continue"):
            return self._continuation(entry)
        return self._answered_by(entry, entry.agent.submit(content))

    def _admit_continuation(self, params: Any) -> Admitted:
        return self._continuation(self._opened(_checked(OneSession, params).session_id))

    def _continuation(self, entry: Open) -> Admitted:
        job = entry.agent.submit_continuation()
        if job is None:
            raise RpcError(
                INVALID_REQUEST,
                "there is no interrupted turn to go on with",
                {"sessionId": entry.session_id, "details": "the last turn was completed, or was gone on with already"},
            )
        return self._answered_by(entry, job)

    def _answered_by(self, entry: Open, job: Job) -> Admitted:
        async def handler() -> Json:
            outcome = await entry.agent.settled(job)
            return {"stopReason": _stop_reason(outcome)}

        return Admitted(handler, lambda: entry.agent.cancel_job(job, "client"))

    def _opened(self, session_id: str) -> Open:
        entry = self._open.get(session_id)
        if entry is None or session_id in self._closing:
            raise session_not_found(session_id)
        return entry

    # --- handlers ---

    async def _authenticate(self, params: Authenticate) -> Json:
        if params.method_id != "configured":
            raise RpcError(INVALID_PARAMS, "methodId: no such way to authenticate")
        self._require_route(self._assembly.route)
        return {}

    async def _new(self, params: NewSession) -> Json:
        place = _place(params.cwd, params.additional_directories)
        self._require_route(self._assembly.route)
        journal = await self._sessions.new(place, barriers=self._assembly.policy.barriers, config={})
        entry = await self._started(journal, place)
        self._tasks.start_soon(self._greet, entry, params.mcp_servers)  # runs once the answer below is sent
        return {"sessionId": entry.session_id, **session_state(entry.agent, self._assembly.routes)}

    async def _load(self, params: LoadSession) -> Json:
        entry, recovery = await self._taken(params)
        await entry.conversation.replay()
        self._tell_recovery(entry, recovery)
        self._tasks.start_soon(self._greet, entry, params.mcp_servers)
        return session_state(entry.agent, self._assembly.routes)

    async def _resume(self, params: ResumeSession) -> Json:
        entry, recovery = await self._taken(params)
        self._tasks.start_soon(self._greet, entry, params.mcp_servers, recovery)
        return session_state(entry.agent, self._assembly.routes)

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
            ]
        }
        return result if page.cursor is None else {**result, "nextCursor": page.cursor}

    async def _close(self, params: OneSession) -> Json:
        entry = self._open.get(params.session_id)
        if entry is not None:
            await self._put_away(entry)
        return {}

    async def _delete(self, params: OneSession) -> Json:
        await self._close(params)
        await self._sessions.store.delete(params.session_id)
        return {}

    async def _set_mode(self, params: SetMode) -> Json:
        entry = self._opened(params.session_id)
        await self._configure(entry, "mode", params.mode_id, member="modeId")
        entry.conversation.show(outbound.config_options_update(config_options(entry.agent, self._assembly.routes)))
        return {}

    async def _set_config_option(self, params: SetConfigOption) -> Json:
        entry = self._opened(params.session_id)
        if not isinstance(params.value, str):
            raise RpcError(INVALID_PARAMS, "value: this option takes a string")
        await self._configure(entry, params.config_id, params.value, member="value")
        if params.config_id == "mode":
            entry.conversation.show(outbound.current_mode(entry.agent.mode))
        return {"configOptions": config_options(entry.agent, self._assembly.routes)}

    async def _configure(self, entry: Open, key: str, value: str, *, member: str) -> None:
        match key:
            case "mode" if value not in MODES:
                raise RpcError(INVALID_PARAMS, f"{member}: no such mode; there are {', '.join(MODES)}")
            case "mode":
                pass
            case "model":
                if value not in self._assembly.routes and value != entry.agent.route:
                    raise RpcError(INVALID_PARAMS, f"{member}: no such model is configured")
                self._require_route(value)
            case _:
                raise RpcError(INVALID_PARAMS, "configId: no such option; there are mode, model")
        await entry.agent.configure(key, value)

    # --- the life of a session here ---

    async def _taken(self, params: LoadSession | ResumeSession) -> tuple[Open, Recovery]:
        """Return the session, from this process if it is open here, else from the store, repaired."""
        session_id = params.session_id
        if (entry := self._open.get(session_id)) is not None and session_id not in self._closing:
            return entry, Recovery()
        place = _place(params.cwd, params.additional_directories)
        journal, recovery = await self._sessions.take(session_id, place, barriers=self._assembly.policy.barriers)
        entry = await self._started(journal, place)
        try:
            await self._assembly.policy.open(journal)
        except BarrierFailed as exc:
            self._notice(entry, "warning", "This session cannot be saved now", f"What is shown may not last: {exc}")
        if held_warning := journal.held.warning:
            self._notice(entry, "warning", "Where this session lies", held_warning)
        return entry, recovery

    async def _started(self, journal: Journal, place: Place) -> Open:
        parts = self._assembly.parts(journal.session_id, place)
        conversation = Conversation(self._peer, journal, self._assembly.policy)
        agent = Agent(journal, parts, conversation)
        entry = self._open[journal.session_id] = Open(agent, conversation, parts.commands, place)
        self._tasks.start_soon(agent.run)
        return entry

    async def _put_away(self, entry: Open) -> None:
        """Stop a session's agent, end its background jobs, save the rest and let it go."""
        session_id = entry.session_id
        if session_id in self._closing:
            raise SessionInUse(f"session {session_id} is being closed", session_id=session_id)
        self._closing.add(session_id)
        try:
            entry.agent.stop("client")
            await entry.agent.quiet()
            await entry.commands.aclose()
            entry.conversation.close()
            await self._sessions.close(session_id)
        finally:
            self._closing.discard(session_id)
            self._open.pop(session_id, None)

    async def _greet(self, entry: Open, servers: list[McpServer], recovery: Recovery | None = None) -> None:
        """Show what may not precede the answer that names the session."""
        if recovery is not None:
            self._tell_recovery(entry, recovery)
        entry.conversation.show(outbound.available_commands(COMMANDS))
        if servers:
            names = ", ".join(sorted(server.name for server in servers))
            self._notice(entry, "warning", "MCP servers are not used", f"Not supported yet, so not started: {names}")

    def _tell_recovery(self, entry: Open, recovery: Recovery) -> None:
        if recovery.clean:
            return
        self._notice(entry, "warning", "The last turn was interrupted", recovery_text(recovery))

    def _notice(self, entry: Open, severity: outbound.Severity, title: str, description: str) -> None:
        """Tell the user, not the model: as a notice where the client takes them, else as a message of its own."""
        if self._client.notices:
            entry.conversation.show(outbound.notice(severity, title, description))
        else:
            text = outbound.text_block(f"{title}. {description}")
            message_id = f"notice_{entry.agent.journal.last_seq}_{severity}"
            entry.conversation.show(outbound.chunk("agent_message_chunk", text, message_id))

    def _require_route(self, route: str) -> None:
        if problem := self._assembly.route_problem(route):
            raise RpcError(AUTH_REQUIRED, "no model can be used", {"details": problem})

    # --- dispose ---

    async def dispose(self, deadline: Deadline) -> None:
        """Stop taking requests and bring every agent to quiet: its turn closed, on disk, and answered."""
        self._peer.stop_taking(INVALID_REQUEST, "the agent is ending")
        entries = list(self._open.values())
        for entry in entries:
            entry.agent.stop("shutdown")  # all of them, before any is waited for
        with deadline.shield(_DRAIN_SHARE) as shield:
            for entry in entries:
                await entry.agent.quiet()
            await self._peer.idle()
        if shield.cancelled_caught:
            late = [entry.session_id for entry in entries if entry.agent.busy]
            raise TimeoutError(f"sessions that did not come to quiet in time: {', '.join(late) or 'none'}")

    def abandon(self) -> None:
        """End what did not come to quiet in time."""
        for entry in self._open.values():
            entry.agent.abandon()


@asynccontextmanager
async def bridging(
    peer: Peer,
    client: ClientCapabilities,
    sessions: Sessions,
    assembly: Assembly,
    deadline: Callable[[], Deadline],
) -> AsyncGenerator[Bridge]:
    """Open the bridge; leaving it disposes of it within `deadline()`."""
    async with anyio.create_task_group() as tasks:
        bridge = Bridge(peer, client, sessions, assembly, tasks)
        try:
            yield bridge
        finally:
            try:
                await bridge.dispose(deadline())
            finally:
                bridge.abandon()
                tasks.cancel_scope.cancel()


def recovery_text(recovery: Recovery) -> str:
    """Return in words what was recovered and what to do."""
    said: list[str] = []
    if recovery.interrupted:
        said.append("The program stopped in the middle of a turn. All up to there was kept, and nothing was run.")
    if recovery.never_started:
        said.append(f"{_counted(len(recovery.never_started), 'tool call')} never started.")
    if recovery.unknown:
        calls = _counted(len(recovery.unknown), "tool call")
        said.append(f"{calls} may have run, in part or whole: look before repeating.")
    if recovery.dropped_inputs:
        said.append(f"{_counted(recovery.dropped_inputs, 'prompt')} had not been begun and will not run.")
    if recovery.dropped_bytes:
        said.append(f"{recovery.dropped_bytes} bytes at the end were incomplete and were left out.")
    if recovery.interrupted:
        said.append("Say /continue to go on, or ask for something else.")
    return " ".join(said)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


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


def _place(cwd: str, additional: list[str]) -> Place:
    """Return where to work, normalised once.

    Raises:
        RpcError: a folder does not exist.
    """
    paths = [_normal(path) for path in (cwd, *additional)]
    for path in paths:
        if not os.path.isdir(path):
            raise RpcError(INVALID_PARAMS, "cwd or additionalDirectories: no such folder", {"details": path})
    return Place(cwd=paths[0], roots=tuple(dict.fromkeys(paths)))


def _normal(path: str) -> str:
    return os.path.normpath(path.removeprefix("\\\\?\\"))  # Windows' verbatim prefix breaks comparisons


def _rfc3339(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
