"""Models: the port, and what stands behind each route.

Owns the translation between our request and a provider's, in both directions. Knows no log, no retry and no tool: the
loop retries, and what it is told here is typed so that it can decide. No failure of a provider is raised.
"""

from .model import Delta, Failed, Finished, Model, StopCause, TextDelta, ThoughtDelta, ToolDelta

__all__ = ["Delta", "Failed", "Finished", "Model", "StopCause", "TextDelta", "ThoughtDelta", "ToolDelta"]
