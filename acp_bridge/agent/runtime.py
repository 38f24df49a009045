"""What agents share: models by route, opened when first asked, closed together.

Owns their lifetime. Knows no session.
"""

from collections.abc import Callable

from acp_bridge.effects import close_together
from acp_bridge.llm import Model


class Models:
    """Models by route."""

    def __init__(self, open_model: Callable[[str], Model]) -> None:
        """`open_model` makes the model behind a route; it may import a provider's SDK, which takes a second."""
        self._open = open_model
        self._opened: dict[str, Model] = {}

    async def opened(self, route: str) -> Model:
        """Return the route's model.

        Raises:
            BridgeError: the route is unknown, or lacks a key.
        """
        return self.check(route)

    def check(self, route: str) -> Model:
        """Open the route's model if it is not open, without asking it anything.

        Raises:
            BridgeError: the route is unknown, or lacks a key.
        """
        if route not in self._opened:
            self._opened[route] = self._open(route)
        return self._opened[route]

    def window(self, route: str) -> int | None:
        """Return how many tokens fit into an opened route's context, if known."""
        model = self._opened.get(route)
        return model.context_window if model is not None else None

    async def aclose(self) -> None:
        """Close every model; one that fails to close does not keep the others open."""
        models, self._opened = list(self._opened.values()), {}
        await close_together(model.aclose for model in models)
