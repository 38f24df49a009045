"""A model's answer while it arrives: deltas in, content blocks out.

Pure. Owns how pieces become text, thoughts and tool requests with our own call ids. Knows no provider and no log.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from acp_bridge.content import AnswerBlock, Text, Thought, ToolRequest
from acp_bridge.errors import ToolError
from acp_bridge.llm import TextDelta, ThoughtDelta, ToolDelta
from acp_bridge.text import escaped, mended_text
from acp_bridge.tools import Drawing, Tool, Workspace, parsed_arguments

_TITLE = 240
"""Characters that are shown of a name that no tool has."""


@dataclass(slots=True)
class _Request:
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Answer:
    """Collects one attempt's deltas.

    Attributes:
        turn, step: where it belongs; call ids are made of them and of the request's place.
    """

    turn: int
    step: int
    _blocks: list[tuple[str, list[str], list[str]]] = field(default_factory=list[tuple[str, list[str], list[str]]])
    _requests: dict[int, _Request] = field(default_factory=dict[int, _Request])

    @property
    def empty(self) -> bool:
        """Whether nothing that a reader or the program could use has arrived."""
        return not self._requests and not any("".join(text).strip() for kind, text, _ in self._blocks if kind == "text")

    def take(self, delta: TextDelta | ThoughtDelta | ToolDelta) -> None:
        """Add a delta."""
        match delta:
            case TextDelta():
                self._text("text").append(delta.text)
            case ThoughtDelta():
                self._text("thought").append(delta.text)
                if delta.signature:  # it ends its thought: each signed one goes back to its provider as it came
                    self._blocks[-1][2].append(delta.signature)
                    self._blocks.append(("end", [], []))
            case ToolDelta():
                request = self._requests.setdefault(delta.index, _Request())
                request.name = request.name or delta.name
                request.arguments.append(delta.arguments)

    def _text(self, kind: str) -> list[str]:
        if not self._blocks or self._blocks[-1][0] != kind:
            self._blocks.append((kind, [], []))
        return self._blocks[-1][1]

    def spoken(self) -> tuple[AnswerBlock, ...]:
        """Return the text and thoughts so far; half-made tool requests are left out."""
        blocks: list[AnswerBlock] = []
        for kind, pieces, signature in self._blocks:
            text = mended_text("".join(pieces))
            if kind == "text" and text:
                blocks.append(Text(text=text))
            elif kind == "thought" and (text or signature):
                blocks.append(Thought(text=text, signature="".join(signature)))
        return tuple(blocks)

    def content(self, tools: Mapping[str, Tool], workspace: Workspace) -> tuple[AnswerBlock, ...]:
        """Return the whole answer, its tool requests drawn."""
        requests = [self._requests[index] for index in sorted(self._requests)]
        return self.spoken() + tuple(
            self._request(place, request, tools, workspace) for place, request in enumerate(requests, 1)
        )

    def _request(self, place: int, request: _Request, tools: Mapping[str, Tool], workspace: Workspace) -> ToolRequest:
        text = mended_text("".join(request.arguments))
        name = mended_text(request.name) or "unnamed"
        drawing = _drawn(tools.get(name), name, text, workspace)
        return ToolRequest(
            call_id=f"call_{self.turn}_{self.step}_{place}",
            name=name,
            arguments=text,
            title=escaped(mended_text(drawing.title)),  # also of a tool of somebody else's
            kind=drawing.kind,
            locations=tuple(replace(place, path=mended_text(place.path)) for place in drawing.locations),
        )


def _drawn(tool: Tool | None, name: str, arguments: str, workspace: Workspace) -> Drawing:
    if tool is None:
        return Drawing(title=escaped(name)[:_TITLE], kind="other")
    try:
        return tool.draw(parsed_arguments(arguments), workspace)
    except ToolError:
        return Drawing(title=name, kind=tool.spec.kind)
