"""Requests to the client, whose answer may never come.

Owns what a hang-up means to whoever waits. Knows no method.
"""

from typing import Any, Final

import anyio

from acp_bridge.rpc import Disconnected, Peer

_END_COMES_S: Final = 5.0


async def asked(peer: Peer, method: str, params: Any) -> Any:
    """Ask the client and return its result.

    A client that has hung up has refused nothing: the turn is about to be cancelled because the program ends, and that
    is what its log has to say. So the waiter is kept until it is cancelled.

    Raises:
        RpcError: the client answered with an error, or hung up and nothing ended the turn.
    """
    try:
        return await peer.request(method, params)
    except Disconnected:
        await anyio.sleep(_END_COMES_S)
        raise
