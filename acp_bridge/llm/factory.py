"""Opens the model behind a route.

An adapter's module is imported when its route is opened, and no other: this is the one place in the package where an
import is not at the top, since each SDK costs most of a second, and start-up must not wait for one that the route does
not need.
"""

import importlib
from typing import Any

from acp_bridge.errors import ConfigError

from .demo import DemoModel
from .endpoint import endpoint_of, local_endpoint
from .http_model import HttpModel
from .model import Model
from .options import Options
from .providers import PRESETS
from .recording import Recorder, open_recording
from .routes import EXAMPLES, Route, parse_route
from .scripted import ScriptedModel

_ADAPTERS = {
    "openai": (".openai", "OpenAIChat"),
    "anthropic": (".anthropic", "AnthropicMessages"),
    "local": (".local_model", "LocalModel"),
}


def open_model(route: Route | str, options: Options | None = None) -> Model:
    """Open the model behind a route. No request is made; close it with `aclose`.

    Raises:
        AuthRequired: the provider wants a key and none is set.
        ConfigError: the route, an address or a script is malformed; a model file is missing, or the extra it needs.
    """
    route = parse_route(route) if isinstance(route, str) else route
    options = options or Options()
    match route.provider:
        case "demo":
            return DemoModel()
        case "local":
            return _adapter("local")(local_endpoint(route, options), options.local_environ)
        case "scripted":
            return ScriptedModel(route.model)
        case "replay":
            return open_recording(route.model)
        case "record":
            folder, behind = _recording_target(route)
            return Recorder(open_model(behind, options), folder, secrets=options.keys.values())
        case _:
            endpoint = endpoint_of(route, options)
            return HttpModel(endpoint, _adapter(PRESETS[route.provider].adapter)(endpoint))


def _recording_target(route: Route) -> tuple[str, Route]:
    """Return where `record:FOLDER=ROUTE` writes, and the route that it listens to.

    Raises:
        ConfigError: it names no folder or no route.
    """
    folder, _, behind = route.model.partition("=")
    if not folder or not behind:
        raise ConfigError(f"the route {str(route)!r} must name a folder and a route: write {EXAMPLES['record']!r}")
    return folder, parse_route(behind)


def _adapter(adapter: str) -> Any:
    module, name = _ADAPTERS[adapter]
    return getattr(importlib.import_module(module, __package__), name)
