"""Models: the port, and what stands behind each route.

Owns the translation between our request and a provider's, in both directions. Knows no log, no retry and no tool: the
loop retries, and what it is told here is typed so that it can decide. No failure of a provider is raised.
"""

from .border import Border
from .contained import ContainedModel
from .endpoint import Endpoint
from .local_servers import LOCAL_PROVIDERS, LocalServer, detect_local, models_at
from .model import Delta, Failed, Finished, Model, StopCause, TextDelta, ThoughtDelta, ToolDelta
from .opaque import Kept
from .replay import Recorder
from .routes import (
    PRESETS,
    AuthRequired,
    ModelSettings,
    Options,
    Preset,
    Route,
    is_judged,
    is_provider,
    no_model_configured,
    open_model,
    options_from,
    parse_route,
    takes_images,
    thought_levels,
)
from .script import Script, script_from
from .scripted import ScriptedModel

__all__ = [
    "LOCAL_PROVIDERS",
    "PRESETS",
    "AuthRequired",
    "Border",
    "ContainedModel",
    "Delta",
    "Endpoint",
    "Failed",
    "Finished",
    "Kept",
    "LocalServer",
    "Model",
    "ModelSettings",
    "Options",
    "Preset",
    "Recorder",
    "Route",
    "Script",
    "ScriptedModel",
    "StopCause",
    "TextDelta",
    "ThoughtDelta",
    "ToolDelta",
    "detect_local",
    "is_judged",
    "is_provider",
    "models_at",
    "no_model_configured",
    "open_model",
    "options_from",
    "parse_route",
    "script_from",
    "takes_images",
    "thought_levels",
]
