"""What a model is told: a fold over the log into messages, and the request made of them.

Owns the order that every provider accepts: each tool request has exactly one result, directly after it.
Knows no provider. Everything here can be rebuilt from the log alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from acp_bridge.content import AnswerBlock, Image, JsonObject, PromptBlock, ResultBlock, Text, ToolRequest

from .events import (
    AssistantDelta,
    AssistantMessage,
    ContextCompacted,
    InputDropped,
    InputQueued,
    PermissionAsked,
    PermissionDecided,
    PermissionRevoked,
    PlanUpdated,
    Record,
    RequestFailed,
    RequestHeader,
    SessionConfigured,
    SessionOpened,
    SessionSalvaged,
    SessionTitled,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UsageReported,
    UserMessage,
)


@dataclass(frozen=True, slots=True)
class FromUser:
    """What the user, or the program on the user's side, said."""

    content: tuple[PromptBlock, ...]


@dataclass(frozen=True, slots=True)
class FromAssistant:
    """What the model said and asked for.

    Attributes:
        route: whose answer it is; what is opaque in it means something to that route alone.
        extra: what else came with it, to go back as it is.
    """

    content: tuple[AnswerBlock, ...]
    route: str = ""
    extra: JsonObject | None = None

    @property
    def requests(self) -> tuple[ToolRequest, ...]:
        """The tool requests, in the model's order."""
        return tuple(block for block in self.content if isinstance(block, ToolRequest))


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The result of one tool request."""

    call_id: str
    content: tuple[ResultBlock, ...]
    is_error: bool


@dataclass(frozen=True, slots=True)
class FromTools:
    """The results of all requests of the message before, in the order in which they were asked for."""

    answers: tuple[ToolAnswer, ...]


Message: TypeAlias = FromUser | FromAssistant | FromTools


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request to a model, our own value, before a provider's adapter dresses it.

    Attributes:
        route: `provider:model`.
        tools: `{name, description, parameters}`, the last a JSON Schema.
        messages: roles alternate; neighbours of one role are merged.
        files: bytes of the images in `messages`, by content-file name; a missing one is lost and said to be.
    """

    route: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[JsonObject, ...] = ()
    options: JsonObject = field(default_factory=dict[str, object])
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


class Transcript:
    """The fold. Feed it every record in order; `messages` is what a request made now would hold.

    A turn that did not complete is closed with a sentence, so that the next request does not take it up again:
    a model reads why it ended, and a crash is never told as the user's doing.

    Attributes:
        files: names of the content files that messages hold, in order of appearance.
    """

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self._said: list[tuple[int, Message]] = []  # each with the seq of the record that said it
        self._merged: list[Message] = []  # what `messages` made of the first `_taken` of `_said`
        self._taken = 0
        self._waiting: dict[str, ToolAnswer | None] = {}
        self._waiting_seq = 0
        self._provisional: set[int] = set()  # what going on with the last turn takes back
        self._route = ""  # of the last request

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages so far, neighbours of one role merged; only what is new since the last look is worked on."""
        merged = self._merged
        for _, message in self._said[self._taken :]:
            match merged[-1] if merged else None, message:
                case FromUser(before), FromUser(content):
                    merged[-1] = FromUser(before + content)
                case FromAssistant() as before, FromAssistant() as after:
                    merged[-1] = _join(before, after)
                case _:
                    merged.append(message)
        self._taken = len(self._said)
        return tuple(merged)

    def _merge_anew(self) -> None:
        """Forget what was merged: something before the end of `_said` has changed."""
        self._merged = []
        self._taken = 0

    def add(self, record: Record) -> None:
        """Take one record into the fold."""
        seq = record.seq
        match record.event:
            case TurnStarted() as event:
                self._start_turn(event)
            case UserMessage() as event:
                self._note_files(event.content)
                self._say(seq, event.content)
            case AssistantMessage() as event:
                self._answer(seq, event)
            case ToolResult() as event:
                self._settle(event)
            case TurnEnded() as event:
                self._close_turn(seq, event)
            case SessionSalvaged():
                self._say(seq, (Text(text=_SALVAGED),))
            case ContextCompacted() as event:
                self._compact(event)
            case RequestHeader(reason=reason, route=route):
                self._route = self._route if reason == "compaction" else route
            case (
                SessionOpened()
                | InputQueued()
                | InputDropped()
                | StepStarted()
                | RequestFailed()
                | AssistantDelta()
                | PermissionAsked()
                | PermissionDecided()
                | PermissionRevoked()
                | ToolCalled()
                | StepEnded()
                | SessionConfigured()
                | SessionTitled()
                | PlanUpdated()
                | UsageReported()
            ):
                pass
            case _:
                assert_never(record.event)

    def _note_files(self, content: Iterable[PromptBlock | ResultBlock]) -> None:
        self.files.update({block.file: None for block in content if isinstance(block, Image)})

    def _start_turn(self, event: TurnStarted) -> None:
        if event.continues is not None:  # its request is made again: a half answer would be read as said
            self._said = [(seq, message) for seq, message in self._said if seq not in self._provisional]
            self._merge_anew()
        self._provisional = set()

    def _close_turn(self, seq: int, event: TurnEnded) -> None:
        note = _closing_note(event)
        if note is not None:
            self._say(seq, (note,))
            self._provisional.add(seq)

    def _say(self, seq: int, content: tuple[PromptBlock, ...]) -> None:
        if content:
            self._said.append((seq, FromUser(content)))

    def _answer(self, seq: int, event: AssistantMessage) -> None:
        content, extra = event.content, event.extra
        if event.interrupted:  # thoughts of an unfinished answer cannot be signed; requests of it were never made
            content, extra = tuple(b for b in content if isinstance(b, Text) and b.text.strip()), None
            self._provisional.add(seq)
        if content:
            self._said.append((seq, FromAssistant(content, self._route, extra)))
        self._waiting = {b.call_id: None for b in content if isinstance(b, ToolRequest)}
        self._waiting_seq = seq

    def _settle(self, event: ToolResult) -> None:
        """Put the results, once all are there, directly behind their requests, whatever was said meanwhile."""
        if event.call_id not in self._waiting:
            return
        self._note_files(event.content)
        self._waiting[event.call_id] = ToolAnswer(event.call_id, event.content, event.is_error)
        answers = [answer for answer in self._waiting.values() if answer is not None]
        if len(answers) == len(self._waiting):
            place = next(i for i in reversed(range(len(self._said))) if self._said[i][0] == self._waiting_seq)
            if place + 1 < self._taken:
                self._merge_anew()
            self._said.insert(place + 1, (self._waiting_seq, FromTools(tuple(answers))))
            self._waiting = {}

    def _compact(self, event: ContextCompacted) -> None:
        before = [said for said in self._said if said[0] < event.first_seq]
        after = [said for said in self._said if said[0] > event.last_seq]
        self._said = [*before, (event.first_seq, FromUser((Text(text=event.summary),))), *after]
        self._merge_anew()


def _join(before: FromAssistant, after: FromAssistant) -> FromAssistant:
    """Return two messages as one; of two routes' it is nobody's, so that neither is given what is the other's."""
    content = before.content + after.content
    if before.route != after.route:
        return FromAssistant(content)
    return FromAssistant(content, before.route, {**(before.extra or {}), **(after.extra or {})} or None)


_AGAIN = "Do not take it up again unless you are asked to."
_SALVAGED = (
    "<turn-note>The record of this session was damaged and saved only in part. Work after this point was lost from "
    "the record; it may have changed files or other things. Look before you rely on the state of anything.</turn-note>"
)


def _closing_note(event: TurnEnded) -> Text | None:
    """Return what a model is told of a turn that did not complete, None for one that did."""
    match event.reason:
        case "completed":
            return None
        case "cancelled" if event.by == "shutdown":
            note = f"The program was ended during the request above; the user did not cancel it. {_AGAIN}"
        case "cancelled":
            note = f"The user cancelled the request above before it was finished. {_AGAIN}"
        case "interrupted":
            note = (
                "The program stopped in the middle of the request above; the user did not stop it. Work on it ended "
                f"there. {_AGAIN}"
            )
        case "error":
            why = event.failure.message if event.failure is not None else "of an unknown kind"
            note = f"The request above ended with an error before it was finished: {why}. {_AGAIN}"
        case "max_tokens":
            note = "The answer above was cut off at the output limit."
        case "max_requests":
            note = "The request above was stopped at the limit of model requests in one turn."
        case "refused":
            note = "The request above was refused."
        case _:
            assert_never(event.reason)
    return Text(text=f"<turn-note>{note}</turn-note>")
