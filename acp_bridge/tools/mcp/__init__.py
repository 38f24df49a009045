"""MCP servers of a session, over stdio: started under guard, spoken to, their tools offered as tools of the port.

Owns a server's life, the names and bounds of what it offers, and the words of its results and failures. Knows no client
and no log. Whatever a server does, hangs, floods, dies or lies, it does to itself: what it sends is bounded in memory
and in pace, what it offers is data, and its annotations are not believed.

Decision: of the official SDK the handshake and the correlation of requests are used. The transport is ours, since the
SDK's holds a line of any length and starts a task for each request of the server; results are read here, since the
SDK checks them against a schema of the server's, in the event loop and for as long as its regular expressions take.

Decision: `client` alone imports the SDK, which takes a second; it is imported by `servers`, once there is a server.

Decision: a list of tools is read once at each start. What a server says of it later is not heeded: a definition that
changes behind a permission given for it would have to be disabled, and the prefix of the model's requests stays what it
was. Where a server that was started again defines a tool in another way, grants for the old definition do not hold, and
a call that was asked for by the old one is not made.
"""

from .servers import McpServers
from .spec import McpOptions, ServerSpec

__all__ = ["McpOptions", "McpServers", "ServerSpec"]
