"""One server of a session: started, started once more when it dies, and called while it is there.

Owns how often it is started, what is said of it, and that a call reaches only a tool that is still what it was when
the call was allowed. Knows no process: each start is a `Life`.

Decision: it is started again once in a session, and at once. What dies twice would die a third time, and each time a
call may be under way of which nobody knows what became; so the user is told, and decides. A call that was under way is
never sent again. Nothing is started twice where that can change nothing, such as a command that is not there.
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import anyio

from acp_bridge.content import JsonObject
from acp_bridge.errors import ToolError
from acp_bridge.redaction import Secrets
from acp_bridge.text import mended_text

from .life import EXIT_S, Connect, Life
from .offer import Offer
from .spec import McpOptions, ServerSpec

STARTS = 2
"""How often a server is started in one session."""
RETURN_S = 10.0
"""How long a call waits for a server that is being started again."""
CALL_KEY_META = "acp-bridge/callKey"
"""Under which member of a call's `_meta` a server finds the key of the call."""
MAX_ERROR = 4000
"""Characters of a server's error that the model is given."""

Listed: TypeAlias = Callable[[list[Any], bool], Mapping[str, Offer]]
"""Takes what a server lists, and whether there is more; returns what is offered of it, by full name."""


class Server:
    """One server.

    Args:
        secrets: taken out of all that it says, before it is cut.
        sdk: gives the way to speak over a wire, once it is imported; None if it cannot be.
        listed: takes what the server lists as its tools, at each start.
        troubled: takes the reason for a failure, in words.
        gone: its tools cannot be called any more, for this reason.

    Attributes:
        answered: it is ready, or failed for good.
        missed: that it is there is news: somebody was told that it ended, or went on without it.
    """

    def __init__(
        self,
        spec: ServerSpec,
        options: McpOptions,
        *,
        secrets: Secrets,
        sdk: Callable[[], Awaitable[Connect | None]],
        listed: Listed,
        troubled: Callable[[str], None],
        gone: Callable[[str], None],
    ) -> None:
        self.spec = spec
        self.answered = anyio.Event()
        self.missed = False
        self._options = options
        self._sdk = sdk
        self._listed = listed
        self._troubled = troubled
        self._gone = gone
        self._secrets = secrets.with_more(spec.secrets)
        self._life: Life | None = None
        self._starts = 0
        self._turned = anyio.Event()  # a life got ready or ended: who waits for one looks again
        self._offered: Mapping[str, Offer] = {}
        self._ended = ""

    async def run(self, env: Mapping[str, str], cwd: Path, running: Path | None) -> None:
        """Live, at most `STARTS` times, until the server ends for good or this is cancelled."""
        try:
            while not self._ended:
                await self._begin_life().run(env, cwd, running)
        finally:
            self._ended = self._ended or "it was ended with the session"
            self._turn()
            self.answered.set()

    def _begin_life(self) -> Life:
        self._starts += 1
        self._life = life = Life(
            self.spec, self._options, secrets=self._secrets, sdk=self._sdk, ready=self._ready, ended=self._tell
        )
        return life

    def _ready(self, tools: list[Any], more: bool) -> None:
        self._offered = self._listed(tools, more)
        self.answered.set()
        self._turn()

    def _tell(self, life: Life) -> None:
        """Say how a life ended. One that ended before it was ready, and soon, is told of with the next one's end."""
        if self._starts == STARTS or life.in_vain:
            self._ended = life.why
            self._offered = {}
            self._gone(life.why)
            self._troubled(life.why + (_AGAIN if self._starts > 1 else ""))
            self._turn()
            self.answered.set()
        elif life.was_ready or life.hung:
            self.missed = True
            not_twice = "; a call that was under way is not repeated" if life.was_ready else ""
            self._troubled(f"{life.why}. It is being started again, once{not_twice}")

    def _turn(self) -> None:
        turned, self._turned = self._turned, anyio.Event()
        turned.set()

    async def call(self, offer: Offer, arguments: JsonObject, key: str = "") -> JsonObject:
        """Have it run a tool and return its result; `key` lets it tell a call that comes again.

        Raises:
            ToolError: with words for the model.
        """
        life, starts = await self._there(), self._starts
        talk = None if life is None else life.talk
        if life is None or talk is None:
            raise ToolError(self._absent())
        if self._offered.get(offer.name) != offer:
            raise ToolError(f"It was not run: the MCP server {self._name} was started again, and {_ANOTHER}")
        params = {"name": offer.tool, "arguments": arguments, **({"_meta": {CALL_KEY_META: key}} if key else {})}
        try:
            return await talk.ask("tools/call", params, self._options.call_s)
        except ToolError as exc:
            advice = " It was told to stop, but may have done it." if exc.code == "TIMED_OUT" else ""
            raise ToolError(f"MCP server {self._name}: {self._error_words(exc)}.{advice}", code=exc.code) from exc
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            with anyio.move_on_after(2 * EXIT_S):
                await life.over.wait()
            words = f"The MCP server {self._name} ended in the middle of the call: {life.why or _UNKNOWN}"
            way_on = _RETURNS if starts < STARTS and not life.in_vain else _ADVICE
            raise ToolError(f"{words}. {_HALF} {way_on}", code="ABORTED") from None

    async def _there(self) -> Life | None:
        """Return the life that can be spoken to, once there is one; None if there is none, or it takes too long."""
        with anyio.move_on_after(RETURN_S):
            while not self._ended:
                if self._life is not None and self._life.talk is not None:
                    return self._life
                await self._turned.wait()
        return None

    @property
    def _name(self) -> str:
        return repr(self.spec.name[:100])

    def _absent(self) -> str:
        if self._ended:
            return f"It was not run: the MCP server {self._name} ended: {self._ended}. {_ADVICE}"
        return f"It was not run: the MCP server {self._name} ended and is still being started again. Go on without it."

    def _error_words(self, error: ToolError) -> str:
        return mended_text(self._secrets.hidden(str(error))[:MAX_ERROR])


_AGAIN = ". It was started twice and is not started any more; open the session again to have it tried anew"
_ADVICE = "Its tools cannot be called any more: go on without them, or ask the user to open the session again."
_RETURNS = "The server is being started again; its tools can be called once more."
_ANOTHER = "this tool is gone or is defined in another way since. Look at the tools as they are now."
_UNKNOWN = "why is not known"
_HALF = "Whether the call was carried out is not known: look before it is made again."
