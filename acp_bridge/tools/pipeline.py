"""The one way from a tool request to its result: validate → permit → log the call → barrier → body → bound.

Owns that every request gets exactly one result (D7 of ARCHITECTURE.md), and that nothing slips between the tool barrier
and the body (D13). Knows neither a model nor a client. Logging is never cancelled: only the waits inside are.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio
import anyio.to_thread
import orjson

from acp_bridge.content import Failure, JsonObject, ShownBlock, Text, ToolRequest
from acp_bridge.effects import Cancellation, no_stray_cancellation
from acp_bridge.errors import BarrierFailed, ToolError
from acp_bridge.limits import RESULT
from acp_bridge.redaction import Secrets, stands_for
from acp_bridge.session import (
    Journal,
    PermissionAsked,
    PermissionDecided,
    PlanUpdated,
    Policy,
    ResultCode,
    ToolCalled,
    ToolResult,
)
from acp_bridge.text import escaped, mended, mended_text

from .asking import hidden_said, leading_elsewhere, readable, readable_entry
from .files import Files
from .guard import Commands
from .nested import inner_request, refusal_inside
from .permission import Choice, Mode, PermissionOption, Question, decide, denial, options_for
from .pictures import has_pictures, kept
from .progress import KEY_JOIN, Progress, Watcher
from .tool import Access, Call, Picture, Presentation, Previewing, Tool, ToolOutput, Workspace
from .understanding import Understood, understand

logger = logging.getLogger(__name__)

MAX_PARALLEL = 10
"""Calls marked parallel that run side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Runs the tool requests of one answer. A value: it holds nothing from one call to the next.

    Attributes:
        tools: by name, those that the model was offered.
        mode: asked at each call, since it may be narrowed while a turn runs.
        cancellation: cut short by its first cause; a started body is awaited.
        secrets: taken out of everything that a tool puts out, before it is logged or shown.
    """

    journal: Journal
    policy: Policy
    tools: Mapping[str, Tool]
    mode: Callable[[], Mode]
    workspace: Workspace
    files: Files
    commands: Commands
    watcher: Watcher
    cancellation: Cancellation
    secrets: Secrets = field(default_factory=Secrets)

    async def run(
        self, turn: int, step: int, requests: Sequence[ToolRequest], understood: Mapping[str, Understood]
    ) -> Failure | None:
        """Give every request its result; return why the turn must end in error, if it must.

        Args:
            turn: where the requests belong.
            step: likewise.
            requests: what one answer asks for.
            understood: what their arguments mean, by call id, of each that names a tool: they were read once, when
                it was said how the calls are shown.
        """
        failures: list[Failure] = []
        for group in self._groups(requests):
            if self.cancellation.cause is not None or failures:
                for request in group:
                    self._log_result(turn, step, request, _refusal("ABORTED_BEFORE_DISPATCH", _NEVER_RAN))
                continue
            async with anyio.create_task_group() as tasks:
                for request in group:
                    tasks.start_soon(self._handle, turn, step, request, understood.get(request.call_id), failures)
        return failures[0] if failures else None

    def _groups(self, requests: Sequence[ToolRequest]) -> Iterator[list[ToolRequest]]:
        """Yield runs of parallel calls, ten at most, and every other call alone, in the model's order."""
        group: list[ToolRequest] = []
        for request in requests:
            tool = self.tools.get(request.name)
            if group and (tool is None or not tool.spec.parallel or len(group) == MAX_PARALLEL):
                yield group
                group = []
            if tool is None or not tool.spec.parallel:
                yield [request]
            else:
                group.append(request)
        if group:
            yield group

    async def _handle(
        self, turn: int, step: int, request: ToolRequest, meant: Understood | None, failures: list[Failure]
    ) -> None:
        checked = self._validate(request, meant)
        if isinstance(checked, ToolOutput):
            self._log_result(turn, step, request, checked)
            return
        tool, arguments, access, note = checked
        progress = Progress(self, request, tool)
        refusal = await self._permit(tool, request, arguments, access, progress.made(access), note)
        if refusal is not None:
            self._log_result(turn, step, request, refusal)
            return
        self.journal.append(
            ToolCalled(
                turn=turn,
                step=step,
                call_id=request.call_id,
                name=request.name,
                arguments=arguments,
                effect=tool.spec.effect,
            )
        )
        output = await self._dispatch(tool, request, arguments, access, progress, failures)
        if note:  # of what it gave and was not heeded
            output = replace(output, content=(*output.content, Text(text=f"\n{note}")))
        if has_pictures(output):  # outside every scope: what a body has done is waited for
            stored = await anyio.to_thread.run_sync(kept, output, self.secrets)
            for name, data in stored.files.items():
                self.journal.attach(data, name)
            output = stored.output
        self._log_result(turn, step, request, output)

    def _validate(
        self, request: ToolRequest, meant: Understood | None
    ) -> tuple[Tool, JsonObject, Access, str] | ToolOutput:
        tool = self.tools.get(request.name)
        if tool is None or meant is None:
            known = ", ".join(sorted(self.tools))
            return _refusal("UNKNOWN_TOOL", f"There is no tool {request.name!r}. The tools are: {known}.")
        if meant.problem:
            return _refusal("INVALID_ARGUMENTS", meant.problem)
        note = meant.note
        try:
            arguments = mended(tool.check(meant.arguments))
            access = tool.access(arguments, self.workspace)
            if self._writes_blindly(tool, access) and (name := self.secrets.named_in(orjson.dumps(arguments).decode())):
                return _refusal("INVALID_ARGUMENTS", f"It was not run: its arguments hold {stands_for(name)}")
            return tool, arguments, access, note
        except ToolError as exc:
            return _refusal("INVALID_ARGUMENTS" if exc.code == "FAILED" else exc.code, f"{exc} {note}".rstrip())
        except Exception:
            logger.exception("tool %s failed on the arguments of %s", request.name, request.call_id)
            return _refusal("INVALID_ARGUMENTS", f"The arguments of {request.name} could not be read.")

    @staticmethod
    def _writes_blindly(tool: Tool, access: Access) -> bool:
        """Whether nobody sees what the call replaces, and so whether a stand-in takes a secret's place."""
        return access.kind == "execute" or (access.kind == "edit" and not isinstance(tool, Previewing))

    async def _permit(
        self, tool: Tool, request: ToolRequest, arguments: JsonObject, access: Access, call: Call, note: str
    ) -> ToolOutput | None:
        """Return the result of a call that may not run, None for one that may."""
        if self.cancellation.cause is not None:
            return _refusal("ABORTED_BEFORE_DISPATCH", _NEVER_RAN)
        grants = self.journal.log.state.grants.values()
        mode = self.mode()
        match decide(mode, access, tool=tool.spec.name, grants=grants):
            case "allow":
                return None
            case "deny":
                return _refusal("DENIED", denial(mode, "mode"))
            case "ask":
                refusal = await self._ask(tool, request, arguments, access, call, note)
        mode = self.mode()
        if refusal is None and decide(mode, access, tool=tool.spec.name, grants=()) == "deny":
            return _refusal("DENIED", denial(mode, "mode"))  # narrowed while the question was open
        return refusal

    async def _ask(
        self, tool: Tool, request: ToolRequest, arguments: JsonObject, access: Access, call: Call, note: str
    ) -> ToolOutput | None:
        shown: tuple[ShownBlock, ...] = ()
        try:
            with self.cancellation.scope():
                shown = await self._preview(tool, arguments, access, call)
        except ToolError as exc:
            return _refusal(exc.code, str(exc))
        if self.cancellation.cause is not None:
            return _refusal("ABORTED_BEFORE_DISPATCH", _NEVER_RAN)
        options = options_for(access)
        self.journal.append(PermissionAsked(call_id=request.call_id, options=tuple(_plain(options))))
        presentation = Presentation(title=request.title, kind=request.kind, locations=request.locations)
        said = (Text(text=escaped(note)),) if note else ()  # the model may think that it asked for more
        shown = (*leading_elsewhere(presentation, access, self.workspace), *said, *shown)
        choice = Choice(None)
        with self.cancellation.scope():
            choice = await self.watcher.ask(
                Question(
                    call_id=request.call_id,
                    presentation=presentation,
                    arguments=arguments,
                    options=options,
                    shown=shown,
                )
            )
        if choice.dismissed:  # the client's cancel may come before or after this answer (protocol: prompt turn)
            self.cancellation.cancel("client")
        if self.cancellation.cause is not None:  # an answer after the cancel is void
            self.journal.append(PermissionDecided(call_id=request.call_id, outcome="cancelled"))
            return _refusal("ABORTED_BEFORE_DISPATCH", _NEVER_RAN)
        option = next((option for option in options if option.option_id == choice.option_id), None)
        if option is None or option.kind not in ("allow_once", "allow_always"):
            self.journal.append(
                PermissionDecided(
                    call_id=request.call_id, outcome="denied", option_id=mended_text(choice.option_id or "")
                )
            )
            return _refusal("DENIED", denial(self.mode(), "nobody" if option is None else "person"))
        grant = None
        if option.kind == "allow_always":
            grant = {"id": f"grant_{call.key.rpartition(KEY_JOIN)[2]}", "tool": request.name, "scope": access.scope}
        self.journal.append(
            PermissionDecided(call_id=request.call_id, outcome="allowed", option_id=option.option_id, grant=grant)
        )
        return None

    async def _preview(self, tool: Tool, arguments: JsonObject, access: Access, call: Call) -> tuple[ShownBlock, ...]:
        """Return what the call would do, as far as that is known.

        Raises:
            ToolError: it could not be done now, and the model may know why: it could have read as much by itself.
        """
        if not isinstance(tool, Previewing):
            return ()
        try:
            shown = await tool.preview(arguments, call)
        except ToolError:
            if access.inside and not access.protected:
                raise
            return ()
        except Exception:
            logger.exception("tool %s failed to show what %s would do", tool.spec.name, call.call_id)
            return ()
        bounded = _bound(ToolOutput(content=(), shown=shown), self.secrets)
        return tuple(map(readable, bounded.shown))

    async def _dispatch(
        self,
        tool: Tool,
        request: ToolRequest,
        arguments: JsonObject,
        access: Access,
        progress: Progress,
        failures: list[Failure],
    ) -> ToolOutput:
        """Pass the tool barrier and run the body; nothing that waits stands between the two."""
        try:
            with self.cancellation.scope():
                await self.policy.before_tool(self.journal)
        except BarrierFailed as exc:
            failures.append(Failure(kind="not_saved", message=str(exc)))
            return _refusal("NOT_SAVED", f"It was not run: the session could not be saved. {exc}")
        if self.cancellation.cause is not None:  # also a cancel that came with the barrier's passing
            return _refusal("ABORTED_BEFORE_DISPATCH", _NEVER_RAN)
        mode = self.mode()
        if decide(mode, access, tool=tool.spec.name, grants=()) == "deny":  # narrowed while the call waited
            return _refusal("DENIED", f"{denial(mode, 'mode')} It was not run.")
        return await self._run_body(request, arguments, access, progress)

    async def _run_body(
        self, request: ToolRequest, arguments: JsonObject, access: Access, progress: Progress
    ) -> ToolOutput:
        try:
            with self.cancellation.scope():
                async with no_stray_cancellation():  # else the call would vanish from its batch without a result
                    return await progress.run(arguments, access)
        except ToolError as exc:
            return _refusal(exc.code, str(exc))
        except Exception:
            logger.exception("tool %s failed in call %s", request.name, request.call_id)
            return _refusal("FAILED", f"{request.name} failed inside; nothing more is known. Try another way.")
        so_far = f" Its output until then:\n{progress.output}" if progress.output else ""
        return _refusal("ABORTED", f"It was stopped after it had begun; it may have been done in part.{so_far}")

    async def run_inner(self, outer: Progress, name: str, arguments: JsonObject) -> ToolOutput:
        """Run a tool as a part of the call of another: under its intent and its barrier, which was passed.

        Everything else is as for any call: its arguments are checked, its permission is asked for, it can be stopped.
        """
        tool = self.tools.get(name)
        meant = None if tool is None else understand(mended(arguments), tool.spec.schema)
        request = inner_request(outer.request, tool, name, meant, self.workspace)
        if tool is not None and (refusal := refusal_inside(outer.depth, outer.tool, tool)):
            return _refusal("DENIED", refusal)
        checked = self._validate(request, meant)
        if isinstance(checked, ToolOutput):
            return checked
        tool, arguments, access, note = checked
        inner = Progress(self, request, tool, outer)
        async with outer.asking:  # one question at a time about one call
            refused = await self._permit(tool, request, arguments, access, inner.made(access), note)
        if refused is not None:
            return refused
        output = await self._run_body(request, arguments, access, inner)
        outer.known.update(output.digests)
        self._log_plan(output)
        return output

    def _log_plan(self, output: ToolOutput) -> None:
        if output.plan is not None:
            self.journal.append(PlanUpdated(entries=tuple(mended(readable_entry(entry)) for entry in output.plan)))

    def _log_result(self, turn: int, step: int, request: ToolRequest, output: ToolOutput) -> None:
        bounded = _bound(output, self.secrets)
        self._log_plan(bounded)
        self.journal.append(
            ToolResult(
                turn=turn,
                step=step,
                call_id=request.call_id,
                content=tuple(block for block in bounded.content if not isinstance(block, Picture)),  # all are named
                is_error=bounded.is_error,
                code=bounded.code,
                shown=bounded.shown,
                digests=dict(bounded.digests) or None,
            )
        )


_NEVER_RAN = "It was not run: the turn was stopped before it began."


def _refusal(code: str, text: str) -> ToolOutput:
    return ToolOutput(content=(Text(text=text),), is_error=True, code=_code(code))


def _code(code: str) -> ResultCode:
    match code:
        case "DENIED" | "INVALID_ARGUMENTS" | "UNKNOWN_TOOL" | "ABORTED_BEFORE_DISPATCH" | "ABORTED" | "TIMED_OUT":
            return code
        case "NOT_SAVED":
            return code
        case _:
            return "FAILED"


def _plain(options: Iterable[PermissionOption]) -> Iterator[JsonObject]:
    for option in options:
        yield {"optionId": option.option_id, "name": option.name, "kind": option.kind}


def _bound(output: ToolOutput, secrets: Secrets) -> ToolOutput:
    """Return the output as it can be stored and read: mended, without secrets, its text cut in the middle if long."""

    def fit(text: str) -> str:
        return secrets.hidden(mended_text(text))

    content = tuple(Text(text=_cut(fit(block.text))) if isinstance(block, Text) else block for block in output.content)
    shown = tuple(
        replace(block, text=_cut(fit(block.text)))
        if isinstance(block, Text)
        else replace(
            block,
            path=mended_text(block.path),
            old_text=None if block.old_text is None else fit(block.old_text),
            new_text=fit(block.new_text),
        )
        for block in output.shown
    )
    shown = tuple(part for block in shown for part in hidden_said(block))
    digests = {mended_text(path): digest for path, digest in output.digests.items()}
    return replace(output, content=content, shown=shown, digests=digests)


def _cut(text: str) -> str:
    if len(text) <= RESULT:
        return text
    half = RESULT // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"
