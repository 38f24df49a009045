"""What users test with: a scripted client, and the contract suites that a part of one's own has to pass.

Owns what stands outside an agent. Knows the wire and the ports, and no bridge.
"""

from .client import Client, allowing, connected, running_agent

__all__ = ["Client", "allowing", "connected", "running_agent"]
