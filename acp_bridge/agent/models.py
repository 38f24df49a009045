"""What agents share: models by route, opened when first asked, closed together.

Owns their lifetime. Knows no session.
"""

import threading
from collections.abc import Callable

import anyio.to_thread

from acp_bridge.effects import close_together, pause_gc
from acp_bridge.errors import BridgeError
from acp_bridge.llm import Model


class Models:
    """Models by route.

    Opening one may import a provider's SDK, which takes seconds and must not stop the sessions of other models: it is
    done in a thread, by one thread at a time, since two that import one package can see half-made modules.
    """

    def __init__(
        self,
        open_model: Callable[[str], Model],
        *,
        takes_images: Callable[[str], bool] = lambda _route: True,
        is_judged: Callable[[str], bool] = lambda _route: False,
    ) -> None:
        """Take what makes models.

        Args:
            open_model: makes the model behind a route.
            takes_images: what is known of a route without opening it; it imports nothing.
            is_judged: judges a route without opening it, and says whether it could; raises as `open_model`.
        """
        self._open = open_model
        self._is_judged = is_judged
        self._takes_images = takes_images
        self._opened: dict[str, Model] = {}
        self._one_importer = threading.Lock()

    async def opened(self, route: str) -> Model:
        """Return the route's model, opened but not asked anything.

        Cancelled, it leaves at once; the thread goes on, and what it opens is there for the next who asks.

        Raises:
            BridgeError: the route is unknown, or lacks a key.
        """
        model = self._opened.get(route)
        return model or await anyio.to_thread.run_sync(self._open_once, route, abandon_on_cancel=True)

    def _open_once(self, route: str) -> Model:
        with self._one_importer:
            if route not in self._opened:
                with pause_gc():
                    self._opened[route] = self._open(route)
            return self._opened[route]

    async def problem(self, route: str) -> str:
        """Return what keeps a route's model from being opened, and what to do about it; empty if nothing does.

        Where that can be judged by what is set for it, nobody waits for an SDK: it is there when a prompt needs it.
        """
        try:
            if route not in self._opened and not self._is_judged(route):
                await self.opened(route)
        except BridgeError as exc:
            return str(exc)
        return ""

    async def warm_up(self, route: str) -> None:
        """Open what could be judged without; what is wrong with it is said to whoever asks it something."""
        try:
            if self._is_judged(route):
                await self.opened(route)
        except BridgeError:
            return

    def takes_images(self, route: str) -> bool:
        """Whether images in a prompt reach the route's model, as far as that is known without opening it."""
        model = self._opened.get(route)
        return model.takes_images if model is not None else self._takes_images(route)

    def window(self, route: str) -> int | None:
        """Return how many tokens fit into an opened route's context, if known."""
        model = self._opened.get(route)
        return model.context_window if model is not None else None

    async def aclose(self) -> None:
        """Close every model; one that fails to close does not keep the others open."""
        models, self._opened = list(self._opened.values()), {}
        await close_together(model.aclose for model in models)
