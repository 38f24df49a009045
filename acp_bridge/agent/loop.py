"""One turn: ask the model, run what it asks for, until it is done.

Owns the order of the turn's events and barriers (D11, D12, D16). Knows neither the protocol nor a provider nor a file.
Only waits are cancelled, each in a scope of its own; what is logged is logged whole.
"""

from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, fields, replace

import anyio
from anyio.lowlevel import checkpoint

from acp_bridge.content import Failure, JsonObject, Text, Usage
from acp_bridge.effects import Cancellation
from acp_bridge.errors import BarrierFailed, BridgeError
from acp_bridge.limits import ANSWER
from acp_bridge.llm import Failed, Finished, Model, Sanitizer, TextDelta, ThoughtDelta, ToolDelta
from acp_bridge.options import AgentOptions as Options
from acp_bridge.redaction import Secrets
from acp_bridge.session import (
    AssistantMessage,
    Journal,
    ModelRequest,
    Policy,
    RequestFailed,
    RequestHeader,
    StepEnded,
    StepStarted,
    TurnEnded,
    TurnStarted,
    UsageReported,
    UserMessage,
)
from acp_bridge.text import MAX_SAFE_INTEGER, mended, mended_text
from acp_bridge.tools import Pipeline, Tool, Understood

from .answer import Answer
from .frontend import Frontend
from .inbox import Job, Outcome
from .models import Models
from .offer import Offer

_BREATH = 64
"""Deltas that are taken before other tasks get their turn; a model that never waits would starve them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """All of a request that is not the transcript, as it is now."""

    route: str
    system: str
    tools: Mapping[str, Tool]
    options: JsonObject


@dataclass(slots=True, kw_only=True)
class Turn:
    """Runs one job to its `turn/end`.

    Attributes:
        setting_now: asked before each request, since options may change while a turn runs.
        offer: the session's, so that a turn finds made what the last one made.
        notes: what the program has to say to model and user before the first request.
        cancellation: cuts it short; its first cause becomes the turn's reason.
    """

    job: Job
    journal: Journal
    policy: Policy
    models: Models
    frontend: Frontend
    setting_now: Callable[[], Setting]
    pipeline: Pipeline
    options: Options
    cancellation: Cancellation
    offer: Offer = field(default_factory=Offer)
    notes: tuple[str, ...] = ()
    _number: int = field(default=0, init=False)
    _setting: Setting = field(init=False)
    _shown: bool = field(default=False, init=False)  # whether some of the attempt under way was
    _understood: Mapping[str, Understood] = field(default_factory=dict[str, Understood], init=False)  # of the answer
    _brought: int = field(default=0, init=False)  # bytes of all attempts at the answer under way

    async def run(self) -> Outcome:
        """Run the turn; returns once it is closed and through its barrier."""
        job = self.job
        self._number = self.journal.log.state.turns + 1
        self.journal.append(TurnStarted(turn=self._number, continues=job.continues))
        if job.continues is None:
            self.journal.append(UserMessage(id=job.input_id, content=job.content, source=job.source))
        for place, note in enumerate(self.notes, 1):
            content = (Text(text=note),)
            self.journal.append(UserMessage(id=f"note_{self._number}_{place}", content=content, source="program"))
        outcome = await self._steps()
        self.journal.append(
            TurnEnded(
                turn=self._number,
                reason=outcome.reason,
                by=self.cancellation.cause if outcome.reason == "cancelled" else None,
                failure=outcome.failure,
            )
        )
        try:
            await self.policy.after_turn(self.journal)  # outside every scope: a settled fact is waited for
        except BarrierFailed as exc:
            outcome = Outcome(reason="error", failure=Failure(kind="not_saved", message=str(exc)))
        return outcome

    async def _steps(self) -> Outcome:
        for step in range(1, self.options.max_requests + 1):
            self.journal.append(StepStarted(turn=self._number, step=step))
            outcome = await self._step(step)
            self.journal.append(StepEnded(turn=self._number, step=step))
            if outcome is not None:
                return outcome
        return Outcome(reason="max_requests")

    async def _step(self, step: int) -> Outcome | None:
        """Ask once, with retries, and run what was asked for; None if the turn goes on."""
        answered = await self._asked(step)
        if isinstance(answered, Outcome):
            return answered
        requests = tuple(self.journal.log.state.requests.values())
        pipeline = replace(self.pipeline, tools=self._setting.tools)  # what was offered: it may be another by now
        failure = await pipeline.run(self._number, step, requests, self._understood)
        if failure is not None:
            return Outcome(reason="error", failure=failure)
        if (stopped := self._stopped()) is not None:
            return stopped
        match answered.cause:
            case "length":
                return Outcome(reason="max_tokens")
            case "refusal":
                return Outcome(reason="refused")
            case "end" | "tools":
                return None if requests else Outcome(reason="completed")

    def _stopped(self) -> Outcome | None:
        """Return how the turn ends by now if something stopped it."""
        match self.cancellation.cause:
            case None:
                return None
            case "storage":
                failure = self.journal.failure
                message = str(failure) if failure is not None else "the session could not be saved"
                return Outcome(reason="error", failure=Failure(kind="not_saved", message=message))
            case _:
                return Outcome(reason="cancelled")

    async def _asked(self, step: int) -> Finished | Outcome:
        """Return the answer's last delta once the answer is logged, or how the turn ends."""
        self._setting = self.setting_now()
        self._log_header()
        self._brought = 0
        for attempt in range(1, self.options.max_attempts + 1):
            if (blocked := await self._barred()) is not None:
                return blocked
            self._shown = False
            message_id = f"msg_{self._number}_{step}" + (f"_{attempt}" if attempt > 1 else "")
            ended = await self._streamed(step, message_id)
            if isinstance(ended, Finished | Outcome):
                return ended
            ended = _without(self.pipeline.secrets, ended)
            wait_s = self._wait_before_next(ended, attempt)
            self.journal.append(
                RequestFailed(
                    turn=self._number,
                    step=step,
                    attempt=attempt,
                    message_id=message_id,
                    failure=ended.failure,
                    retry_after_s=wait_s,
                    attempts=self.options.max_attempts if wait_s is not None else None,
                    discarded=self._shown,
                )
            )
            if wait_s is None:
                return Outcome(reason="error", failure=_with_ways_on(ended.failure, self.journal.session_id))
            with self.cancellation.scope():
                await anyio.sleep(wait_s)
            if (stopped := self._stopped()) is not None:
                return stopped
        raise AssertionError("the last attempt has no wait before a next one")

    def _wait_before_next(self, failed: Failed, attempt: int) -> float | None:
        """Return how many seconds to wait before the next attempt, None if there is none."""
        if self._brought > ANSWER // 2:  # in vain; the next would not be shorter, and all of it stays in the log
            return None
        if not failed.retryable or attempt >= self.options.max_attempts:
            return None
        if failed.retry_after_s is not None:
            return failed.retry_after_s if failed.retry_after_s <= self.options.max_retry_wait_s else None
        return min(self.options.retry_wait_s * 2 ** (attempt - 1), self.options.max_retry_wait_s)

    def _log_header(self) -> None:
        last, setting = self.journal.log.state.header, self._setting
        header = RequestHeader(
            route=setting.route,
            options=setting.options,
            system=mended_text(setting.system),
            tools=self.offer.of(setting.tools.values()),
            reason="initial" if last is None else "change",
        )
        if last is None or (last.route, last.options, last.system, last.tools) != (
            header.route,
            header.options,
            header.system,
            header.tools,
        ):
            self.journal.append(header)

    async def _barred(self) -> Outcome | None:
        """Pass the request barrier; return how the turn ends if no request may be sent."""
        try:
            with self.cancellation.scope():
                await self.policy.before_request(self.journal)
        except BarrierFailed as exc:
            return Outcome(reason="error", failure=Failure(kind="not_saved", message=str(exc)))
        return self._stopped()  # looked at again after the wait

    async def _streamed(self, step: int, message_id: str) -> Finished | Failed | Outcome:
        """Send the request; log the answer if it arrived whole or was cut short by us."""
        answer = Answer(self._number, step, self.pipeline.secrets)
        received: list[Finished | Failed] = []
        try:
            with self.cancellation.scope():
                model = await self.models.opened(self._setting.route)
                request = await self.journal.request(takes_images=model.takes_images)
                if self.cancellation.cause is None:  # looked at again after the waits: nothing is sent after a cancel
                    received.append(await self._received(model, request, answer, step, message_id))
        except BridgeError as exc:
            return Failed(Failure(kind="unavailable", message=str(exc)), retryable=False)
        if not received:
            return self._cut_short(answer, step, message_id)
        [last] = received
        if isinstance(last, Failed):
            return last
        if answer.empty and last.cause not in ("length", "refusal"):
            return Failed(Failure(kind="empty", message="the model's answer was empty"), retryable=True)
        self._commit(answer, step, message_id, last)
        return last

    async def _received(
        self, model: Model, request: ModelRequest, answer: Answer, step: int, message_id: str
    ) -> Finished | Failed:
        taken = 0
        sanitizer = Sanitizer(self._setting.route)
        async with aclosing(model.stream(request)) as deltas:
            async for raw in deltas:
                for delta in sanitizer.take(raw):
                    if isinstance(delta, Finished | Failed):
                        self._brought += sanitizer.size
                        return delta
                    self._take(delta, answer, step, message_id)
                taken += 1
                if self.frontend.congested:
                    await self.frontend.ready()
                elif taken % _BREATH == 0:
                    await checkpoint()
        return Failed(Failure(kind="broken_stream", message="the model's answer broke off"), retryable=True)

    def _take(self, delta: TextDelta | ThoughtDelta | ToolDelta, answer: Answer, step: int, message_id: str) -> None:
        answer.take(delta)
        self._shown = self._shown or (not isinstance(delta, ToolDelta) and bool(delta.text.strip()))
        match delta:
            case TextDelta() if delta.text:
                self.journal.stream(self._number, step, message_id, "text", delta.text)
            case ThoughtDelta() if delta.text:
                self.journal.stream(self._number, step, message_id, "thought", delta.text)
            case _:
                pass

    def _cut_short(self, answer: Answer, step: int, message_id: str) -> Outcome:
        if spoken := answer.spoken():
            self.journal.append(
                AssistantMessage(turn=self._number, step=step, id=message_id, content=spoken, interrupted=True)
            )
        stopped = self._stopped()
        return stopped if stopped is not None else Outcome(reason="cancelled")

    def _commit(self, answer: Answer, step: int, message_id: str, last: Finished) -> None:
        if last.cause in ("length", "refusal"):  # its last tool request may be cut off, so none is made
            content, extra = answer.spoken(), None
        else:
            content = answer.content(self._setting.tools, self.pipeline.workspace, last.kept)
            self._understood = answer.understood
            extra = mended(last.kept.message) if last.kept is not None and last.kept.message else None
        usage = None if last.usage is None else _countable(last.usage)
        message = AssistantMessage(
            turn=self._number, step=step, id=message_id, content=content, usage=usage, extra=extra
        )
        self.journal.append(message)
        if usage is not None:
            size = self.models.window(self._setting.route)
            self.journal.append(UsageReported(used=_clamped(usage.context_tokens), size=size))


def _without(secrets: Secrets, failed: Failed) -> Failed:
    """Return the failure as it may be logged and shown: a provider repeats what it was sent."""
    return replace(failed, failure=replace(failed.failure, message=secrets.hidden(failed.failure.message)))


def _with_ways_on(failure: Failure, session_id: str) -> Failure:
    """Return the failure with what the user can do, where the same prompt would fail again and again."""
    if failure.kind != "context_overflow":
        return failure
    ways = (
        "With this model every further prompt here fails like this. Choose one with a larger window, begin a new "
        f"session, or take up an earlier turn of this one: `acp-bridge sessions fork {session_id} --at TURN`"
    )
    return replace(failure, message=f"{failure.message.rstrip('. ')}. {ways}")


def _countable(usage: Usage) -> Usage:
    """Return the counts as the log can hold them, whatever a provider said."""
    return Usage(**{count.name: _clamped(getattr(usage, count.name)) for count in fields(Usage)})


def _clamped(count: int) -> int:
    return min(max(count, 0), MAX_SAFE_INTEGER)
