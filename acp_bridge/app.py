"""The composition of the server: which parts, in which order, and the one way to end.

Owns the ordered effect from the first line read to the exit code. Imports nothing heavy at the top: `initialize` is
answered with anyio, orjson and this program's own wire. A warm-up thread then imports what every session needs, once,
and everything else that a client asks waits for it. That is the one place where imports are not at the top. A
provider's SDK comes behind it, and only a prompt waits for that.

Decision: whatever ends the program ends it here. End of input, a signal, a broken stdout and an error all set one
`Ending`; the parts are then left in reverse order, within one deadline. A watchdog ends the process should even that
hang, and a second signal ends it at once.
"""

import importlib
import logging
import os
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from acp_bridge import __version__
from acp_bridge.acp import ClientCapabilities, auth_methods
from acp_bridge.bridge import Handshake
from acp_bridge.config import Config
from acp_bridge.effects import Deadline, Key, Part, Services, compose, flatten_exceptions
from acp_bridge.errors import ConfigError
from acp_bridge.rpc import Connection, Peer

if TYPE_CHECKING:  # the types of what the warm-up imports: `initialize` must not wait for them, and a typo must be seen
    from acp_bridge.bridge.bridge import Bridge
    from acp_bridge.llm import Model
    from acp_bridge.replacements import Replacements
    from acp_bridge.session import ObserverSource, Policy, Store
    from acp_bridge.tools import Tool

logger = logging.getLogger(__name__)

IDLE_S = 2.0
"""How long dispose may take when nothing runs."""
BUSY_S = 5.0
"""How long it may take in a turn."""
_WATCHDOG_S = 0.5
"""How long after the deadline the process is ended from outside the event loop."""
STUCK_S = 60.0
"""How long a client may take nothing of what waits for it."""
_DRAIN_S = 0.5
"""The least time that is left for what is queued to be written."""

EXIT_FAILURE = 1


class Ending:
    """Why the program ends, once: the first cause gives the exit code and starts the deadline.

    Attributes:
        code: the exit code; None as long as nothing has ended it.
    """

    def __init__(self, busy: Callable[[], bool]) -> None:
        self.code: int | None = None
        self._busy = busy
        self._begun = anyio.Event()
        self._deadline: Deadline | None = None
        self._watchdog: threading.Timer | None = None

    def begin(self, code: int, why: str) -> None:
        """End with `code`; later causes change nothing, unless they are failures."""
        if self.code is None:
            self.code = code
            logger.info("ending: %s", why)
            self.deadline()
            self._begun.set()
        elif self.code == 0 and code == EXIT_FAILURE:
            self.code = code

    def deadline(self) -> Deadline:
        """Return the one deadline; the first call starts it."""
        if self._deadline is None:
            self._deadline = Deadline.after(BUSY_S if self._busy() else IDLE_S)
            after_s = self._deadline.remaining_s() + _WATCHDOG_S
            self._watchdog = _end_process_after(after_s, lambda: self.code or EXIT_FAILURE)
        return self._deadline

    def reached(self) -> None:
        """Call the watchdog off: the program has ended in time, and the process may be somebody else's."""
        if self._watchdog is not None:
            self._watchdog.cancel()

    async def wait(self) -> None:
        """Wait until something ends the program."""
        await self._begun.wait()


def _end_process_after(seconds: float, code: Callable[[], int]) -> threading.Timer:
    def end() -> None:
        logger.error("the program did not end in time; what was not written is lost to the client")
        os._exit(code())

    watchdog = threading.Timer(seconds, end)
    watchdog.daemon = True
    watchdog.start()
    return watchdog


async def serve(
    config: Config,
    wire: Connection,
    *,
    store: "Store | None" = None,
    policy: "Policy | None" = None,
    open_model: "Callable[[str], Model] | None" = None,
    tools: "Iterable[Tool]" = (),
    observers: "Iterable[ObserverSource]" = (),
    system: str = "",
    client: ClientCapabilities | None = None,
) -> int:
    """Serve one connection on `wire` until it ends; return the exit code.

    Args:
        config: all settings.
        wire: the claimed descriptors, any two others, or memory (`MemoryWire.pair`).
        store, policy, open_model, tools, observers, system: see `acp_bridge.replacements.Replacements`.
        client: the client's capabilities, if its `initialize` was answered already (see `acp_bridge.startup`).
    """
    handshake = Handshake(
        program_version=__version__,
        auth_methods=lambda: auth_methods(configured=config.model_configured),
        client=client,
    )

    def replacements() -> "Replacements":
        from acp_bridge.replacements import Replacements

        return Replacements(
            store=store,
            policy=policy,
            open_model=open_model,
            tools=tuple(tools),
            observers=tuple(observers),
            system=system,
        )

    bridges: list[Bridge] = []
    ending = Ending(busy=lambda: any(bridge.busy for bridge in bridges))
    async with wire:
        peer = Peer(wire, admit=handshake.admit, notify=handshake.notify, gate=handshake.gate)
        async with peer, anyio.create_task_group() as tasks:
            await tasks.start(watch_signals, ending)
            tasks.start_soon(_serve_peer, peer, wire, ending)
            tasks.start_soon(_watch_reader, wire, ending)
            try:
                await _run(config, replacements, peer, tasks, handshake, ending, bridges)
            except* ConfigError as group:
                why = config.secrets.hidden("; ".join(map(str, flatten_exceptions(group))))
                logger.error("the agent could not start: %s", why)  # noqa: TRY400  a setting is wrong, and no code
                handshake.fail(why)
                await ending.wait()  # whoever asks is told; an agent that is gone could tell nobody
            except* Exception:
                logger.exception("the program failed")
                handshake.fail()
                ending.begin(EXIT_FAILURE, "a failure")
            finally:
                with ending.deadline().shield():
                    await wire.drain(max(ending.deadline().remaining_s(), _DRAIN_S))
                tasks.cancel_scope.cancel()
    ending.reached()
    return ending.code or 0


async def _run(
    config: Config,
    replacements: "Callable[[], Replacements]",
    peer: Peer,
    tasks: TaskGroup,
    handshake: Handshake,
    ending: Ending,
    bridges: "list[Bridge]",
) -> None:
    """Warm up once `initialize` is answered, then hold the parts until the program ends."""
    async with _until_ended(ending) as still_running:
        await handshake.initialized.wait()
        await anyio.to_thread.run_sync(_warm_up, abandon_on_cancel=True)
    if not still_running():
        return
    from acp_bridge.bridge.bridge import Bridge, bridging  # imported by now: these are looked up
    from acp_bridge.composition import ASSEMBLY, SESSIONS, parts

    front: Key[Bridge] = Key("bridge")

    def set_up(services: Services) -> AbstractAsyncContextManager[Bridge]:
        return bridging(peer, handshake.client, services[SESSIONS], services[ASSEMBLY], tasks, ending.deadline)

    made = parts(config, replacements(), ending.deadline)
    async with compose((*made, Part(front, set_up))) as services:
        bridges.append(services[front])
        handshake.open(services[front])
        tasks.start_soon(services[ASSEMBLY].models.warm_up, services[ASSEMBLY].route)  # an SDK: a prompt waits for it
        await ending.wait()


@asynccontextmanager
async def _until_ended(ending: Ending) -> AsyncGenerator[Callable[[], bool]]:
    """Cancel the block when the program ends first; the value says whether it did not."""
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            await ending.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        yield lambda: ending.code is None
        tasks.cancel_scope.cancel()


def _warm_up() -> None:
    """Import what every session needs, in one thread: two can see half-made modules."""
    importlib.import_module("acp_bridge.bridge.bridge")
    importlib.import_module("acp_bridge.composition")


async def _serve_peer(peer: Peer, wire: Connection, ending: Ending) -> None:
    await peer.serve()
    if wire.broken.is_set():
        ending.begin(EXIT_FAILURE, "the client takes no more")
    else:
        ending.begin(0, "the input has ended")


async def _watch_reader(wire: Connection, ending: Ending) -> None:
    """End the program when its client has taken nothing for a minute although there is much to take."""
    while True:
        taken = wire.written_bytes
        await anyio.sleep(STUCK_S)
        if wire.congested and wire.written_bytes == taken:
            ending.begin(EXIT_FAILURE, "the client does not read")
            return


async def watch_signals(ending: Ending, *, task_status: anyio.abc.TaskStatus[None]) -> None:
    """Let the first signal begin the end, if nothing else has, and a second one be it."""
    signalled = False  # editors hang up and send SIGTERM back to back: that is one end, not two
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
        task_status.started()
        async for number in received:
            if signalled:
                os._exit(128 + number)  # a second one: by the crash path, which loses nothing that was settled
            signalled = True
            ending.begin(128 + number, f"signal {signal.Signals(number).name}")
