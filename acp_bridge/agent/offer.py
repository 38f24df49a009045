"""What a model is offered of the tools, as the log can hold it.

Owns the making of it from specs. Knows no request and no log.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from acp_bridge.content import JsonObject
from acp_bridge.text import mended
from acp_bridge.tools import Tool, ToolSpec


@dataclass(slots=True)
class Offer:
    """Keeps what it last made: mending every schema is slow, and the tools are the same at almost every step."""

    _specs: tuple[ToolSpec, ...] = ()
    _made: tuple[JsonObject, ...] = ()

    def of(self, tools: Iterable[Tool]) -> tuple[JsonObject, ...]:
        """Return name, description and parameters of each tool; the same objects as long as the specs are equal."""
        specs = tuple(tool.spec for tool in tools)
        if specs != self._specs:
            self._specs = specs
            self._made = tuple(
                mended({"name": spec.name, "description": spec.description, "parameters": spec.schema})
                for spec in specs
            )
        return self._made
