"""ACP behaviour: handlers, updates, and the client's side.

Owns what each method does and in which order a client is told. Knows neither which store nor which model there is.

Decision: this face holds the handshake alone, which answers `initialize` with nothing heavy imported. The rest,
`acp_bridge.bridge.bridge`, is imported by the warm-up once that answer is out, and whatever came meanwhile waits.
"""

from .handshake import Handshake

__all__ = ["Handshake"]
