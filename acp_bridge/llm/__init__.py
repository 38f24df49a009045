"""Models: the port, and what stands behind each route.

Owns the translation between our request and a provider's, in both directions. Knows no log, no retry and no tool: the
loop retries, and what it is told here is typed so that it can decide. No failure of a provider is raised.
"""

from acp_bridge.options import ModelSettings

from .contained import ContainedModel
from .endpoint import Endpoint, is_judged
from .factory import open_model
from .facts import takes_images, thought_levels
from .local_servers import LOCAL_PROVIDERS, LocalServer, detect_local, models_at
from .model import Delta, Failed, Finished, Model, StopCause, TextDelta, ThoughtDelta, ToolDelta
from .opaque import Kept
from .options import Options, options_from
from .providers import PRESETS, Preset
from .recording import Recorder
from .routes import AuthRequired, Route, is_provider, no_model_configured, parse_route
from .sanitizer import Sanitizer
from .script import Script
from .script_parser import script_from
from .scripted import ScriptedModel

Border = Sanitizer
"""Its name through 0.1, kept through 0.2."""

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
    "Sanitizer",
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
