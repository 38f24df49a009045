"""Somebody else's tool behind one boundary: what it raises or returns wrongly is named, and changes nothing else.

Owns what a tool may be offered as, and the words about one that does not keep its port. Knows no tool by name.

Decision: a tool's spec is read once, when it is composed: what a model is offered does not change under it, and a spec
that no provider takes is refused before there is a session.
"""

import inspect
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast, get_args

import orjson

from acp_bridge.content import Diff, Effect, Image, JsonObject, Location, ShownBlock, Text, ToolKind
from acp_bridge.effects import no_stray_cancellation
from acp_bridge.errors import PART_FAILURES, ConfigError, ToolError
from acp_bridge.ports import require_current_names
from acp_bridge.session.events import ResultCode
from acp_bridge.text import describe, escaped

from .tool import (
    Access,
    AccessKind,
    Call,
    Examinable,
    Finding,
    Picture,
    Presentation,
    Previewing,
    Tool,
    ToolOutput,
    ToolSpec,
    Workspace,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What every provider takes for a tool's name (OpenAI's and Anthropic's rule, the narrowest)."""

RESERVED: Final = "mcp__"
"""How the names of MCP servers' tools begin."""

_METHODS: Final = ("check", "present", "access", "run")


class ContainedTool:
    """A tool whose failures become answers: to the model in words, to the person in the call's card, to stderr whole.

    Args:
        tool: keeps the port, or does not.
        part: what it is named by, e.g. `'mine:Greet'`.

    Raises:
        ConfigError: it is no tool, or is offered as no provider takes it.
    """

    def __init__(self, tool: Tool, part: str) -> None:
        self.spec = _offerable_spec(tool, part)
        self._tool = tool
        self._part = part

    def check(self, arguments: JsonObject) -> JsonObject:
        """Have the arguments checked."""
        checked = self._call("check", lambda: self._tool.check(arguments))
        return self._require("check", checked, isinstance(cast("object", checked), dict), "a dict")

    def present(self, arguments: JsonObject, workspace: Workspace) -> Presentation:
        """Have it said how the call is shown; one that cannot say is shown by its name."""
        try:
            presentation = self._call("present", lambda: self._tool.present(arguments, workspace))
            return self._require("present", presentation, _is_presentation(presentation), "a Presentation")
        except ToolError:
            return Presentation(title=f"{self.spec.name} (could not be drawn)", kind=self.spec.kind)

    def access(self, arguments: JsonObject, workspace: Workspace) -> Access:
        """Have it said what is touched; a tool that cannot say may not run."""
        access = self._call("access", lambda: self._tool.access(arguments, workspace))
        return self._require("access", access, _is_access(access), "an Access")

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        """Have it done."""
        try:
            async with no_stray_cancellation():
                output = await self._tool.run(arguments, call)
        except ToolError:
            raise
        except PART_FAILURES as exc:
            logger.exception("the tool %s (%s) failed in call %s", self.spec.name, self._part, call.call_id)
            raise ToolError(
                f"{self.spec.name} failed after it had begun: {describe(exc)}. It may have been done in part. "
                f"{self._defect}"
            ) from exc
        if problem := _problem_of(output):
            logger.error("the tool %s (%s) returned %s", self.spec.name, self._part, problem)
            raise ToolError(
                f"{self.spec.name} ran to its end, and what it returned cannot be used: {problem}. Do not repeat it "
                f"for its result: it may have done what it does. {self._defect}"
            )
        return output

    def _call(self, method: str, body: Callable[[], T]) -> T:
        try:
            return body()
        except ToolError:
            raise
        except PART_FAILURES as exc:
            logger.exception("the tool %s (%s) failed in %s()", self.spec.name, self._part, method)
            raise ToolError(f"{self.spec.name} failed in {method}(): {describe(exc)}. {self._defect}") from exc

    def _require(self, method: str, value: T, holds: object, wanted: str) -> T:
        if holds:
            return value
        given = _name_of(value)
        logger.error("the tool %s (%s) returned %s from %s()", self.spec.name, self._part, given, method)
        raise ToolError(f"{self.spec.name} returned {given} from {method}(), and not {wanted}. {self._defect}")

    @property
    def _defect(self) -> str:
        return f"This is a defect of the tool ({self._part}), not of the call: tell the user."


class _ContainedPreviewing(ContainedTool):
    """A tool that shows what it would do."""

    def __init__(self, tool: Tool, part: str) -> None:
        super().__init__(tool, part)
        self._previewing = cast("Previewing", tool)

    async def preview(self, arguments: JsonObject, call: Call) -> tuple[ShownBlock, ...]:
        """Have it shown; who is asked is told if it cannot be."""
        try:
            async with no_stray_cancellation():
                shown: object = await self._previewing.preview(arguments, call)
        except ToolError:
            raise
        except PART_FAILURES as exc:
            logger.exception("the tool %s (%s) failed in preview()", self.spec.name, self._part)
            return (Text(text=f"{self.spec.name} could not show what it would do: {describe(exc)}"),)
        if problem := _wrong_blocks(shown, (Text, Diff), "preview()"):
            logger.error("the tool %s (%s) returned %s", self.spec.name, self._part, problem)
            return (Text(text=f"{self.spec.name} could not show what it would do: {problem}"),)
        return tuple(cast("Iterable[ShownBlock]", shown))


class _ContainedExaminable(ContainedTool):
    """A tool that can find out after a crash what became of a call."""

    def __init__(self, tool: Tool, part: str) -> None:
        super().__init__(tool, part)
        self._examinable = cast("Examinable", tool)

    async def evidence(self, arguments: JsonObject, call: Call) -> JsonObject | None:
        """Have evidence given; a call without runs all the same."""
        try:
            async with no_stray_cancellation():
                evidence = await self._examinable.evidence(arguments, call)
        except PART_FAILURES:
            logger.exception("the tool %s (%s) failed in evidence()", self.spec.name, self._part)
            return None
        if evidence is None or isinstance(cast("object", evidence), dict):
            return evidence
        logger.error("the tool %s (%s) returned %s from evidence()", self.spec.name, self._part, _name_of(evidence))
        return None

    async def examine(self, evidence: JsonObject, call: Call) -> Finding:
        """Have it looked; what cannot be used is no claim."""
        try:
            async with no_stray_cancellation():
                finding = await self._examinable.examine(evidence, call)
        except PART_FAILURES:
            logger.exception("the tool %s (%s) failed in examine()", self.spec.name, self._part)
            return Finding(claim=None)
        if isinstance(cast("object", finding), Finding) and _is_finding(finding):
            return finding
        logger.error("the tool %s (%s) returned what is no Finding from examine()", self.spec.name, self._part)
        return Finding(claim=None)


class _ContainedPreviewingExaminable(_ContainedPreviewing, _ContainedExaminable):
    """A tool that has both."""


def contained(tool: Tool, part: str) -> Tool:
    """Return `tool` behind the boundary.

    Raises:
        ConfigError: it is no tool, or is offered as no provider takes it.
    """
    match isinstance(tool, Previewing), isinstance(tool, Examinable):
        case True, True:
            return _ContainedPreviewingExaminable(tool, part)
        case True, False:
            return _ContainedPreviewing(tool, part)
        case False, True:
            return _ContainedExaminable(tool, part)
        case _:
            return ContainedTool(tool, part)


def composed_tools(builtin: Iterable[Tool], further: Iterable[tuple[str, Tool]]) -> tuple[Tool, ...]:
    """Return all tools by what they are offered as; a further one of a built-in's name replaces it.

    Raises:
        ConfigError: one is no tool, or two of the further ones have one name.
    """
    by_name = {tool.spec.name: tool for tool in builtin}
    parts: dict[str, str] = {}
    for part, tool in further:
        boxed = contained(tool, part)
        name = boxed.spec.name
        if name in parts:
            raise ConfigError(f"two tools are named {name!r}: {parts[name]} and {part}; rename one or leave it out")
        parts[name] = part
        by_name[name] = boxed
    return tuple(by_name.values())


def _offerable_spec(tool: object, part: str) -> ToolSpec:
    """Return the tool's spec as every provider takes it."""
    if isinstance(tool, type):
        raise ConfigError(f"the tool {part} is a class; give one that is made: {tool.__name__}()")
    try:
        spec = cast("object", cast("Tool", tool).spec)
    except PART_FAILURES as exc:
        raise ConfigError(f"the tool {part} has no spec that can be read: {describe(exc)}") from exc
    if not isinstance(spec, ToolSpec):
        raise ConfigError(f"the tool {part} has as its spec {_name_of(spec)}, and not a ToolSpec")
    require_current_names(tool, "Tool", f"the tool {part}")
    if missing := [name for name in _METHODS if not callable(getattr(tool, name, None))]:
        raise ConfigError(f"the tool {part} has no {missing[0]}(); a tool has {', '.join(_METHODS)} and a spec")
    if not inspect.iscoroutinefunction(getattr(tool, "run", None)):
        raise ConfigError(f"the tool {part} has a run() that is not 'async def'")
    if problem := _problem_of_spec(spec):
        raise ConfigError(f"the tool {part} cannot be offered: {problem}")
    return spec


def _problem_of_spec(spec: ToolSpec) -> str:
    """Return why no provider would take it; empty if all do."""
    named = cast("Any", spec.name)
    if not isinstance(named, str) or not NAME.fullmatch(named):
        return f"its name {escaped(repr(named))[:100]} is not of 1 to 64 letters, digits, '_' and '-'"
    if named.startswith(RESERVED):
        return f"its name {named!r} begins with {RESERVED!r}, as those of MCP servers' tools do"
    if not isinstance(cast("Any", spec.description), str):
        return "its description is no text"
    if spec.kind not in get_args(ToolKind) or spec.effect not in get_args(Effect):
        return f"its kind must be one of {get_args(ToolKind)} and its effect one of {get_args(Effect)}"
    try:
        return _problem_of_schema(spec.schema)
    except PART_FAILURES as exc:
        return f"no JSON Schema can be made of its parameters: {describe(exc)}"


def _problem_of_schema(parameters: object) -> str:
    if not isinstance(parameters, dict) or cast("JsonObject", parameters).get("type") != "object":
        return "its parameters are no JSON Schema of type object: write {'type': 'object', 'properties': {…}}"
    schema = cast("JsonObject", parameters)
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not all(isinstance(each, dict | bool) for each in properties.values()):  # pyright: ignore[reportUnknownVariableType]
        return "the 'properties' of its parameters are no object of schemas"
    if not isinstance(required, list) or not all(isinstance(each, str) for each in required):  # pyright: ignore[reportUnknownVariableType]
        return "'required' in its parameters is no list of names"
    try:
        orjson.dumps(schema)
    except (TypeError, ValueError) as exc:
        return f"its parameters hold what JSON cannot carry: {describe(exc)}"
    return ""


def _is_presentation(value: object) -> bool:
    return (
        isinstance(value, Presentation)
        and isinstance(cast("Any", value.title), str)
        and value.kind in get_args(ToolKind)
        and isinstance(cast("Any", value.locations), tuple)
        and all(isinstance(cast("Any", place), Location) and _is_text(place.path) for place in value.locations)
        and all(place.line is None or _is_number(place.line) for place in value.locations)
    )


def _is_access(value: object) -> bool:
    return (
        isinstance(value, Access)
        and value.kind in get_args(AccessKind)
        and _is_text(value.scope)
        and isinstance(cast("Any", value.paths), tuple)
        and all(isinstance(cast("Any", path), Path) for path in value.paths)
    )


def _is_finding(finding: Finding) -> bool:
    """Whether it can be told; only what ended has an output, and that one has it."""
    if finding.claim not in ("done", "not_done", "ended", None) or not _is_text(finding.known):
        return False
    return not _problem_of(finding.output) if finding.claim == "ended" else finding.output is None


def _problem_of(output: object) -> str:
    """Return why an output cannot be logged and shown; empty if it can."""
    if not isinstance(output, ToolOutput):
        return f"{_name_of(output)}, and not a ToolOutput"
    if problem := _wrong_blocks(output.content, (Text, Image, Picture), "content"):
        return problem
    if problem := _wrong_blocks(output.shown, (Text, Diff), "shown"):
        return problem
    if output.code is not None and output.code not in get_args(ResultCode):
        return f"a code {escaped(repr(output.code))[:100]} that is none of {', '.join(get_args(ResultCode))}"
    digests, plan = cast("object", output.digests), cast("object", output.plan)
    if not isinstance(digests, Mapping) or not _all_texts(cast("Mapping[object, object]", digests)):
        return "digests that are no texts by path"
    if plan is not None and not (isinstance(plan, tuple | list) and all(isinstance(entry, dict) for entry in plan)):  # pyright: ignore[reportUnknownVariableType]
        return "a plan that is no tuple of objects"
    return ""


def _wrong_blocks(blocks: object, kinds: tuple[type, ...], where: str) -> str:
    names = " and ".join(kind.__name__ for kind in kinds)
    if not isinstance(blocks, tuple | list):
        return f"{_name_of(blocks)} as {where}, and not a tuple of {names}"
    for block in cast("Iterable[object]", blocks):
        texts: tuple[object, ...] = ()
        match block:
            case Text() if Text in kinds:
                texts = (block.text,)
            case Image() if Image in kinds:
                texts = (block.file, block.mime_type, block.uri)
            case Picture() if Picture in kinds and isinstance(cast("object", block.data), bytes):
                texts = (block.uri,)
            case Diff() if Diff in kinds:
                texts = (block.path, block.new_text, block.old_text or "")
            case _:
                return f"{_name_of(block)} in {where}, where {names} may be"
        if not all(map(_is_text, texts)):
            return f"a {type(block).__name__} in {where} whose members are no texts"
    return ""


def _all_texts(mapping: Mapping[object, object]) -> bool:
    return all(map(_is_text, (*mapping.keys(), *mapping.values())))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _name_of(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
