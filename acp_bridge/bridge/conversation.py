"""One session as its client sees it: the agent's frontend, which turns events into updates and questions into requests.

Owns the order of what is shown: nothing before the session's id is known, a replay before what happens meanwhile, the
status of a call only once what it says is on disk. Knows neither how a turn runs nor how a log is written.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import TypeAlias

import anyio
import anyio.to_thread
from anyio.lowlevel import checkpoint

from acp_bridge.acp import ClientCapabilities, Method, outbound
from acp_bridge.acp.inbound import ElicitationAnswer, PermissionAnswer, parsed
from acp_bridge.acp.outbound import ChunkKind, Json
from acp_bridge.agent import Severity
from acp_bridge.content import Text
from acp_bridge.rpc import Peer, RpcError
from acp_bridge.session import DeltaKind, Journal, Policy, Record, ToolCalled, ToolResult, contents_named
from acp_bridge.text import escaped
from acp_bridge.tools import Choice, PermissionOption, Presentation, Question, UserAnswer, title

from . import updates
from .asking import asked
from .bounds import bounded, pieces
from .cards import Cards

logger = logging.getLogger(__name__)

_LATE_CHARS = 256 * 1024
"""What is held back of a message at most, to be joined into one chunk: a line of it is one that every client takes."""

_HEADING_CHARS = 2000
"""Of a question's title; a longer one, or one of several lines, is in its content whole."""

_BREATH = 32
"""Updates of a replay that are sent before others may run."""

_CHUNK_KINDS: dict[DeltaKind, ChunkKind] = {"text": "agent_message_chunk", "thought": "agent_thought_chunk"}


Shown: TypeAlias = tuple[Record, Mapping[str, bytes]]
"""A record, and the content files that it is shown with."""


class Conversation:
    """The frontend of one session's agent."""

    def __init__(
        self,
        peer: Peer,
        client: ClientCapabilities,
        journal: Journal,
        policy: Policy,
        *,
        notices: Iterator[int] | None = None,
    ) -> None:
        """Show `client` what happens in a session, from now on.

        Args:
            notices: numbers of what is said beside the conversation: the connection's, since a client that joins text
                by message id may have kept what was said when the session was open before.
        """
        self._peer = peer
        self._client = client
        self._journal = journal
        self._policy = policy
        self._session_id = journal.session_id
        self._lines = outbound.ChunkLines(self._session_id)
        self._withheld: deque[Shown] = deque()  # calls and results whose status waits for the disk
        self._meanwhile: list[Json] | None = None  # what happens while a replay is being sent
        self._late: list[str] = []  # pieces of one message, held back while the client is behind
        self._late_chars = 0
        self._late_key: tuple[ChunkKind, str] = ("agent_message_chunk", "")
        self._waiting = False
        self._replaying = anyio.Lock()
        self._cards = Cards(client_shows_plans=client.shows_plans)
        self._notices = notices or count(1)
        self._undo = journal.observe(self)
        self.on_dismissed: Callable[[], None] = lambda: None  # the client cancels the turn by taking a choice back

    def close(self) -> None:
        """Be told of nothing any more."""
        self._undo()

    def tell(self, severity: Severity, title: str, description: str) -> None:
        """Say something as a notice where the client takes them, else as a message of its own."""
        title, description = escaped(title), escaped(description, lines=True)
        if self._client.notices:
            self.show(outbound.notice(severity, title, description))
        else:
            text = outbound.text_block(f"{title}. {description}")
            self.show(outbound.chunk("agent_message_chunk", text, f"notice_{next(self._notices)}"))

    # --- what the agent tells ---

    def recorded(self, record: Record) -> None:
        """Show an event, or withhold it: what a client was told of a call, its log has to know."""
        self._send_late()
        if isinstance(record.event, ToolCalled | ToolResult) and not self._policy.may_show_result(
            self._journal, record.seq
        ):
            self._withheld.append((record, self._journal.unsaved_content(record.event)))
            return
        for update in updates.live(record, self._journal.unsaved_content(record.event)):
            self.show(update)

    def durable(self, seq: int) -> None:
        """Show the calls and results that are on disk now."""
        del seq
        while self._withheld and self._policy.may_show_result(self._journal, self._withheld[0][0].seq):
            for update in updates.live(*self._withheld.popleft()):
                self.show(update)

    def streamed(self, message_id: str, kind: DeltaKind, text: str) -> None:
        """Show a piece of an answer."""
        chunk_kind = _CHUNK_KINDS.get(kind)
        if chunk_kind is None or not text:
            return
        for piece in pieces(text):
            self._stream(chunk_kind, message_id, piece)

    def _stream(self, chunk_kind: ChunkKind, message_id: str, text: str) -> None:
        if self._meanwhile is not None:
            self._meanwhile.append(outbound.chunk(chunk_kind, outbound.text_block(text), message_id))
        elif self._late or self._peer.behind:
            self._hold_back(chunk_kind, message_id, text)
        else:
            self._peer.send_raw(self._lines.line(chunk_kind, message_id, text))

    def _hold_back(self, kind: ChunkKind, message_id: str, text: str) -> None:
        """Keep a piece to be joined with its neighbours: a client that is behind takes one chunk, not hundreds."""
        if self._late_key != (kind, message_id) or self._late_chars + len(text) > _LATE_CHARS:
            self._send_late()
            self._late_key = (kind, message_id)
        self._late.append(text)
        self._late_chars += len(text)
        if not self._waiting:
            self._waiting = True
            self._peer.when_caught_up(self._caught_up)

    def _caught_up(self) -> None:
        self._waiting = False
        self._send_late()

    def _send_late(self) -> None:
        if self._late:
            kind, message_id = self._late_key
            self._peer.send_raw(self._lines.line(kind, message_id, "".join(self._late)))
            self._late.clear()
            self._late_chars = 0

    def progress(self, call_id: str, output: str) -> None:
        """Show what a running call has put out so far."""
        self.show(outbound.tool_call_update(call_id, content=[outbound.tool_text(bounded(output))]))

    def show(self, update: Json) -> None:
        """Send an update, behind a replay that is being sent."""
        if self._meanwhile is not None:
            self._meanwhile.append(update)
        elif (drawn := self._cards.drawn(update)) is not None:
            self._send_late()
            self._peer.send_notification(Method.SESSION_UPDATE, {"sessionId": self._session_id, "update": drawn})

    @property
    def congested(self) -> bool:
        """Whether the client is far behind."""
        return self._peer.congested

    async def ready(self) -> None:
        """Wait until the client has caught up."""
        await self._peer.ready()

    # --- what the agent asks ---

    async def ask(self, question: Question) -> Choice:
        """Ask the client; an error or a malformed answer is nobody's choice."""
        request = self._journal.log.state.requests.get(question.call_id)
        raw_input = updates.understood_input(question.arguments)  # what will run, whatever the model wrote
        if not question.arguments and request is not None:
            raw_input = updates.raw_input(request.arguments)  # a question of the model's own
        card = outbound.tool_call_update(question.call_id, status="pending", raw_input=raw_input)
        del card["sessionUpdate"]
        presentation = question.presentation
        card |= {"title": presentation.title, "kind": presentation.kind}
        if question.shown:
            card["content"] = updates.shown_content(question.shown, {})
        if presentation.locations:
            card["locations"] = [outbound.location(place.path, place.line) for place in presentation.locations]
        options = [
            {"optionId": option.option_id, "name": option.name, "kind": option.kind} for option in question.options
        ]
        params = outbound.permission_request(self._session_id, card, options)
        try:
            answer = parsed(PermissionAnswer, await asked(self._peer, Method.REQUEST_PERMISSION, params))
        except RpcError as exc:
            logger.info("the client did not answer the permission question of %s: %s", question.call_id, exc)
            return Choice(None)
        except ValueError as exc:
            logger.warning("the client's permission answer for %s is malformed: %s", question.call_id, exc)
            return Choice(None)
        if answer.outcome.outcome == "cancelled":
            return Choice(None, dismissed=True)
        return Choice(answer.outcome.option_id)

    async def inquire(self, call_id: str, question: str, options: tuple[str, ...]) -> UserAnswer:
        """Ask in a form where the client takes one, else by a choice of buttons if there are options."""
        if self._client.elicitation_form:
            return await self._elicit(call_id, question, options)
        if options:
            return await self._choose(call_id, question, options)
        return UserAnswer("unable")

    async def _elicit(self, call_id: str, question: str, options: tuple[str, ...]) -> UserAnswer:
        params = outbound.elicitation(self._session_id, call_id, question, options)
        try:
            answer = parsed(ElicitationAnswer, await asked(self._peer, Method.ELICITATION_CREATE, params))
        except (RpcError, ValueError) as exc:
            logger.info("the client did not answer the question of %s: %s", call_id, exc)
            return UserAnswer("unable")
        given = (answer.content or {}).get("answer")
        if answer.action != "accept" or not isinstance(given, str) or (options and given not in options):
            return UserAnswer("declined")
        return UserAnswer("answered", given)

    async def _choose(self, call_id: str, question: str, options: tuple[str, ...]) -> UserAnswer:
        offered = tuple(
            PermissionOption(option_id=f"option_{place}", name=option, kind="allow_once")
            for place, option in enumerate(options)
        )
        decline = PermissionOption(option_id="decline", name="None of these", kind="reject_once")
        heading = title(question, limit=_HEADING_CHARS)
        shown = () if heading == question else (Text(text=question),)
        presentation = Presentation(title=heading, kind="other")
        asking = Question(
            call_id=call_id, presentation=presentation, arguments={}, options=(*offered, decline), shown=shown
        )
        choice = await self.ask(asking)
        if choice.dismissed:  # its cancel may come only after this answer (protocol: prompt turn)
            self.on_dismissed()
            await checkpoint()
        chosen = next((option for option in offered if option.option_id == choice.option_id), None)
        return UserAnswer("declined") if chosen is None else UserAnswer("answered", chosen.name)

    # --- replay ---

    async def replay(self) -> None:
        """Send the whole session from its beginning; what happens meanwhile follows behind it."""
        async with self._replaying:  # a client may load twice in one write
            await self._replay()

    async def shown(self) -> None:
        """Wait for a replay that is being sent, and what happened meanwhile."""
        if self._replaying.locked():
            async with self._replaying:
                pass

    async def _replay(self) -> None:
        self._send_late()
        seq = self._journal.last_seq  # seals streamed text, so that all that was shown is in the records
        records = [record for record in self._journal.log.records if record.seq <= seq]
        durable_seq = self._journal.durable_seq
        self._withheld = deque(
            (r, self._journal.unsaved_content(r.event))
            for r in records
            if isinstance(r.event, ToolCalled | ToolResult) and r.seq > durable_seq
        )
        self._meanwhile = []
        try:
            facts = await anyio.to_thread.run_sync(partial(updates.facts_of, records, durable_seq=durable_seq))
            sent = count()
            for record in records:
                names = updates.pictures_of(record, facts)
                files = await self._journal.contents(names) if names else {}  # none is held longer than it is needed
                await self._send_again(updates.replayed(record, facts, files), sent)
            names = set[str]().union(*map(contents_named, facts.waiting))
            await self._send_again(updates.behind(facts, await self._journal.contents(names)), sent)
            await checkpoint()
        finally:
            meanwhile, self._meanwhile = self._meanwhile, None
            for update in meanwhile:
                self.show(update)

    async def _send_again(self, shown: Iterable[Json], sent: Iterator[int]) -> None:
        """Send updates of a replay, and let others run in between: a long session's is not other sessions' silence."""
        for update in shown:
            if (drawn := self._cards.drawn(update)) is None:
                continue
            self._peer.send_notification(Method.SESSION_UPDATE, {"sessionId": self._session_id, "update": drawn})
            if self._peer.congested:
                await self._peer.ready()
            elif next(sent) % _BREATH == 0:
                await checkpoint()
