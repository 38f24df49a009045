"""One session's agent: takes jobs, runs their turns one after another, can be cancelled and brought to quiet.

Owns the inbox and the turn under way. Knows neither the protocol nor a file. It runs in a task of its own, shielded
from its surroundings: only `cancel` and `stop` reach it, so that the loop itself writes how a turn ended.
"""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import anyio

from acp_bridge.content import Failure, PromptBlock
from acp_bridge.effects import Cancellation
from acp_bridge.errors import BarrierFailed, StoreError
from acp_bridge.options import AgentOptions as Options
from acp_bridge.redaction import Secrets
from acp_bridge.session import (
    InputDropped,
    InputQueued,
    Journal,
    PermissionRevoked,
    Policy,
    SessionConfigured,
    SessionTitled,
    closers,
    continuable,
)
from acp_bridge.tools import MODES, Commands, Files, Mode, Pipeline, Tool, Workspace

from .frontend import Frontend
from .inbox import Inbox, Job, Outcome
from .loop import Setting, Turn
from .models import Models
from .offer import Offer
from .prompt import system_prompt
from .settings import DEFAULT_LEVEL, Settings
from .titles import title_of

logger = logging.getLogger(__name__)

CancelCause: TypeAlias = str
"""`client` (the user's editor asked), `shutdown`, or `storage` (a write failed)."""

_BREADTH: Mapping[str, int] = {"plan": 0, "ask": 1, "edit": 2, "full": 3}
HEAL_S = 30.0
"""How long a prompt, or a change, waits for a log to be healed; on a dead disk that never ends."""
_STILL_RUNNING = (
    "Commands that were begun before the program was last ended may still be running. Look before you rely on the "
    "state of anything they touch."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What an agent is made of.

    Attributes:
        route, mode: in force until the session's own configuration says otherwise.
        tools: by name; the owner may add to it (an MCP server's), the next request offers them.
        instructions: the project's notes for agents, as text.
        notices: what its user should know of how it was made, a sentence each.
        earlier_ended: waits a moment for commands of an earlier process and says whether they have ended; None for a
            session that had no earlier process.
        equipped: waits a moment for tools that are still being started.
    """

    policy: Policy
    models: Models
    options: Options
    tools: Mapping[str, Tool]
    workspace: Workspace
    files: Files
    commands: Commands
    route: str
    mode: Mode
    settings: Settings = field(default_factory=Settings)
    instructions: str = ""
    notices: tuple[str, ...] = ()
    system: str = ""
    earlier_ended: Callable[[], Awaitable[bool]] | None = None
    secrets: Secrets = field(default_factory=Secrets)
    equipped: Callable[[], Awaitable[None]] | None = None


_ENDED = Outcome(reason="error", failure=Failure(kind="internal", message="the agent ended before the turn did"))


def _all_the_same(failure: BarrierFailed, now: str, later: str) -> BarrierFailed:
    """Return `failure` with what holds although it was not saved, and no longer than this process."""
    said = f"{failure}; {now} here all the same, and not saved: once the session is loaded anew, {later} again"
    return type(failure)(said, barrier=failure.barrier)


def _narrowest(*modes: Mode) -> Mode:
    return min(modes, key=_BREADTH.__getitem__)


class Agent:
    """Runs a session's jobs."""

    def __init__(self, journal: Journal, parts: Parts, frontend: Frontend) -> None:
        self.journal = journal
        self._parts = parts
        self._frontend = frontend
        self._inbox = Inbox()
        self._turn: Turn | None = None
        self._stopping: str | None = None
        self._idle = anyio.CancelScope()
        self._shield = anyio.CancelScope(shield=True)
        self._quiet = anyio.Event()
        self._configuring = anyio.Lock(fast_acquire=True)
        self._choosing = anyio.Lock(fast_acquire=True)
        self._mode_changes = 0
        self._held_to: dict[int, Mode] = {}  # by change of mode that is not on disk, what is not exceeded until then
        self._earlier_ended = parts.earlier_ended
        self._equipped = parts.equipped
        self._offer = Offer()
        journal.on_failure(self._storage_failed)

    # --- what is true now ---

    @property
    def busy(self) -> bool:
        """Whether a turn is under way or waits."""
        return self._turn is not None or len(self._inbox) > 0

    @property
    def mode(self) -> Mode:
        """The mode in force: what narrows applies at once, what widens only once it is saved."""
        return _narrowest(self._chosen_mode(), *self._held_to.values())

    @property
    def route(self) -> str:
        """The model route in force."""
        return self.journal.log.state.config.get("model", self._parts.route)

    @property
    def thought_level(self) -> str:
        """How hard the model is asked to think."""
        chosen = self.journal.log.state.config.get("thought_level")
        return self._parts.settings.thought_level(chosen, route=self.route)

    @property
    def thought_levels(self) -> tuple[str, ...]:
        """The levels to choose from; none where the model cannot be asked."""
        levels = self._parts.settings.thought_levels(self.route)
        return (DEFAULT_LEVEL, *levels) if levels else ()

    def _chosen_mode(self) -> Mode:
        chosen = self.journal.log.state.config.get("mode", self._parts.mode)
        return cast("Mode", chosen) if chosen in MODES else "ask"

    # --- jobs ---

    def submit(self, content: tuple[PromptBlock, ...]) -> Job:
        """Log and queue a prompt; synchronous, so that it is in order with what was read before and after it."""
        input_id = f"input_{self.journal.last_seq + 1}"
        job = Job(input_id=input_id, content=content)
        self.journal.append(InputQueued(id=input_id, content=content, source=job.source))
        self._put(job)
        return job

    def continuable(self) -> int | None:
        """Return the turn that can be gone on with: the last one, if the program's end cut it short, at most once."""
        return continuable(self.journal.log.state)

    def submit_continuation(self) -> Job | None:
        """Queue going on with the interrupted turn, without inventing a message; None if there is none."""
        turn = self.continuable()
        if turn is None or self.busy:
            return None
        job = Job(continues=turn)
        self._put(job)
        return job

    def _put(self, job: Job) -> None:
        if self._stopping is not None:
            self._drop(job, self._stopping)
        elif self.is_quiet:  # a defect has ended `run`: nobody would take it
            job.finish(_ENDED)
        else:
            self._inbox.put(job)

    async def settled(self, job: Job) -> Outcome:
        """Wait for a job's outcome, once it is on disk."""
        outcome = await job.wait()
        if not job.dropped:
            return outcome  # its turn was through its own barrier; what a later one logs is not its business
        try:
            await self._confirm()
        except BarrierFailed as exc:
            if outcome.failure is None:
                return Outcome(reason="error", failure=Failure(kind="not_saved", message=str(exc)))
        return outcome

    def cancel(self, cause: CancelCause) -> None:
        """Stop the turn under way and drop what waits. Idle, it does nothing."""
        for job in self._inbox.drain():
            self._drop(job, cause)
        if self._turn is not None:
            self._turn.cancellation.cancel(cause)

    def cancel_job(self, job: Job, cause: CancelCause) -> None:
        """Stop one job, wherever it is; the others go on."""
        if self._inbox.remove(job):
            self._drop(job, cause)
        elif self._turn is not None and self._turn.job is job:
            self._turn.cancellation.cancel(cause)

    def _drop(self, job: Job, cause: CancelCause) -> None:
        if job.input_id:
            reason = "interrupted" if cause == "shutdown" else "cancelled"  # nobody took the prompt back
            self.journal.append(InputDropped(id=job.input_id, reason=reason))
        job.dropped = True
        job.finish(Outcome(reason="cancelled"))

    def _storage_failed(self, _failure: StoreError) -> None:
        if self._turn is not None:
            self._turn.cancellation.cancel("storage")

    # --- configuration ---

    async def configure(self, key: str, value: object) -> None:
        """Set a config option, durably.

        Raises:
            ConfigError: there is no such option, or it does not take this value; nothing has changed.
            UnusableRoute: the model cannot be used now; nothing has changed.
            BarrierFailed: it could not be saved; the earlier value is in force again, unless the new one narrows, which
                the message says.
        """
        self._parts.settings.require(key, value, route=self.route)
        if key == "model":
            async with self._choosing:  # the one that was asked for last is the last one set, however long each takes
                await self._parts.settings.require_usable(cast("str", value))
                await self._set(key, value)
        else:
            await self._set(key, value)

    async def _set(self, key: str, value: object) -> None:
        before = self.mode
        if key == "mode":
            self._mode_changes += 1
            self._held_to[self._mode_changes] = cast("Mode", value)  # if it narrows, it does so at once
        change = self._mode_changes
        with anyio.CancelScope(shield=True):  # bounded by the policy's deadline
            async with self._configuring:  # one after another: each falls back to a value that was confirmed
                if key == "mode":
                    self._held_to[change] = self.mode
                try:
                    await self._logged_config(key, value)
                except BarrierFailed as exc:
                    if key == "mode" and self.mode != before:
                        raise _all_the_same(exc, f"mode {self.mode!r} is in force", f"mode {before!r} is") from exc
                    raise
        if key == "mode":
            self._held_to = {later: mode for later, mode in self._held_to.items() if later > change}

    async def _logged_config(self, key: str, value: object) -> None:
        before = self.journal.log.state.config
        self.journal.append(SessionConfigured(values={**before, key: value}))
        try:
            await self._confirm()
        except BarrierFailed:
            self.journal.append(SessionConfigured(values=before))
            raise

    async def _confirm(self) -> None:
        """Pass the answer barrier; a log that a failed write has poisoned is healed first, as before a prompt.

        Raises:
            BarrierFailed: what was logged is not confirmed on disk.
        """
        with anyio.CancelScope(shield=True):
            await self._heal()
        await self._parts.policy.before_answer(self.journal)

    async def revoke(self, grant_id: str) -> None:
        """Take a lasting grant back; it is gone at once, saved or not.

        Raises:
            BarrierFailed: the revocation could not be saved; after a crash the grant may be there again.
        """
        self.journal.append(PermissionRevoked(grant_id=grant_id))
        try:
            await self._confirm()
        except BarrierFailed as exc:
            raise _all_the_same(exc, f"{grant_id!r} is taken back", "it may be there") from exc

    # --- life ---

    async def run(self) -> None:
        """Work until `stop`; returns once the last turn is closed and what could be saved is saved."""
        try:
            with self._shield:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self.journal.run)
                    await self._work()
                    await self._save_the_rest()
                    tasks.cancel_scope.cancel()
        finally:
            self._quiet.set()
            for job in self._inbox.drain():  # there are some only if a defect has ended it
                job.finish(_ENDED)

    def stop(self, cause: CancelCause) -> None:
        """Take no more jobs, cancel what runs, and let `run` come to its end. Synchronous; twice does nothing more."""
        if self._stopping is None:
            self._stopping = cause
            self.cancel(cause)
            self._idle.cancel()

    def abandon(self) -> None:
        """Let `run` end at once, whatever it is in; for when the time to come to quiet is over."""
        self._shield.cancel()

    @property
    def is_quiet(self) -> bool:
        """Whether `run` has come to its end."""
        return self._quiet.is_set()

    async def quiet(self) -> None:
        """Wait until `run` has come to its end."""
        await self._quiet.wait()

    async def _work(self) -> None:
        while self._stopping is None:
            job: Job | None = None
            with anyio.CancelScope() as self._idle:
                job = await self._inbox.take()
            if job is not None:
                await self._run(job)

    async def _save_the_rest(self) -> None:
        try:
            await self.journal.flush(self.journal.last_seq)
        except StoreError as exc:
            logger.warning("session %s ends unsaved: %s", self.journal.session_id, exc)

    async def _run(self, job: Job) -> None:
        cancellation = Cancellation()
        self._turn = self._made_turn(job, cancellation)
        if self._stopping is not None:
            cancellation.cancel(self._stopping)
        outcome = _ENDED
        try:
            with cancellation.scope():
                await self._heal()
            await self._prepare(self._turn)
            self._entitle(job)
            outcome = await self._turn.run()
        except Exception:
            logger.exception("the turn of session %s failed", self.journal.session_id)
            outcome = Outcome(reason="error", failure=Failure(kind="internal", message="the agent failed inside"))
            await self._close_by_force(job, outcome)
        finally:
            self._turn = None
            job.finish(outcome)  # whatever happens: a prompt is waiting for it

    async def _heal(self) -> None:
        """Try to save a log that a failed write has poisoned; else what follows fails at its own barrier."""
        try:
            with anyio.move_on_after(HEAL_S):
                await self.journal.salvage()
        except StoreError as exc:
            logger.warning("session %s is still unsaved: %s", self.journal.session_id, exc)

    async def _prepare(self, turn: Turn) -> None:
        """Before the first turn here, wait a moment for tools to start and for an earlier process's commands to end."""
        ended = False
        try:
            with turn.cancellation.scope():
                if self._equipped is not None:
                    await self._equipped()
                ended = self._earlier_ended is None or await self._earlier_ended()
        finally:
            if turn.cancellation.cause is None:  # else the next turn waits for them
                self._equipped = self._earlier_ended = None
        if not ended and turn.cancellation.cause is None:
            turn.notes = (*turn.notes, _STILL_RUNNING)

    def _entitle(self, job: Job) -> None:
        if self.journal.log.state.title:
            return
        if title := title_of(job.content):
            self.journal.append(SessionTitled(title=title))

    async def _close_by_force(self, job: Job, outcome: Outcome) -> None:
        """Close what a defect left open, so that the session goes on."""
        self.journal.seal()
        for event in closers(self.journal.log, reason="error", failure=outcome.failure):
            if not isinstance(event, InputDropped) or event.id == job.input_id:  # others are in the inbox, and will run
                self.journal.append(event, synthetic=True)
        with contextlib.suppress(BarrierFailed):  # the turn ends in error as it is
            await self._parts.policy.after_turn(self.journal)

    def _made_turn(self, job: Job, cancellation: Cancellation) -> Turn:
        parts = self._parts
        return Turn(
            job=job,
            journal=self.journal,
            policy=parts.policy,
            models=parts.models,
            frontend=self._frontend,
            setting_now=self._setting,
            options=parts.options,
            cancellation=cancellation,
            offer=self._offer,
            pipeline=Pipeline(
                journal=self.journal,
                policy=parts.policy,
                tools=parts.tools,
                mode=lambda: self.mode,
                workspace=parts.workspace,
                files=parts.files,
                commands=parts.commands,
                watcher=self._frontend,
                cancellation=cancellation,
                secrets=parts.secrets,
            ),
        )

    def _setting(self) -> Setting:
        parts = self._parts
        return Setting(
            route=self.route,
            system=parts.secrets.hidden(
                system_prompt(parts.workspace, self.mode, instructions=parts.instructions, base=parts.system)
            ),
            tools=dict(parts.tools),
            options={} if (level := self.thought_level) == DEFAULT_LEVEL else {"thought_level": level},
        )
