"""A model's answer while it arrives: deltas in, content blocks out.

Pure. Owns how pieces become text, thoughts and tool requests with our own call ids. Knows no provider and no log.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from acp_bridge.content import AnswerBlock, JsonObject, Text, Thought, ToolRequest
from acp_bridge.errors import ToolError
from acp_bridge.llm import Kept, TextDelta, ThoughtDelta, ToolDelta
from acp_bridge.redaction import Secrets
from acp_bridge.text import escaped, mended, mended_text
from acp_bridge.tools import ArgumentText, Presentation, Tool, Understood, Workspace, read_arguments, understand

_TITLE = 240
"""Characters that are shown of a name that no tool has."""


@dataclass(slots=True)
class _Request:
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class _Spoken:
    """A text or thought under way; what bears a signature is whole."""

    kind: str
    form: str = ""
    pieces: list[str] = field(default_factory=list[str])
    signature: str = ""


@dataclass(slots=True)
class Answer:
    """Collects one attempt's deltas.

    Attributes:
        turn, step: where it belongs; call ids are made of them and of the request's place.
        secrets: left out of calls' arguments.
        understood: what the calls' arguments mean to their tools, by call id, once `content` was made.
    """

    turn: int
    step: int
    secrets: Secrets = field(default_factory=Secrets)
    understood: dict[str, Understood] = field(default_factory=dict[str, Understood], init=False)
    _blocks: list[_Spoken] = field(default_factory=list[_Spoken])
    _requests: dict[int, _Request] = field(default_factory=dict[int, _Request])

    @property
    def empty(self) -> bool:
        """Whether nothing that a reader or the program could use has arrived."""
        return not self._requests and not any("".join(b.pieces).strip() for b in self._blocks if b.kind == "text")

    def take(self, delta: TextDelta | ThoughtDelta | ToolDelta) -> None:
        """Add a delta."""
        match delta:
            case TextDelta():
                self._spoken("text").pieces.append(delta.text)
            case ThoughtDelta():
                thought = self._spoken("thought", delta.form)
                thought.pieces.append(delta.text)
                thought.signature = delta.signature  # it ends its thought: each signed one goes back as it came
            case ToolDelta():
                request = self._requests.setdefault(delta.index, _Request())
                request.name = request.name or delta.name
                request.arguments.append(delta.arguments)

    def _spoken(self, kind: str, form: str = "") -> _Spoken:
        """Return the block that a piece goes on with, or a new one."""
        last = self._blocks[-1] if self._blocks else None
        if last is None or (last.kind, last.form) != (kind, form) or last.signature:
            last = _Spoken(kind, form)
            self._blocks.append(last)
        return last

    def spoken(self, *, whole: bool = False) -> tuple[AnswerBlock, ...]:
        """Return the text and thoughts so far; half-made tool requests are left out.

        Unless the answer is `whole`, its thoughts go back to nobody but signed: one may have been cut off.
        """
        blocks: list[AnswerBlock] = []
        for block in self._blocks:
            text = mended_text("".join(block.pieces))
            if block.kind == "text" and text:
                blocks.append(Text(text=text))
            elif block.kind == "thought" and (text or block.signature):
                form = block.form if whole or block.signature else ""
                blocks.append(Thought(text=text, signature=mended_text(block.signature), form=form))
        return tuple(blocks)

    def content(
        self, tools: Mapping[str, Tool], workspace: Workspace, kept: Kept | None = None
    ) -> tuple[AnswerBlock, ...]:
        """Return the whole answer, its tool requests with how they are shown."""
        extras = kept.calls if kept is not None else {}
        return self.spoken(whole=True) + tuple(
            self._request(place, self._requests[index], extras.get(index), tools, workspace)
            for place, index in enumerate(sorted(self._requests), 1)
        )

    def _request(
        self, place: int, request: _Request, extra: JsonObject | None, tools: Mapping[str, Tool], workspace: Workspace
    ) -> ToolRequest:
        read = read_arguments(mended_text("".join(request.arguments)), self.secrets)
        name = mended_text(request.name) or "unnamed"
        call_id = f"call_{self.turn}_{self.step}_{place}"
        tool = tools.get(name)
        if tool is None:
            presentation = Presentation(title=escaped(name)[:_TITLE], kind="other")
        else:
            meant = self.understood[call_id] = _understand(read, tool)
            presentation = _present(tool, name, meant, workspace)
        return ToolRequest(
            call_id=call_id,
            name=name,
            arguments=read.text,
            title=escaped(self.secrets.hidden(mended_text(presentation.title))),  # also of a tool of somebody else's
            kind=presentation.kind,
            locations=tuple(replace(place, path=mended_text(place.path)) for place in presentation.locations),
            extra=mended(extra) if extra else None,
        )


def _understand(read: ArgumentText, tool: Tool) -> Understood:
    return Understood({}, problem=read.problem) if read.problem else understand(read.arguments, tool.spec.schema)


def _present(tool: Tool, name: str, meant: Understood, workspace: Workspace) -> Presentation:
    if meant.problem:
        return Presentation(title=name, kind=tool.spec.kind)
    try:
        return tool.present(meant.arguments, workspace)
    except ToolError:
        return Presentation(title=name, kind=tool.spec.kind)
